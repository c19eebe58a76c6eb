"""Declared leaks: for neighbours of every kind, all that leaves a site but noised vectors is the same, sizes included.

A neighbour replaces one record or subject: by other values, a missing or infinite one, text, another length, another
label. Everything that crosses is compared: types, texts and lengths of all messages, the charge, and the refusals.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from dpcape import (
    CCA,
    PCA,
    Cape,
    Federation,
    Independent,
    JointICA,
    KMeans,
    Ledger,
    LinearRegression,
    LogisticRegression,
    Replay,
    SecureSum,
    TopicModel,
    documents,
    in_process,
    labelled,
    rows,
    subjects,
    views,
)
from dpcape.core.errors import DpcapeError, DpcapeWarning, InvalidParameter, LedgerRefused
from dpcape.core.messages import Describe, Vector, decode_from_site, decode_to_site, encode
from dpcape.guarantee.guarantee import ALL_VALID
from dpcape.transport.transport import Passing

pytestmark = pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning")
NAN, INF = math.nan, math.inf


def table(n: int = 30, width: int = 4, seed: int = 0) -> list[list[Any]]:
    return (np.random.default_rng(seed).normal(size=(n, width)) * 0.3).tolist()


def with_row(row: list[Any]) -> list[list[Any]]:
    return [row, *table()[1:]]


def series(first: Any) -> list[Any]:
    rng = np.random.default_rng(3)
    return [first, *(rng.laplace(size=(12, 3)) for _ in range(5))]


ROWS = {
    "as it is": table(),
    "other values": with_row([5.0, -5.0, 0.0, 1e300]),
    "missing": with_row([NAN, 0.0, 0.0, 0.0]),
    "none": with_row([None, 0.0, 0.0, 0.0]),
    "infinite": with_row([0.0, -INF, 0.0, 0.0]),
    "text": with_row([0.0, "unknown", 0.0, 0.0]),
    "whole numbers": with_row([1, 0, 0, 0]),
    "truth values": with_row([True, False, True, False]),
    "short": with_row([0.0, 0.0]),
    "long": with_row([0.0] * 9),
    "empty": with_row([]),
}
LABELS = {
    "as it is": ["a", "b"] * 15,
    "other label": ["b", "b", *["a", "b"] * 14],
    "unknown label": ["zebra", "b", *["a", "b"] * 14],
    "missing": [None, "b", *["a", "b"] * 14],
    "number": [7, "b", *["a", "b"] * 14],
}
RESPONSES = {
    "as it is": [0.5] * 30,
    "outside": [99.0, *[0.5] * 29],
    "missing": [NAN, *[0.5] * 29],
    "infinite": [INF, *[0.5] * 29],
    "text": ["?", *[0.5] * 29],
}
PEOPLE = {
    "as it is": series(np.ones((12, 3))),
    "shorter": series(np.ones((5, 3))),
    "longest allowed": series(np.ones((20, 3))),
    "too long": series(np.ones((21, 3))),
    "one time point": series(np.ones((1, 3))),
    "missing": series(np.full((12, 3), NAN)),
    "other voxels": series(np.ones((12, 4))),
    "other type": series(np.ones((12, 3), dtype=np.float32)),
    "whole numbers": series(np.ones((12, 3), dtype=np.int16)),
    "text": series([["a", "b", "c"]]),
    "empty": series(np.ones((0, 3))),
}
POINTS = {
    "as it is": series(np.ones((12, 3))),
    "missing": series(np.vstack([np.full((1, 3), NAN), np.ones((11, 3))])),
    "infinite": series(np.vstack([np.full((1, 3), INF), np.ones((11, 3))])),
}
WORDS = {
    "as it is": [[2, 1, 1, 0, 3]] * 30,
    "other counts": [[0, 0, 9, 9, 9], *[[2, 1, 1, 0, 3]] * 29],
    "short": [[1, 0, 0, 0, 0], *[[2, 1, 1, 0, 3]] * 29],
    "negative": [[-1, 3, 0, 0, 0], *[[2, 1, 1, 0, 3]] * 29],
    "fraction": [[0.5, 3, 0, 0, 0], *[[2, 1, 1, 0, 3]] * 29],
    "missing": [[NAN, 3, 0, 0, 0], *[[2, 1, 1, 0, 3]] * 29],
    "text": [["x", 3, 0, 0, 0], *[[2, 1, 1, 0, 3]] * 29],
}
BUDGET = {"epsilon": 1.0, "delta": 1e-5}
# kind -> (neighbours, how records are built, an analysis of them)
KINDS: dict[str, tuple[dict[str, Any], Callable[..., Any], Callable[[], Any]]] = {
    "rows": (ROWS, lambda X, **o: rows(X, bound=1.0, **o), lambda: PCA(2, **BUDGET)),
    "clusters": (ROWS, lambda X, **o: rows(X, bound=1.0, **o), lambda: KMeans(2, n_iter=3, **BUDGET)),
    "ranges": (
        ROWS,
        lambda X, **o: rows(X, bound=1.0, ranges=[(-1, 1)] * 4, **o),
        lambda: PCA(2, center=True, **BUDGET),
    ),
    "views": (ROWS, lambda X, **o: views(X, table(seed=1), bounds=(1.0, 1.0), **o), lambda: CCA(1, **BUDGET)),
    "classes": (
        LABELS,
        lambda y, **o: labelled(table(), y, bound=1.0, classes=["a", "b"], **o),
        lambda: LogisticRegression(**BUDGET),
    ),
    "labelled rows": (
        ROWS,
        lambda X, **o: labelled(X, LABELS["as it is"], bound=1.0, classes=["a", "b"], **o),
        lambda: LogisticRegression(**BUDGET),
    ),
    "response": (
        RESPONSES,
        lambda y, **o: labelled(table(), y, bound=1.0, response=(0, 1), **o),
        lambda: LinearRegression(**BUDGET),
    ),
    "documents": (WORDS, lambda X, **o: documents(X, **o), lambda: TopicModel(2, **BUDGET)),
    "people": (
        PEOPLE,
        lambda X, **o: subjects(X, bound=3.0, unit="subject", rows_per_subject=20, **o),
        lambda: JointICA(2, n_timepoints=12, insist=True, **BUDGET),
    ),
    "time points": (
        POINTS,
        lambda X, **o: subjects(X, bound=3.0, unit="record", **o),
        lambda: JointICA(2, **BUDGET),
    ),
}


class Listener(Passing):
    """Notes what crosses, without what is noise, keys or signatures."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.crossed: list[Any] = []

    def ask(self, messages_by_site: Any, deadline: float | None) -> Any:
        replies, missing = super().ask(messages_by_site, deadline)
        for site, data in messages_by_site.items():
            kind = type(decode_to_site(data)[1]).__name__
            reply = decode_from_site(replies[site])[1]
            self.crossed.append((site, kind, len(replies[site]), outline(reply)))
        return replies, missing


