"""Verdicts: what each word means, their order, and that a result carries them wherever it goes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcape import PCA, Exact, Federation, Independent, Mean, in_process, rows
from dpcape.errors import UtilityWarning
from dpcape.postprocessing.verdicts import (
    DETERMINED,
    NOT_DETERMINED,
    UNCERTAIN,
    Verdict,
    at_most_uncertain,
    numbered,
    of_coefficients,
    of_ranges,
    of_strengths,
    of_tests,
    summary,
    warning_of,
)


def _words(verdicts: list[Verdict]) -> list[str]:
    return [entry.word for entry in verdicts]


def test_no_component_is_judged_better_than_an_earlier_one() -> None:
    found = of_tests(numbered("component", 5), [0.005, 0.05, 0.1, 0.005, 0.9])
    assert _words(found) == [DETERMINED, DETERMINED, UNCERTAIN, UNCERTAIN, NOT_DETERMINED]
    assert found[0].quantity == "component 1"
    assert _words(of_tests(["a", "b"], [0.5, 0.005])) == [NOT_DETERMINED, NOT_DETERMINED]


def test_a_coefficient_is_determined_by_an_interval_without_zero() -> None:
    low = np.array([0.1, -0.3, -0.1, -math.inf, -3.0, -3.0])
    high = np.array([0.3, -0.1, 0.1, math.inf, 3.0, -0.1])
    expected = [DETERMINED, DETERMINED, UNCERTAIN, NOT_DETERMINED, NOT_DETERMINED, DETERMINED]
    assert _words(of_coefficients(list("abcdef"), low, high, effect_bound=3.0)) == expected
    assert _words(of_coefficients(list("abcdef"), low, high))[4] == UNCERTAIN


def test_a_mean_is_judged_by_its_range_and_by_clipping() -> None:
    half = np.array([0.05, 0.3, 0.8, 0.05])
    found = of_ranges(list("abcd"), half, np.ones(4), clipped=np.array([0.0, 0.0, 0.8, 0.04]))
    assert _words(found) == [DETERMINED, UNCERTAIN, NOT_DETERMINED, UNCERTAIN]
    assert "clipping" in found[3].reason


def test_strengths_are_compared_with_what_noise_reaches() -> None:
    assert _words(of_strengths(list("abc"), [-2.1, 1.5, 0.2], 2.0)) == [DETERMINED, UNCERTAIN, NOT_DETERMINED]


def test_unknown_influences_leave_nothing_determined() -> None:
    found = at_most_uncertain([Verdict("a", DETERMINED, "p"), Verdict("b", NOT_DETERMINED)], "why")
    assert _words(found) == [UNCERTAIN, NOT_DETERMINED]
    assert "why" in found[0].reason
    assert not at_most_uncertain([], "why")


def test_sentences_count_and_name() -> None:
    many = of_tests(numbered("pair", 9), [0.01] * 4 + [0.5] * 5)
    assert summary(many) == "Of 9 quantities, 4 are determined and 5 are not determined."
    text = warning_of(many)
    assert "5 of 9" in text
    assert "pair 5, pair 6, pair 7 and 2 more" in text
    assert not warning_of(many[:4])
    assert not warning_of([])
    assert "nothing in this result" in warning_of(many[4:])
    assert not summary([])


def _federation(data: Any, protocol: Any) -> Federation:
    return Federation(in_process({"here": rows(data, bound=1.0, invalid="refuse")}), protocol=protocol)


def test_verdicts_are_saved_and_loaded(tmp_path: Path) -> None:
    data = np.random.default_rng(0).normal(size=(400, 3)) * [0.5, 0.1, 0.1]
    model = PCA(1, epsilon=1.0, delta=1e-5).fit(_federation(data, Exact()))
    model.verdicts_ = [Verdict("component 1", DETERMINED, "p = 0.005")]
    model.save(tmp_path / "model.npz")
    assert PCA.load(tmp_path / "model.npz").verdicts_ == model.verdicts_


class _Judged(Mean):
    """A mean of which nothing is ever determined."""

    def _fit(self, federation: Any, private: Any) -> None:
        super()._fit(federation, private)
        self.verdicts_ = [Verdict("all", NOT_DETERMINED)]


def test_a_result_in_which_nothing_is_determined_warns_and_keeps_the_warning() -> None:
    federation = _federation(np.zeros((50, 2)), Independent())
    with pytest.warns(UtilityWarning, match="nothing in this result"):
        model = _Judged(epsilon=1.0, delta=1e-5).fit(federation)
    assert any("nothing in this result" in text for text in model.warnings_)
