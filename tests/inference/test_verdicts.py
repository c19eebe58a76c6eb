"""Verdicts: what each word means, their order, and that a result carries them wherever it goes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcape import (
    PCA,
    Exact,
    Federation,
    Independent,
    JointICA,
    Mean,
    Replay,
    TopicModel,
    documents,
    in_process,
    rows,
    subjects,
)
from dpcape.errors import UndeterminedWarning
from dpcape.postprocessing.verdicts import (
    DETERMINED,
    NOT_DETERMINED,
    UNCERTAIN,
    Verdict,
    at_most_uncertain,
    numbered,
    of_clearance,
    of_coefficients,
    of_parts,
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


def test_parts_are_mixed_with_directions_that_are_noise() -> None:
    names, strengths = list("abc"), [9.0, 2.5, 7.0]
    clear = of_parts(names, strengths, 1.0, eigenvalues=np.array([3.0, 2.0, 1.5]), floor=1.0)
    assert _words(clear) == [DETERMINED, DETERMINED, DETERMINED]
    mixed = of_parts(names, strengths, 1.0, eigenvalues=np.array([3.0, 2.0, 0.5]), floor=1.0)
    assert _words(mixed) == [UNCERTAIN, NOT_DETERMINED, UNCERTAIN]
    weak = of_parts(names, strengths, 3.0, eigenvalues=np.array([3.0, 2.0, 1.5]), floor=1.0)
    assert _words(weak) == [DETERMINED, NOT_DETERMINED, DETERMINED]


def test_components_found_together_are_judged_together() -> None:
    for clearance, word in ((1.0, NOT_DETERMINED), (1.3, UNCERTAIN), (1.6, DETERMINED), (math.nan, UNCERTAIN)):
        assert _words(of_clearance(["a", "b"], clearance, 1.2, 1.34)) == [word, word]
    assert _words(of_clearance(["a"], 1.6, 2.2, 1.34)) == [NOT_DETERMINED]


@pytest.mark.filterwarnings("ignore::dpcape.errors.UtilityWarning")
def test_neither_topics_nor_components_are_found_in_noise() -> None:
    """Documents without topics and normal rows, with little and much privacy noise: no false finding in 40 fits.

    At a level of 5% forty fits have five or more false findings with a probability of 5%; none is asked for here, since
    both rules are conservative (0 of 280 in simulation).
    """
    generator = np.random.default_rng(2)
    for seed in range(10):
        counts = generator.multinomial(10, np.full(15, 1 / 15), size=1000)
        for epsilon in (1.0, 50.0):
            made = Federation(in_process({"here": documents(counts)}, noise=Replay(seed)), protocol=Independent())
            topics = TopicModel(2, epsilon=epsilon, delta=1e-5, document_length=10).fit(made)
            assert DETERMINED not in _words(topics.verdicts_)
            held = subjects([generator.normal(size=(1000, 2))], bound=4.0, unit="record")
            made = Federation(in_process({"here": held}, noise=Replay(seed)), protocol=Independent())
            found = JointICA(2, epsilon=epsilon, delta=1e-5, basis=np.eye(2)).fit(made)
            assert DETERMINED not in _words(found.verdicts_)


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
    with pytest.warns(UndeterminedWarning, match="nothing in this result"):
        model = _Judged(epsilon=1.0, delta=1e-5).fit(federation)
    assert any("nothing in this result" in text for text in model.warnings_)
