"""Models know the public schema of their columns: raw tables in, original units out."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas
import polars
import pytest
from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline

from dpcape import (
    CCA,
    PCA,
    Exact,
    Federation,
    Independent,
    KMeans,
    LinearRegression,
    LogisticRegression,
    Mean,
    Replay,
    Schema,
    in_process,
    labelled,
    rows,
    views,
)
from dpcape.core.errors import DpcapeWarning, InvalidParameter, UtilityWarning

COLUMNS = {
    "age": {"range": (20, 90), "unit": "years", "missing": 55},
    "weight": {"range": (40, 140), "unit": "kg"},
    "sex": ["F", "M"],
}


def people(n: int = 300, seed: int = 0) -> pandas.DataFrame:
    rng = np.random.default_rng(seed)
    return pandas.DataFrame(
        {
            "id": np.arange(n),
            "sex": rng.choice(["F", "M"], n),
            "age": rng.uniform(25, 85, n),
            "weight": rng.uniform(50, 130, n),
        }
    )


def pressure(frame: pandas.DataFrame) -> np.ndarray:
    wobble = 3 * np.cos(7.0 * np.arange(len(frame)))
    return np.asarray(100 + 0.5 * frame["age"] + 0.2 * frame["weight"] + 4.0 * (frame["sex"] == "M") + wobble)


def federation(records: object) -> Federation:
    return Federation(in_process({"lyon": records}), protocol=Exact())


@pytest.fixture(scope="module")
def regression() -> LinearRegression:
    frame = people()
    columns = {name: COLUMNS[name] for name in ("age", "weight")} | {"sex": ["M"]}
    y = pressure(frame)
    # With the same release of all moments, an exact protocol gives least squares.
    return LinearRegression(epsilon=1.0, delta=1e-6).fit(
        federation(labelled(frame, y, ranges=columns, response=(80, 220)))
    )


@pytest.fixture(scope="module")
def components() -> PCA:
    return PCA(2, epsilon=1.0, delta=1e-6, center=True).fit(federation(rows(people(), ranges=COLUMNS)))


def as_mapping(frame: pandas.DataFrame) -> dict[str, list[object]]:
    return {str(name): frame[name].tolist() for name in frame.columns}


@pytest.mark.parametrize("form", [lambda frame: frame, polars.from_pandas, as_mapping])
def test_raw_tables_give_what_prepared_rows_give(components: PCA, form: object) -> None:
    frame = people(20, seed=1)
    prepared = Schema.of(COLUMNS).apply(frame)
    expected = components.transform(prepared)
    assert np.allclose(components.transform(form(frame)), expected)
    # In any order, with further columns: they are found by name.
    assert np.allclose(components.transform(form(frame[["weight", "sex", "age"]])), expected)


def test_a_missing_value_is_filled_as_at_the_sites_or_refused(components: PCA) -> None:
    frame = people(3, seed=2)
    frame.loc[1, "age"] = np.nan
    filled = frame.assign(age=frame["age"].fillna(55))
    assert np.allclose(components.transform(frame), components.transform(filled))
    frame.loc[1, "weight"] = np.nan
    with pytest.raises(InvalidParameter, match="'weight' must not have missing values"):
        components.transform(frame)


def test_a_column_that_is_absent_is_named(components: PCA) -> None:
    with pytest.raises(InvalidParameter, match="'weight'"):
        components.transform(people(3).drop(columns="weight"))


def test_prepared_values_under_raw_names_are_noticed(components: PCA) -> None:
    frame = people(5)
    frame["age"] = (frame["age"] - 55) / 35
    with pytest.warns(UtilityWarning, match="'age' for PCA must be in original units"):
        components.transform(frame)


def test_prepared_tables_are_not_prepared_again(components: PCA) -> None:
    frame = people(8, seed=3)
    schema = Schema.of(COLUMNS).set_output(transform="pandas")
    prepared = schema.transform(frame)
    assert list(prepared.columns) == ["scaled__age", "scaled__weight", "sex=F", "sex=M"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.allclose(components.transform(prepared), components.transform(frame))


def test_schema_travels_with_the_file(components: PCA, tmp_path: Path) -> None:
    components.save(tmp_path / "pca.npz")
    loaded = PCA.load(tmp_path / "pca.npz")
    assert loaded.schemas_in_ == components.schemas_in_ == (Schema.of(COLUMNS),)
    frame = people(5, seed=4)
    assert np.array_equal(loaded.transform(frame), components.transform(frame))
    assert loaded.units_.names == ("years", "kg", "", "")


def test_dates_and_numeric_levels_survive_the_file(tmp_path: Path) -> None:
    ranges = {"seen": {"range": ["2020-01-01", "2024-12-31"]}, "stage": {"levels": [1, 2, 3], "missing": 2}}
    frame = pandas.DataFrame({"seen": ["2021-05-01", "2023-02-03"] * 10, "stage": [1, 3] * 10})
    model = PCA(1, epsilon=1.0, delta=1e-6, center=False).fit(federation(rows(frame, ranges=ranges)))
    model.save(tmp_path / "model")
    loaded = PCA.load(tmp_path / "model")
    assert loaded.schemas_in_[0] is not None
    assert loaded.schemas_in_[0].digest() == Schema.of(ranges).digest()
    assert np.allclose(loaded.transform(frame), model.transform(Schema.of(ranges).apply(frame)))


def test_coefficients_in_original_units(regression: LinearRegression) -> None:
    frame = people()
    design = np.column_stack([np.ones(len(frame)), frame["age"], frame["weight"], frame["sex"] == "M"]).astype(float)
    # Without noise and clipping these are the least squares of the raw columns.
    intercept, *slopes = np.linalg.lstsq(design, pressure(frame), rcond=None)[0]
    assert np.allclose(regression.original_coef_, slopes)
    assert np.isclose(regression.original_intercept_, intercept)
    low, high = regression.original_interval_
    assert (low <= [0.5, 0.2, 4.0]).all()
    assert (high >= [0.5, 0.2, 4.0]).all()


def test_predictions_take_raw_tables(regression: LinearRegression) -> None:
    frame = people(10, seed=6)
    assert np.allclose(regression.predict(frame), pressure(frame), atol=5)
    assert regression.score(frame, pressure(frame)) > 0.8


def test_components_and_centres_in_original_units(components: PCA) -> None:
    frame = people(300)
    means = frame[["age", "weight"]].mean().to_numpy()
    assert np.allclose(components.original_mean_[:2], means)
    scores = components.transform(frame[:1])
    moved = components.inverse_transform(scores + np.array([[1.0, 0.0]])) - components.inverse_transform(scores)
    assert np.allclose(components.units_.steps(moved)[0], components.original_components_[0])
    clusters = KMeans(2, epsilon=1.0, delta=1e-6).fit(federation(rows(frame, ranges=COLUMNS)))
    assert np.allclose(Schema.of(COLUMNS).ranges[0].low, 20)
    centres = clusters.original_cluster_centers_
    assert ((centres[:, 0] >= 20) & (centres[:, 0] <= 90)).all()
    assert np.allclose((centres[:, 0] - 55) / 35, clusters.cluster_centers_[:, 0])


def test_each_view_has_its_own_schema(tmp_path: Path) -> None:
    frame, ranges = people(400), ({"age": (20, 90)}, {"weight": (40, 140), "sex": ["F", "M"]})
    records = views(frame[["age"]], frame[["weight", "sex"]], ranges=ranges)
    model = CCA(1, epsilon=1.0, delta=1e-6, center=False).fit(federation(records))
    model.save(tmp_path / "cca")
    model = CCA.load(tmp_path / "cca")
    expected = model.transform(Schema.of(ranges[0]).apply(frame), Schema.of(ranges[1]).apply(frame))
    for got, wanted in zip(model.transform(frame, frame), expected, strict=True):
        assert np.allclose(got, wanted)
    assert np.allclose(model.original_x_weights_, model.x_weights_ / 35)
    assert np.allclose(model.original_y_weights_[0], model.y_weights_[0] / 50)
    assert np.allclose(model.original_y_weights_[1:], model.y_weights_[1:])


def test_set_output_gives_tables(components: PCA) -> None:
    frame = people(4, seed=7).set_index("id")
    made = clone(components)
    # A clone has no fit; its output is chosen by itself.
    made.__dict__.update(components.__dict__)
    table = made.set_output(transform="pandas").transform(frame)
    assert list(table.columns) == ["pca0", "pca1"]
    assert list(table.index) == list(frame.index)
    assert isinstance(made.set_output(transform="polars").transform(frame), polars.DataFrame)
    with pytest.raises(InvalidParameter, match="fit_transform must not be used"):
        components.fit_transform(frame)


def test_a_schema_is_the_first_step_of_a_pipeline(regression: LinearRegression, components: PCA) -> None:
    frame = people(6, seed=8)
    columns = {name: COLUMNS[name] for name in ("age", "weight")} | {"sex": ["M"]}
    pipeline = make_pipeline(Schema.of(columns), regression)
    assert np.allclose(pipeline.predict(frame), regression.predict(frame))
    assert pipeline.score(frame, pressure(frame)) > 0.8
    scored = Pipeline([("schema", Schema.of(COLUMNS)), ("pca", components)])
    table = scored.set_output(transform="pandas").transform(frame)
    components.set_output(transform="default")
    assert np.allclose(table, components.transform(frame))
    assert "Schema" in repr(scored)
    assert clone(Schema.of(COLUMNS)) == Schema.of(COLUMNS)
    with pytest.raises(InvalidParameter, match="stay as it was agreed"):
        Schema.of(COLUMNS).set_params(named=False)


@pytest.mark.parametrize(
    ("classes", "kind"), [([0, 1], "i"), ([1.5, 2.5], "f"), ([False, True], "b"), (["well", "ill"], "U")]
)
def test_classes_are_predicted_as_they_are_at_the_sites(classes: list[object], kind: str, tmp_path: Path) -> None:
    x = np.linspace(-1, 1, 400)[:, np.newaxis]
    y = np.array(classes)[(x[:, 0] > 0).astype(int)]
    records = labelled(x, y, bound=1.0, classes=classes)
    model = LogisticRegression(epsilon=1.0, delta=1e-6, purpose="prediction", n_iter=0).fit(federation(records))
    model.save(tmp_path / "model")
    model = LogisticRegression.load(tmp_path / "model")
    predicted = model.predict([[-0.9], [0.9]])
    assert predicted.dtype.kind == kind
    assert predicted.tolist() == classes
    assert model.score(x, y) > 0.95


def test_figures_are_in_original_units_with_their_noise(regression: LinearRegression, components: PCA) -> None:
    rows = {(row.quantity, row.name): row for row in regression.result().rows}
    age = rows["coefficient", "age"]
    assert (age.estimate, age.low, age.high) == pytest.approx(
        (regression.original_coef_[0], *regression.original_interval_[:, 0])
    )
    assert age.unit == "per years"
    assert rows["coefficient of the prepared column", "age"].estimate == pytest.approx(regression.coef_[0])
    middle, zero = (row for row in regression.result().rows if row.quantity == "intercept")
    assert zero.estimate == pytest.approx(regression.original_intercept_)
    # Nothing is said of how exact the intercept far outside the ranges is.
    assert np.isnan([zero.low, zero.high]).all()
    assert np.isfinite([middle.low, middle.high]).all()
    moved = [row for row in components.result().rows if row.quantity == "loading, original units"]
    assert [row.unit for row in moved[:4]] == ["years", "kg", "", ""]
    assert [row.estimate for row in moved[:4]] == pytest.approx(components.original_components_[0])


def test_noise_of_figures_is_that_of_the_release() -> None:
    # Means of 60 fits have the standard deviation that is stated, within four standard errors (1 in 16,000).
    frame = people(200)
    noise, found = [], []
    for seed in range(60):
        line = in_process({"lyon": rows(frame, ranges=COLUMNS)}, noise=Replay(seed))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DpcapeWarning)
            model = Mean(epsilon=1.0, delta=1e-6).fit(Federation(line, protocol=Independent()))
        age = next(row for row in model.result().rows if (row.quantity, row.name) == ("mean", "age"))
        noise.append(age.noise_sd)
        found.append(age.estimate)
    spread = np.std(found, ddof=1) / np.mean(noise)
    assert abs(spread - 1) < 4 / np.sqrt(2 * 59)


def test_methods_name_columns_and_guarantee(regression: LinearRegression) -> None:
    text = regression.methods()
    for words in ("300 records of the site lyon", "age (20 to 90 years)", "sex (M)", "age by 55", "95%", "No noise"):
        assert words in text


def test_units_are_checked_and_part_of_the_digest() -> None:
    plain = Schema.of({"age": (20, 90)})
    assert Schema.of({"age": {"range": (20, 90), "unit": "years"}}).digest() != plain.digest()
    for unit in ("x" * 41, 3, "a\nb"):
        with pytest.raises(InvalidParameter, match="unit of column 'age'"):
            Schema.of({"age": {"range": (20, 90), "unit": unit}})
    with pytest.raises(InvalidParameter, match="left out for levels"):
        Schema.of({"sex": {"levels": ["F", "M"], "unit": "years"}})
