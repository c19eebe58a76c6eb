"""Correlations: that they are right, that intervals cover, and that unrelated columns are not found."""

from __future__ import annotations

import csv
import importlib.util
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from dpcape import Cape, Correlation, Exact, Federation, Independent, Replay, in_process, rows, table, views
from dpcape.core.errors import InvalidParameter, UtilityWarning
from dpcape.estimators.views.correlation_tests import CLIPPING, correlations_of, holm, sampling_variance
from dpcape.postprocessing.component_tests import MomentNoise

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}


def _experiment() -> Any:
    path = Path(__file__).parents[2] / "experiments" / "everyday" / "correlation.py"
    spec = importlib.util.spec_from_file_location("correlation_experiment", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


EXPERIMENT = _experiment()


def _data(n_records: int, width: int = 4, seed: int = 0) -> Any:
    cell = EXPERIMENT.Cell(n_records, width, 1.0, as_given=True)
    return EXPERIMENT.population(cell, np.random.default_rng(seed))


def _alone(X: Any, *, protocol: Any = None, seed: int = 0, **options: Any) -> Federation:
    held = rows(X, **{"bound": 8.0, **options})
    return Federation(in_process({"here": held}, noise=Replay(seed)), protocol=protocol or Exact())


@pytest.mark.parametrize("scale", ["private", "none"])
def test_without_noise_and_clipping_they_are_those_of_numpy(scale: str) -> None:
    data = _data(3000) * [1.0, 5.0, 0.1, 1.0] + [0.0, 2.0, 0.0, -1.0]
    model = Correlation(**BUDGET, scale=scale).fit(_alone(data, bound=1000.0))
    # About 2% of the rows are clipped.
    np.testing.assert_allclose(model.correlations_, np.corrcoef(data, rowvar=False), atol=0.02)
    np.testing.assert_allclose(model.correlations_, model.correlations_.T)
    np.testing.assert_array_equal(np.diag(model.correlations_), 1.0)


def test_the_errors_are_those_of_simulated_noise() -> None:
    # Standard deviations of 4000 draws have an error of 1.1%: one of three is off by 8% with probability below 1e-9.
    generator = np.random.default_rng(1)
    covariance = np.array([[1.0, 0.5, 0.1], [0.5, 1.0, -0.3], [0.1, -0.3, 2.0]])
    mean, scale, mean_scale = np.array([0.1, -0.2, 0.3]), 0.03, 0.04
    draws = []
    for _ in range(4000):
        noise = generator.standard_normal((3, 3)) * scale
        noise = np.triu(noise, 1) / np.sqrt(2)
        noise = noise + noise.T + np.diag(generator.standard_normal(3) * scale)
        seen = mean + generator.standard_normal(3) * mean_scale
        released = covariance + np.outer(mean, mean) + noise - np.outer(seen, seen)
        draws.append(correlations_of(released, MomentNoise(scale, mean_scale, seen, 0.0)).values)
    stated = correlations_of(covariance, MomentNoise(scale, mean_scale, mean, 0.0))
    above = np.triu_indices(3, 1)
    ratio = np.std(draws, axis=0)[above] / stated.errors[above]
    assert (np.abs(ratio - 1) < 0.08).all()
    np.testing.assert_allclose(np.mean(draws, axis=0)[above], stated.values[above], atol=0.01)


def test_where_noise_hides_a_variance_nothing_is_known() -> None:
    covariance = np.diag([1.0, 0.1, 1.0]) + 0.05
    found = correlations_of(covariance, MomentNoise(0.05, 0.0, np.zeros(3), 1e-4))
    low, high = found.interval(0.95)
    assert (low[1, [0, 2]], high[1, [0, 2]]) == (pytest.approx(-1.0), pytest.approx(1.0))
    assert found.p_values()[1, 0] == 1.0
    assert found.p_values()[0, 2] < 1
    assert low[0, 2] > -1


def test_intervals_allow_for_clipping() -> None:
    found = correlations_of(np.eye(2) + CLIPPING * (1 - np.eye(2)), MomentNoise(0.0, 0.0, np.zeros(2), 1e-12))
    assert found.interval(0.95)[0, 0, 1] <= 0
    assert found.p_values()[0, 1] == 1.0


def test_adjusted_p_values_are_those_of_holm() -> None:
    np.testing.assert_allclose(holm(np.array([0.01, 0.04, 0.03, 0.005])), [0.03, 0.06, 0.06, 0.02])


@pytest.mark.parametrize(
    "cell",
    [
        EXPERIMENT.Cell(800, 5, 3.0),
        EXPERIMENT.Cell(5000, 5, 1.0, "t"),
        EXPERIMENT.Cell(3000, 5, 3.0, EXPERIMENT.MIXED),
    ],
    ids=str,
)
def test_intervals_cover(cell: Any) -> None:
    # A coverage of 0.95 is refused with probability below 0.001.
    assert EXPERIMENT.coverage(cell, 60)["share"] * 60 >= binom.ppf(0.001, 60, 0.95)


@pytest.mark.parametrize("shape", ["exponential", EXPERIMENT.MIXED])
def test_unrelated_columns_are_not_found(shape: str) -> None:
    # A level of 0.05 is refused with probability below 0.001.
    found = EXPERIMENT.level(EXPERIMENT.Cell(3000, 5, 3.0, shape, related=False), 60)
    assert max(found["share"], found["one pair"]) * 60 <= binom.isf(0.001, 60, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("cell", EXPERIMENT.COVERED, ids=str)
def test_coverage_holds(cell: Any) -> None:
    # All cells together fail with probability at most 0.01 if every coverage is 0.95.
    assert EXPERIMENT.coverage(cell, 300)["p_value"] >= EXPERIMENT.FAMILY / len(EXPERIMENT.COVERED)


@pytest.mark.slow
@pytest.mark.parametrize("cell", EXPERIMENT.LEVELS, ids=str)
def test_levels_hold(cell: Any) -> None:
    assert EXPERIMENT.level(cell, 300)["p_value"] >= EXPERIMENT.FAMILY / len(EXPERIMENT.LEVELS)


def test_a_useless_matrix_says_so() -> None:
    data = _data(833, 40)
    with pytest.warns(UtilityWarning, match="These correlations are useless"):
        model = Correlation(**BUDGET, scale="none").fit(_alone(data, bound=8.0, protocol=Independent()))
    assert not any(verdict.word == "determined" for verdict in model.verdicts_)
    low, high = model.interval_
    assert (high - low)[np.triu_indices(40, 1)].mean() > 1


def test_no_pair_is_determined_where_the_bound_may_have_made_it_correlate() -> None:
    """Unrelated columns away from zero: clipping to the bound correlates them, and without a bound nothing does."""
    data = np.random.default_rng(7).normal(1.0, 0.3, (5000, 2))
    clipped = Correlation(**BUDGET).fit(_alone(data, bound=1.3, protocol=Independent()))
    assert clipped.adjusted_p_values_[0, 1] < 1e-6
    assert clipped.verdicts_[0].word == "uncertain"
    whole = Correlation(**BUDGET).fit(_alone(data, ranges=[(-1, 3)] * 2, protocol=Independent()))
    assert whole.adjusted_p_values_[0, 1] > 0.05


def test_strong_correlations_are_determined_and_written(tmp_path: Path) -> None:
    data = _data(8000, 3)
    options = {"ranges": [(-6, 6)] * 3, "feature_names": ["age", "dose", "time"]}
    model = Correlation(**BUDGET).fit(_alone(data, protocol=Independent(), **options))
    words = {verdict.quantity: verdict.word for verdict in model.verdicts_}
    assert words == {"age and dose": "determined", "age and time": "determined", "dose and time": "determined"}
    value, low, high = model.between("age", "dose")
    assert low < 0.6 < high
    assert value == model.between(0, 1)[0] == pytest.approx(0.6, abs=0.1)
    written = list(csv.DictReader(io.StringIO(model.to_csv(tmp_path / "results.csv"))))
    assert (tmp_path / "results.csv").read_text("utf-8") == model.to_csv()
    assert [(row["name"], row["part"]) for row in written][-1] == ("dose", "time")
    assert float(written[0]["low"]) == pytest.approx(low, rel=1e-5)
    model.save(tmp_path / "model.npz")
    np.testing.assert_array_equal(Correlation.load(tmp_path / "model.npz").interval_, model.interval_)
    assert [text.get_text() for text in model.plot().get_xticklabels()] == ["age", "dose", "time"]
    with pytest.raises(InvalidParameter, match="A column must be one of the names"):
        model.between("age", "weight")


def test_views_and_several_sites() -> None:
    data = _data(6000, 4)
    held = {
        f"site-{at}": views(part[:, :2], 100 * part[:, 2:], bounds=(4.0, 400.0))
        for at, part in enumerate(np.array_split(data, 3))
    }
    federation = Federation(in_process(held, noise=Replay(3)), protocol=Cape(n_colluding=1))
    model = Correlation(**BUDGET).fit(federation)
    np.testing.assert_allclose(model.correlations_, np.corrcoef(data, rowvar=False), atol=0.15)


def _simulated_phi(generator: np.random.Generator, both: float, shares: tuple[float, float], n_records: int) -> Any:
    """Return correlations of two levels in simulated tables of two by two."""
    first, second = shares
    cells = generator.multinomial(
        n_records, [both, first - both, second - both, 1 - first - second + both], size=20_000
    )
    own, other = cells[:, 0] + cells[:, 1], cells[:, 0] + cells[:, 2]
    spread = np.sqrt(own * (n_records - own) * other * (n_records - other) + 1e-9)
    return (n_records * cells[:, 0] - own * other) / spread


@pytest.mark.parametrize(("both", "shares"), [(0.015, (0.03, 0.03)), (0.02, (0.1, 0.05)), (0.2, (0.5, 0.3))])
def test_levels_have_the_sampling_variance_of_tables_of_two_by_two(both: float, shares: tuple[float, float]) -> None:
    # The variance of 20,000 draws has an error of about 1.5%, and the formula is that of many records.
    simulated = _simulated_phi(np.random.default_rng(5), both, shares, 5000)
    value = float(np.mean(simulated))
    correlations = np.array([[1.0, value], [value, 1.0]])
    of_levels = 5000 * float(np.var(simulated))
    allowed = sampling_variance(correlations, np.array(shares))[0, 1]
    assert allowed > of_levels
    # Of numbers less is allowed for than rare levels vary.
    of_numbers = sampling_variance(correlations, np.full(2, np.nan))[0, 1]
    assert (of_numbers < of_levels) == (max(shares) < 0.2)


LEVELS = {"dose": (0, 10), "age": (20, 80), "arm": ["new", "old"], "stage": ["i", "ii", "iii"]}


def _patients(n_records: int, seed: int = 3) -> dict[str, Any]:
    generator = np.random.default_rng(seed)
    age = generator.normal(50, 10, n_records)
    arm = generator.choice(np.array(["new", "old"], dtype=object), n_records)
    dose = 5 + (age - 50) / 20 + (arm == "old") + generator.normal(0, 0.8, n_records)
    stage = np.array(["i", "ii", "iii"], dtype=object)[np.clip(dose - 4, 0, 2.99).astype(int)]
    return {"dose": dose, "age": age, "arm": arm, "stage": stage}


def _held(data: dict[str, Any], protocol: Any = None) -> Federation:
    sites = in_process({"here": table(data, columns=LEVELS)}, noise=Replay(1))
    return Federation(sites, protocol=protocol or Independent())


def test_columns_of_a_table_without_noise_are_those_of_numpy() -> None:
    data = _patients(4000)
    missing = np.random.default_rng(1).random(4000) < 0.2
    data["age"][missing] = np.nan
    data["arm"][::10] = None
    model = Correlation(**BUDGET, columns=list(LEVELS)).fit(_held(data, Exact()))
    kept = ~missing & np.array([value is not None for value in data["arm"]])
    levels = [data["arm"] == "old", *(data["stage"] == level for level in ("i", "ii", "iii"))]
    numbers = np.column_stack([data["dose"], data["age"], *levels]).astype(float)[kept]
    assert model.columns_.tolist() == ["dose", "age", "arm: old", "stage: i", "stage: ii", "stage: iii"]
    assert model.complete_share_ == pytest.approx(kept.mean())
    # About 2% of the rows are clipped.
    np.testing.assert_allclose(model.correlations_, np.corrcoef(numbers, rowvar=False), atol=0.02)
    np.testing.assert_allclose(model.mean_, numbers.mean(axis=0), rtol=0.02)


def test_rare_levels_have_larger_errors_in_rows_too() -> None:
    generator = np.random.default_rng(8)
    first = generator.random(20_000) < 0.03
    second = np.where(generator.random(20_000) < 0.6, first, generator.random(20_000) < 0.03)
    ranges = {"first": {"levels": [0, 1]}, "second": {"levels": [0, 1]}}
    data = {"first": first.astype(int), "second": second.astype(int)}
    federation = Federation(in_process({"here": rows(data, ranges=ranges)}, noise=Replay(0)), protocol=Exact())
    model = Correlation(**BUDGET, scale="none").fit(federation)
    assert model.columns_.tolist() == ["first=0", "first=1", "second=0", "second=1"]
    allowed = sampling_variance(model.correlations_, np.full(4, np.nan))[1, 3]
    assert model.standard_errors_[1, 3] ** 2 * 20_000 > 2 * allowed


def test_levels_of_one_category_are_not_tested() -> None:
    model = Correlation(epsilon=3.0, delta=1e-5, columns=["dose", "arm", "stage"]).fit(_held(_patients(6000)))
    words = {verdict.quantity: verdict.word for verdict in model.verdicts_}
    assert len(words) == len(list(csv.DictReader(io.StringIO(model.to_csv())))) == 10 - 3
    assert words["dose and arm: old"] == "determined"
    stages = model.adjusted_p_values_[2:, 2:]
    assert np.isnan(stages[~np.eye(3, dtype=bool)]).all()
    assert model.between("dose", "stage: iii")[0] > 0.4


def test_numbers_of_a_table_are_as_exact_as_rows() -> None:
    data = _patients(5000)
    of_table = Correlation(**BUDGET).fit(_held(data))
    assert of_table.columns_.tolist() == ["dose", "age"]
    ranges = [LEVELS["dose"], LEVELS["age"]]
    held = rows(np.column_stack([data["dose"], data["age"]]), ranges=ranges)
    of_rows = Correlation(**BUDGET).fit(Federation(in_process({"here": held}), protocol=Independent()))
    assert of_table.standard_errors_[0, 1] == pytest.approx(of_rows.standard_errors_[0, 1], rel=0.3)


def test_where_noise_hides_the_number_of_complete_records_nothing_is_known() -> None:
    data = _patients(2000)
    data["age"][5:] = np.nan
    with pytest.warns(UtilityWarning):
        model = Correlation(**BUDGET).fit(_held(data))
    assert (model.interval_[0, 0, 1], model.interval_[1, 0, 1]) == (-1, 1)
    assert model.verdicts_[0].word != "determined"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["dose"], "at least two columns"),
        (["dose", "weight"], "columns must name numbers, or categories"),
        (["dose", "dose"], "different column names"),
        ([], "at least two columns"),
    ],
)
def test_bad_columns_of_a_table_are_refused(columns: list[str], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        Correlation(**BUDGET, columns=columns).fit(_held(_patients(50)))


def test_what_is_not_a_table_has_no_columns_to_name() -> None:
    with pytest.raises(InvalidParameter, match="columns must be None"):
        Correlation(**BUDGET, columns=["dose", "age"]).fit(_alone(_data(50)))
    federation = Federation(
        in_process({site: table(_patients(50), columns=LEVELS) for site in ("lima", "oslo")}),
        protocol=Independent(),
        weights={"lima": 0.7, "oslo": 0.3},
    )
    with pytest.raises(InvalidParameter, match="weights of sites must be left out"):
        Correlation(**BUDGET).fit(federation)


@pytest.mark.parametrize(
    ("change", "message"), [({"confidence": 1.0}, "confidence must be"), ({"scale": "robust"}, "scale must be")]
)
def test_bad_parameters_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        Correlation(**BUDGET, **change).fit(_alone(_data(50)))


@pytest.mark.filterwarnings("ignore::dpcape.core.errors.UndeterminedWarning")
def test_correlations_are_covered_where_few_records_vary_far_more_than_others() -> None:
    """200 data sets of unrelated columns: 176 or fewer have a probability below 1e-4 at 0.95; before, 0.80 covered."""
    inside = 0
    for seed in range(200):
        rng = np.random.default_rng([9, seed])
        X = np.where(rng.random((2000, 1)) < 0.1, 1.0, 0.1) * rng.normal(size=(2000, 2))
        held = {"all": rows(X, ranges={"first": (-4, 4), "second": (-4, 4)}, feature_names=["first", "second"])}
        federation = Federation(in_process(held, noise=Replay(seed)), protocol=Independent())
        low, high = Correlation(epsilon=10.0, delta=1e-6).fit(federation).interval_[:, 0, 1]
        inside += bool(low <= 0 <= high) and bool(high - low < 0.5)
    assert inside > 176
