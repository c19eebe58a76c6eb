"""What one record holds, of whatever type, changes nothing of what the other records contribute."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpcape import labelled, rows, table

STRANGE: dict[str, Any] = {
    "text": "x",
    "text of a number": "2",
    "text of a date": "2024-02-29",
    "empty text": "",
    "bytes": b"x",
    "nothing": None,
    "nan": math.nan,
    "infinity": math.inf,
    "true": True,
    "whole": 2,
    "fraction": 2.5,
    "huge": 2**70,
    "decimal": Decimal("2.5"),
    "complex": 1 + 2j,
    "date": datetime.date(2024, 2, 29),
    "moment": np.datetime64("2024-02-29"),
    "list": [1.0],
    "other": object(),
}
NUMBERS, WORDS = [1, 2, 1, 2], ["a", "b", "a", "b"]
DATES = [f"2024-01-{day:02d}" for day in (3, 9, 17, 28)]
FEATURES = [[0.1], [0.2], [0.3], [0.4], [0.5]]

CASES: dict[str, tuple[list[Any], Callable[[list[Any]], Any]]] = {
    "range": (NUMBERS, lambda held: rows({"a": held}, ranges={"a": (0, 4)})),
    "range filled": (NUMBERS, lambda held: rows({"a": held}, ranges={"a": (0, 4)}, missing=3.0)),
    "numbers as levels": (NUMBERS, lambda held: rows({"a": held}, ranges={"a": {"levels": [1, 2]}})),
    "words as levels": (WORDS, lambda held: rows({"a": held}, ranges={"a": ["a", "b"]})),
    "wrong levels": (NUMBERS, lambda held: rows({"a": held}, ranges={"a": ["1", "2"]})),
    "other wrong levels": (WORDS, lambda held: rows({"a": held}, ranges={"a": {"levels": [1, 2]}})),
    "dates": (DATES, lambda held: rows({"a": held}, ranges={"a": ("2024-01-01", "2025-01-01")})),
    "list of rows": (NUMBERS, lambda held: rows([[value, 1.0] for value in held], bound=3.0)),
    "table of numbers": (NUMBERS, lambda held: table({"a": held}, columns={"a": (0, 4)})),
    "table of levels": (NUMBERS, lambda held: table({"a": held}, columns={"a": {"levels": [1, 2]}})),
    "table of words": (WORDS, lambda held: table({"a": held}, columns={"a": ["a", "b"]})),
    "table of wrong levels": (NUMBERS, lambda held: table({"a": held}, columns={"a": ["1", "2"]})),
    "table of dates": (DATES, lambda held: table({"a": held}, columns={"a": ("2024-01-01", "2025-01-01")})),
    "response": (NUMBERS, lambda held: labelled(FEATURES[: len(held)], held, bound=1.0, response=(0, 4))),
    "classes": (NUMBERS, lambda held: labelled(FEATURES[: len(held)], held, bound=1.0, classes=[1, 2])),
    "words as classes": (WORDS, lambda held: labelled(FEATURES[: len(held)], held, bound=1.0, classes=["a", "b"])),
    "wrong classes": (NUMBERS, lambda held: labelled(FEATURES[: len(held)], held, bound=1.0, classes=["1", "2"])),
}
FRAMES = ("range", "numbers as levels", "words as levels", "wrong levels", "other wrong levels", "dates")
TABLES = ("table of numbers", "table of levels", "table of words", "table of wrong levels", "table of dates")


def _read(records: Any) -> np.ndarray:
    """Return everything that statistics see of the records, one row each."""
    parts = []
    for block in records.blocks(2):
        pair = block if isinstance(block, tuple) else (block,)
        parts.append(np.column_stack([np.asarray(part, dtype=float) for part in pair]))
    return np.concatenate(parts) if parts else np.empty((0, records.n_features + (records.kind == "labelled")))


def _check(make: Callable[[list[Any]], Any], usual: list[Any], strange: Any) -> None:
    alone, together = make(usual), make([*usual, strange])
    expected, found = _read(alone), _read(together)
    assert together.n_invalid - alone.n_invalid in (0, 1)
    assert len(found) - len(expected) in (0, 1)
    np.testing.assert_array_equal(found[: len(expected)], expected)


@pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("strange", STRANGE)
@pytest.mark.parametrize("case", CASES)
def test_one_entry_of_a_list_changes_no_other_record(case: str, strange: str) -> None:
    usual, make = CASES[case]
    _check(make, usual, STRANGE[strange])


@pytest.mark.filterwarnings(
    "ignore::dpcape.core.errors.UtilityWarning", "ignore::RuntimeWarning", "ignore::FutureWarning"
)
# A frame makes all numbers of a column complex itself.
@pytest.mark.parametrize("strange", [name for name in STRANGE if name != "complex"])
@pytest.mark.parametrize("case", [*FRAMES, *TABLES])
def test_one_entry_of_a_frame_changes_no_other_record(case: str, strange: str) -> None:
    usual, _ = CASES[case]
    spec: dict[str, Any] = {
        "range": (0, 4),
        "numbers as levels": {"levels": [1, 2]},
        "words as levels": ["a", "b"],
        "wrong levels": ["1", "2"],
        "other wrong levels": {"levels": [1, 2]},
        "dates": ("2024-01-01", "2025-01-01"),
        "table of numbers": (0, 4),
        "table of levels": {"levels": [1, 2]},
        "table of words": ["a", "b"],
        "table of wrong levels": ["1", "2"],
        "table of dates": ("2024-01-01", "2025-01-01"),
    }

    def make(held: list[Any]) -> Any:
        frame = pd.DataFrame({"a": held})
        return table(frame, columns={"a": spec[case]}) if case in TABLES else rows(frame, ranges={"a": spec[case]})

    _check(make, usual, STRANGE[strange])
