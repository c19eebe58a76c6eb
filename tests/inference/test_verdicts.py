"""Verdicts: what each word means, their order, and that a result carries them wherever it goes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.intervals import verdicts as null_studies

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
from dpcape.core.errors import UndeterminedWarning
from dpcape.estimators.clusters.kmeans import centre_errors
from dpcape.estimators.networks.gradient_rounds import gradient_of_noise
from dpcape.postprocessing.verdicts import (
    DETERMINED,
    NOT_DETERMINED,
    UNCERTAIN,
    Verdict,
    at_most_uncertain,
    numbered,
    of_between_sites,
    of_centres,
    of_clearance,
    of_coefficients,
    of_discoveries,
    of_parts,
    of_ranges,
    of_strengths,
    of_tests,
    summary,
    warning_of,
)
from dpcape.statistics.clusters import ClusterMeans


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


def test_a_ratio_is_determined_by_an_interval_without_one() -> None:
    low, high = np.array([0.0, 1.1, 0.5, 0.9, 0.0, 1.2]), np.array([math.inf, 1.3, 0.8, 1.1, 0.7, math.inf])
    found = of_coefficients(list("abcdef"), low, high, none=1)
    assert _words(found) == [NOT_DETERMINED, DETERMINED, DETERMINED, UNCERTAIN, DETERMINED, DETERMINED]
    reasons = ["unknown", "from 1.1 to 1.3 excludes 1", "from 0.5 to 0.8 excludes 1", "from 0.9 to 1.1 contains 1"]
    reasons += ["of 0.7 or less excludes 1", "of 1.2 or more excludes 1"]
    assert [entry.reason for entry in found] == [f"interval {reason}" for reason in reasons]


def test_no_reason_has_an_infinite_figure() -> None:
    ends = np.array([0.0, -math.inf, 0.5]), np.array([math.inf, math.inf, math.inf])
    found = of_coefficients(list("abc"), *ends) + of_between_sites(list("abc"), *np.maximum(ends, 0), np.ones(3))
    found += of_centres(["a", "b"], np.zeros((2, 1)), np.ones(2), farthest=1.0)
    assert not [entry for entry in found if "inf" in entry.reason]


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


@pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning")
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


def test_centres_are_compared_with_the_way_to_the_next() -> None:
    centres = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 5.0]])
    found = of_centres(list("abc"), centres, np.array([0.1, 0.1, 0.1]), farthest=6.0)
    assert _words(found) == [DETERMINED, DETERMINED, DETERMINED]
    found = of_centres(list("abc"), centres, np.array([0.3, 0.4, 0.1]), farthest=6.0)
    assert _words(found) == [UNCERTAIN, UNCERTAIN, DETERMINED]
    found = of_centres(list("abc"), centres, np.array([0.7, 0.4, math.inf]), farthest=6.0)
    assert _words(found) == [NOT_DETERMINED, NOT_DETERMINED, NOT_DETERMINED]
    # Two at the same place, and one that has nothing to be compared with.
    assert _words(of_centres(list("ab"), np.zeros((2, 3)), np.zeros(2), farthest=1.0)) == [NOT_DETERMINED] * 2
    assert _words(of_centres(["a"], np.zeros((1, 3)), np.array([0.1]), farthest=1.0)) == [DETERMINED]


def test_the_error_of_a_centre_holds_for_all_together() -> None:
    """Simulated rounds of four clusters in three columns: some centre is off by more in 5% of rounds at most.

    Of 2,000 rounds 150 or more would be off with a probability below 1e-6 if 5% are.
    """
    generator, scale, length = np.random.default_rng(8), 0.01, 1.0
    shares = np.array([0.4, 0.3, 0.2, 0.1])
    places = generator.normal(size=(4, 3))
    places /= np.linalg.norm(places, axis=1)[:, None]
    off = 0
    for _ in range(2000):
        released = ClusterMeans(
            shares + scale / length * generator.normal(size=4),
            places * shares[:, None] + scale * generator.normal(size=(4, 3)),
        )
        errors = centre_errors(released, scale=scale, length=length)
        moved = np.linalg.norm(released.sums / released.shares[:, None] - places, axis=1)
        off += bool((moved > errors).any())
    assert off < 150


def test_gradients_of_noise_are_as_long_as_is_said() -> None:
    """Noise alone: the mean gradient of some number of rounds is longer in 5% of studies at most.

    Of 2,000 studies 150 or more would be longer with a probability below 1e-6 if 5% are.
    """
    generator = np.random.default_rng(9)
    reached = gradient_of_noise(12, 20, scale=1.0, sampling=0.0)
    assert list(reached) == [1, 2, 4, 8, 16]
    longer = 0
    for _ in range(2000):
        means = np.cumsum(generator.normal(size=(20, 12)), axis=0) / np.arange(1, 21)[:, None]
        longer += any(np.linalg.norm(means[number - 1]) > length for number, length in reached.items())
    assert longer < 150


QUICK = [
    ("kmeans", "all rows equal", 3, 500, 1.0, False),
    ("kmeans", "all rows equal", 12, 2000, 10.0, False),
    ("mixture", "one component", 3, 500, 1.0, False),
    ("mixture", "one component", 12, 5000, 10.0, False),
    ("network", "linear, random labels", 3, 500, 1.0, False),
    ("network", "linear, random labels", 3, 500, 30.0, False),
]
THERE = [
    ("kmeans", "three clusters", 3, 5000, 3.0, True),
    ("mixture", "two components", 3, 5000, 3.0, True),
    ("network", "linear, a linear rule", 3, 5000, 3.0, True),
]


@pytest.mark.parametrize("cell", QUICK, ids=str)
def test_clusters_mixtures_and_networks_are_not_found_in_noise(cell: tuple[Any, ...]) -> None:
    """Thirty studies without anything to find: nine or more false findings have a probability of 1e-5 at 5%."""
    assert null_studies.run(null_studies.Cell(*cell), 30, seed=7) < 9


@pytest.mark.parametrize("cell", THERE, ids=str)
def test_what_is_there_is_found(cell: tuple[Any, ...]) -> None:
    assert null_studies.run(null_studies.Cell(*cell), 3, seed=7) == 3


def test_no_stored_cell_has_too_many_false_findings() -> None:
    results = [row for row in json.loads(null_studies.FILE.read_text("utf-8")) if not row["there"]]
    assert {row["cell"] for row in results} == {cell.label for cell in null_studies.grid() if not cell.there}
    assert min(row["p_value"] for row in results) >= 0.01 / len(results)


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
    model = PCA(1, epsilon=1.0, delta=1e-5, center=False).fit(_federation(data, Exact()))
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


def test_open_intervals_are_told_in_words() -> None:
    low, high = np.array([0.37, -np.inf, -np.inf, 0.1]), np.array([np.inf, 0.2, np.inf, 0.5])
    reasons = [verdict.reason for verdict in of_discoveries("abcd", np.full(4, 0.2), low, high)]
    assert reasons == [
        f"q = 0.2, d {reach}" for reach in ("of 0.37 or more", "of 0.2 or less", "unknown", "from 0.1 to 0.5")
    ]
