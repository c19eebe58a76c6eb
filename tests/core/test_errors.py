"""Errors carry fields that programs read, and one sentence that people read."""

from __future__ import annotations

import ast
import copy
import pickle
from pathlib import Path

import pytest

import dpcape
from dpcape.core import errors
from dpcape.core.errors import (
    DamagedFile,
    DpcapeError,
    Failed,
    InvalidMessage,
    InvalidParameter,
    LedgerRefused,
    MissingExtra,
    ProtocolError,
    error_named,
)

SOURCES = Path(dpcape.__file__).parent
KINDS = {name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, DpcapeError)}
# Defined where they are raised.
NAMES = {*KINDS, "NotFitted", "NotSeparated", "ReleaseMissing"}
EXAMPLES = (
    InvalidParameter("epsilon", "be positive", 0.0, "Write for example 1.0."),
    InvalidParameter("shares", "sum to at most 1"),
    InvalidParameter("'rounds' is not a field", remedy="Did you mean 'n_iter'?"),
    InvalidMessage("a frame", "be bytes", "str"),
    Failed("The run failed", "the disk is full", "Free some space."),
    Failed("The vault does not answer"),
    LedgerRefused("The study was refused", "it is not approved", "Ask for approval."),
    DamagedFile("'model.npz' could not be read", "it ends early"),
    MissingExtra("The package dask", "dask"),
)
SENTENCES = (
    "epsilon must be positive; got 0.0. Write for example 1.0.",
    "shares must sum to at most 1.",
    "'rounds' is not a field. Did you mean 'n_iter'?",
    "a frame must be bytes; got str.",
    "The run failed because the disk is full. Free some space.",
    "The vault does not answer.",
    "The study was refused because it is not approved. Ask for approval.",
    "'model.npz' could not be read because it ends early.",
    "The package dask is not installed. Run: pip install 'dpcape[dask]'.",
)


@pytest.mark.parametrize(("error", "sentence"), list(zip(EXAMPLES, SENTENCES, strict=True)))
def test_one_sentence_is_made_of_the_fields(error: DpcapeError, sentence: str) -> None:
    assert str(error) == sentence


@pytest.mark.parametrize("error", EXAMPLES)
def test_copies_keep_all_fields_and_the_place(error: DpcapeError) -> None:
    located = error.at("mine.toml, line 3")
    assert str(located) == f"mine.toml, line 3: {error}"
    assert str(located.at("lyon")) == f"lyon: {located}"
    assert error.where == ""
    for same in (copy.copy(located), pickle.loads(pickle.dumps(located))):
        assert type(same) is type(error)
        assert vars(same) == vars(located)


def test_a_remedy_is_added_only_where_there_is_none() -> None:
    assert str(InvalidParameter("a", "be b", "c").at("here", "Do d.")) == "here: a must be b; got c. Do d."
    assert str(InvalidParameter("a", "be b", "c", "Do e.").at("here", "Do d.")) == "here: a must be b; got c. Do e."


def test_callers_may_catch_what_python_calls_such_errors() -> None:
    assert issubclass(InvalidParameter, ValueError)
    assert issubclass(MissingExtra, ImportError)
    assert issubclass(InvalidMessage, ProtocolError)


@pytest.mark.parametrize("name", sorted(KINDS))
def test_an_error_of_another_party_is_shown_as_it_was_told(name: str) -> None:
    told = "The release was refused because it happened before. Start a new run."
    assert str(error_named(name)(told).at("lyon")) == f"lyon: {told}"


def calls_with_one_sentence(text: str) -> list[int]:
    """Return the lines on which an error is made of one literal that has more fields than one."""
    lines = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in NAMES and node.args:
            literals = [part.value for part in ast.walk(node.args[0]) if isinstance(part, ast.Constant)]
            sentence = " ".join(part for part in literals if isinstance(part, str))
            is_literal = isinstance(node.args[0], ast.Constant | ast.JoinedStr)
            if is_literal and any(mark in sentence for mark in (" because ", ". ", "; got ")) and len(node.args) == 1:
                lines.append(node.lineno)
    return lines


def test_no_sentence_holds_what_a_field_should() -> None:
    """Kills: an error that is one sentence again, whose subject or remedy only a reader can find."""
    assert calls_with_one_sentence('raise InvalidParameter("x must be 1; got 2. Do y.")') == [1]
    assert calls_with_one_sentence('raise LedgerRefused(f"{x} failed because of y")') == [1]
    places = [
        f"{path.relative_to(SOURCES)}:{line}"
        for path in sorted(SOURCES.rglob("*.py"))
        for line in calls_with_one_sentence(path.read_text(encoding="utf-8"))
    ]
    assert places == []