def outline(reply: Any) -> Any:
    """Return a reply as it may be compared: arrays by type and shape, bytes by length, all else as it is."""
    if isinstance(reply, Vector):
        return ("Vector", reply.array.dtype, reply.array.shape)
    plain = msgspec.to_builtins(reply, builtin_types=(bytes,))
    return (type(reply).__name__, _masked(plain))


def _masked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _masked(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(entry) for entry in value]
    return len(value) if isinstance(value, bytes) else value


def left(kind: str, neighbour: str, protocol: Any, *, again: bool = False, **options: Any) -> tuple[Any, Any, Any]:
    """Return what crossed, what was charged, and the guarantee, of a fit whose first site holds a neighbour."""
    neighbours, build, make = KINDS[kind]
    ledgers = {name: Ledger(epsilon=1.2, delta=1e-5) for name in "abc"}
    held = {name: build(neighbours["as it is" if name != "a" else neighbour], **options) for name in "abc"}
    line = Listener(in_process(held, ledgers=ledgers, noise=Replay(1)))
    federation = Federation(line, protocol=protocol)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DpcapeWarning)
        model = make().fit(federation)
        if again:
            with pytest.raises(LedgerRefused) as refusal:
                make().fit(federation)
            line.crossed.append(str(refusal.value))
    line.crossed.append(outline(decode_from_site(line.ask({"a": encode(Describe())}, None)[0]["a"])[1]))
    # The name of an allowance is random, and the digest of the terms covers it.
    charges = [replace(entry, allowance="", terms="") for entry in ledgers["a"].charges]
    return line.crossed, charges, model


PAIRS = [(kind, name) for kind, (found, _, _) in KINDS.items() for name in found if name != "as it is"]


@pytest.mark.parametrize(("kind", "neighbour"), PAIRS)
def test_neighbours_leave_the_same_behind(kind: str, neighbour: str) -> None:
    protocol = Cape(n_colluding=1) if kind in ("rows", "people") else Independent()
    crossed, charges, model = left(kind, neighbour, protocol, again=kind == "rows")
    expected, expected_charges, reference = left(kind, "as it is", protocol, again=kind == "rows")
    assert crossed == expected
    assert charges == expected_charges
    # What is asked later may follow from noised vectors; the claim does not.
    assert model.guarantee_.public == reference.guarantee_.public
    # Clip radii that follow from noised vectors round the last digits of a sum of squares differently.
    assert model.guarantee_.epsilon == pytest.approx(reference.guarantee_.epsilon, rel=1e-14)
    assert ALL_VALID not in model.guarantee_.public


@pytest.mark.parametrize("protocol", [SecureSum(n_colluding=1), Cape(n_colluding=1), Independent()], ids=repr)
def test_every_protocol_hides_an_invalid_record(protocol: Any) -> None:
    for neighbour in ("missing", "text", "short"):
        crossed, charges, _ = left("rows", neighbour, protocol)
        expected, expected_charges, _ = left("rows", "as it is", protocol)
        assert (crossed, charges) == (expected, expected_charges)


@pytest.mark.parametrize("kind", KINDS)
def test_refusing_makes_it_public_that_all_records_are_valid(kind: str) -> None:
    neighbours, build, _ = KINDS[kind]
    _, _, model = left(kind, "as it is", Independent(), invalid="refuse")
    assert ALL_VALID in model.guarantee_.public
    assert model.uncertain_ == []
    bad = "unknown label" if kind == "classes" else "negative" if kind == "documents" else "missing"
    with pytest.raises(InvalidParameter):
        build(neighbours[bad], invalid="refuse")
    with pytest.raises(DpcapeError, match="invalid must be 'zero' or 'refuse'"):
        build(neighbours["as it is"], invalid="skip")


def test_a_refusal_names_the_ceiling_only() -> None:
    """Neither what was spent before nor what the study would add leaves the site."""
    texts = set()
    for spent in (0.4, 0.7, 0.9):
        ledger = Ledger(epsilon=1.0, delta=1e-5)
        line = in_process({"a": rows(np.eye(3), bound=1.0)}, ledgers={"a": ledger})
        federation = Federation(line, protocol=Independent())
        PCA(1, epsilon=spent, delta=1e-5).fit(federation)
        with pytest.raises(LedgerRefused) as refusal:
            PCA(1, epsilon=0.95, delta=1e-5).fit(federation)
        texts.add(str(refusal.value))
    assert len(texts) == 1
    assert "epsilon 1 at delta 1e-05" in texts.pop()
