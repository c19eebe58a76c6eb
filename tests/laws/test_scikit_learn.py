"""Estimators are scikit-learn's to its own tools, although they do not extend its classes and do not load it."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import pandas as pd
import polars
import pytest
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.utils import estimator_html_repr, get_tags
from sklearn.utils.validation import check_array, check_is_fitted

from dpcape import CCA, PCA, Exact, Federation, LogisticRegression, Schema, TopicModel, in_process, rows, views
from dpcape.core.errors import InvalidParameter
from dpcape.estimators.new_rows import finite_counts, finite_rows
from dpcape.estimators.parameters import Parameters
from dpcape.factor_release.factor_release import FactorRelease

from .estimator_case import EstimatorCase, all_estimators

pytestmark = pytest.mark.filterwarnings("ignore::dpcape.core.errors.DpcapeWarning")
BUDGET = {"epsilon": 1.0, "delta": 1e-5}
NUMBERS = 0.3 * np.random.default_rng(5).normal(size=(60, 3))
COLUMNS = ["age", "weight", "dose"]
TABLE = pd.DataFrame(NUMBERS, columns=COLUMNS, index=[f"p{number}" for number in range(60)])


def unfitted() -> PCA:
    return PCA(2, **BUDGET)


@pytest.fixture(scope="module")
def model() -> PCA:
    records = {site: rows(TABLE, bound=1.0) for site in ("lima", "lyon", "oslo")}
    return unfitted().fit(Federation(in_process(records), protocol=Exact()))


class Theirs(TransformerMixin, BaseEstimator):
    """A transformer of scikit-learn with the same scores."""

    def __init__(self, own: PCA) -> None:
        self.own = own

    def fit(self, X: object, y: object = None) -> Self:
        return self

    def transform(self, X: Any) -> Any:
        return (np.asarray(X) - self.own.mean_) @ self.own.components_.T

    def get_feature_names_out(self, input_features: object = None) -> Any:
        return self.own.get_feature_names_out()


class Search(Parameters):
    """An estimator with an estimator as parameter, fitted to rows so that searches can be run."""

    def __init__(self, own: PCA, shift: float = 0.0) -> None:
        self.own, self.shift = own, shift

    def fit(self, X: object, y: object = None) -> Self:
        self.seen_ = (self.own.epsilon, self.shift)
        return self

    def score(self, X: object, y: object = None) -> float:
        return -abs(self.seen_[0] - 3.0) - abs(self.seen_[1] - 1.0)


@pytest.mark.parametrize("case", all_estimators(), ids=str)
def test_parameters_are_those_that_scikit_learn_finds(case: EstimatorCase) -> None:
    own = case.make(*BUDGET.values())
    given = own.get_params(deep=False)
    theirs = type(type(own).__name__, (BaseEstimator,), {"__init__": type(own).__init__})(**given)
    assert list(own.get_params()) == list(theirs.get_params())
    assert all(value is given[name] for name, value in theirs.get_params(deep=False).items())
    # Longer ones are broken elsewhere.
    assert repr(own) == repr(theirs) or "\n" in repr(theirs)
    assert is_classifier(own) is is_regressor(own) is False


def test_the_representation_names_what_differs_from_the_defaults() -> None:
    assert repr(unfitted()) == "PCA(delta=1e-05, epsilon=1.0, n_components=2)"
    assert repr(Search(unfitted())) == f"Search(own={unfitted()!r})"
    long = repr(PCA(2, epsilon={f"site-{number:03}": 1.0 for number in range(99)}, delta=1e-5))
    assert "..." in long
    assert len(long) < 800
    assert "<code>FactorRelease(n_factors=3)</code>" in FactorRelease(3)._repr_mimebundle_()["text/html"]


def test_parameters_of_parameters_are_set_by_their_names() -> None:
    search = Search(unfitted())
    assert search.get_params()["own__epsilon"] == 1.0
    assert "own__epsilon" not in search.get_params(deep=False)
    other = unfitted()
    search.set_params(own__epsilon=5.0, own=other, shift=2.0)
    assert search.own is other
    assert (other.epsilon, search.shift) == (5.0, 2.0)
    for wrong in ("sift", "own__sigma"):
        with pytest.raises(InvalidParameter, match=r"A parameter of \w+ must be one of .*; got '(sift|sigma)'\."):
            search.set_params(**{wrong: 1.0})


def test_a_search_sets_parameters_on_clones() -> None:
    search = Search(unfitted())
    found = GridSearchCV(search, {"own__epsilon": [1.0, 3.0], "shift": [0.0, 1.0]}, cv=2).fit(NUMBERS)
    assert found.best_params_ == {"own__epsilon": 3.0, "shift": 1.0}
    assert found.best_estimator_.seen_ == (3.0, 1.0)
    assert search.own.epsilon == 1.0


def test_a_constructor_that_changes_a_parameter_is_not_cloned() -> None:
    class Changed(Parameters):
        def __init__(self, names: tuple[str, ...] = ()) -> None:
            self.names = list(names)

    with pytest.raises(InvalidParameter, match="store the parameter names as it is given"):
        clone(Changed())


def test_tags_and_fitted_state(model: PCA) -> None:
    assert get_tags(model).transformer_tags is not None
    assert get_tags(model).target_tags.required is False
    assert get_tags(LogisticRegression(**BUDGET)).transformer_tags is None
    assert get_tags(Theirs(model)).input_tags == get_tags(model).input_tags
    check_is_fitted(model)
    for unready in (unfitted(), clone(model), FactorRelease(2)):
        with pytest.raises(NotFittedError):
            check_is_fitted(unready)
    # A fit that failed half-way leaves attributes behind, and no guarantee.
    broken = copy.copy(model)
    del broken.guarantee_
    with pytest.raises(NotFittedError):
        check_is_fitted(broken)


@pytest.mark.parametrize("chosen", [None, "default", "pandas", "polars"])
@pytest.mark.parametrize("configured", ["default", "pandas", "polars"])
@pytest.mark.parametrize(
    "data", [NUMBERS, TABLE, polars.DataFrame(NUMBERS, schema=COLUMNS)], ids=lambda X: str(type(X))
)
def test_output_is_what_scikit_learn_would_give(model: PCA, data: Any, configured: str, chosen: str | None) -> None:
    own, theirs = copy.copy(model).set_output(transform=chosen), Theirs(model).set_output(transform=chosen)
    with sklearn.config_context(transform_output=configured):
        found, wanted = own.transform(data), theirs.transform(data)
        assert type(found) is type(wanted)
        if isinstance(wanted, pd.DataFrame):
            pd.testing.assert_frame_equal(found, wanted)
        elif isinstance(wanted, polars.DataFrame):
            assert found.equals(wanted)
        else:
            np.testing.assert_array_equal(found, wanted)
    schema = Schema.of(dict.fromkeys(COLUMNS, (-2.0, 2.0))).set_output(transform=chosen)
    with sklearn.config_context(transform_output=configured):
        assert type(schema.transform(TABLE)) is type(theirs.transform(TABLE))


def test_the_choice_of_output_is_kept_by_copies(model: PCA) -> None:
    made = copy.copy(model).set_output(transform="pandas")
    for same in (copy.deepcopy(made), pickle.loads(pickle.dumps(made)), made.set_output(transform=None)):
        assert isinstance(same.transform(X=NUMBERS), pd.DataFrame)
    fresh = clone(made)
    assert not hasattr(fresh, "guarantee_")
    fresh.__dict__ |= {name: value for name, value in vars(model).items() if name.endswith("_")}
    assert isinstance(fresh.transform(NUMBERS), pd.DataFrame)
    assert isinstance(model.transform(NUMBERS), np.ndarray)
    with pytest.raises(InvalidParameter, match="one of default, pandas, polars; got 'csv'"):
        made.set_output(transform="csv")


def test_of_two_views_the_first_becomes_a_table() -> None:
    records = {site: views(NUMBERS[:, :1], NUMBERS[:, 1:], bounds=(1.0, 1.0)) for site in ("lima", "lyon", "oslo")}
    model = CCA(1, **BUDGET).fit(Federation(in_process(records), protocol=Exact())).set_output(transform="pandas")
    first, second = model.transform(NUMBERS[:, :1], NUMBERS[:, 1:])
    assert list(first.columns) == list(model.get_feature_names_out())
    assert isinstance(second, np.ndarray)
    assert isinstance(model.transform(NUMBERS[:, :1]), pd.DataFrame)


def test_pipelines_and_unions(model: PCA) -> None:
    scores = model.transform(NUMBERS)
    pipeline = make_pipeline(Theirs(model).set_output(transform="default"), "passthrough")
    pipeline.steps[0] = ("pca", copy.copy(model))
    for enabled in (False, True):
        with sklearn.config_context(enable_metadata_routing=enabled):
            np.testing.assert_array_equal(pipeline.transform(NUMBERS), scores)
    table = pipeline.set_output(transform="pandas").transform(TABLE)
    assert list(table.index) == list(TABLE.index)
    assert list(pipeline.get_feature_names_out()) == ["pca0", "pca1"]
    union = FeatureUnion([("own", copy.copy(model)), ("theirs", Theirs(model))]).set_output(transform="pandas")
    assert list(union.transform(TABLE).columns) == ["own__pca0", "own__pca1", "theirs__pca0", "theirs__pca1"]
    assert "PCA" in estimator_html_repr(pipeline)
    assert "PCA" in estimator_html_repr(model)
    assert "PCA" in repr(pipeline)


ODD: dict[str, Callable[[], Any]] = {
    "numbers": lambda: NUMBERS[:2],
    "in single precision": lambda: NUMBERS[:2].astype(np.float32),
    "by columns": lambda: np.asfortranarray(NUMBERS[:3]),
    "whole": lambda: [[1, 2], [3, 4]],
    "Booleans": lambda: [[True, False]],
    "written numbers": lambda: [["1.5", "2"]],
    "words": lambda: [["a", "b"]],
    "large": lambda: [[1e308, 1e308], [1e308, 1e308]],
    "not a number": lambda: [[1.0, np.nan]],
    "infinity": lambda: [[1.0, np.inf]],
    "opposite infinities": lambda: [[-np.inf, np.inf]],
    "None": lambda: None,
    "an empty entry": lambda: [[1.0, None]],
    "one row": lambda: NUMBERS[0],
    "one number": lambda: 1.0,
    "three dimensions": lambda: np.zeros((2, 2, 2)),
    "no rows": lambda: NUMBERS[:0],
    "no columns": lambda: NUMBERS[:, :0],
    "ragged": lambda: [[1.0], [1.0, 2.0]],
    "complex": lambda: NUMBERS + 1j,
    "complex with no imaginary part": lambda: NUMBERS + 0j,
    "a list of complex": lambda: [[1j]],
    "a matrix": lambda: np.matrix(NUMBERS),
    "a sparse array": lambda: sparse.csr_array(NUMBERS),
    "a sparse matrix": lambda: sparse.csr_matrix(NUMBERS),
    "named fields": lambda: np.array([(1, 2)], dtype=[("a", int), ("b", int)]),
}


@pytest.mark.filterwarnings("ignore:invalid value", "ignore:the matrix subclass")
@pytest.mark.parametrize("name", ODD)
def test_new_rows_are_accepted_and_refused_as_by_scikit_learn(name: str) -> None:
    try:
        wanted = check_array(ODD[name](), dtype=np.float64)
    except (TypeError, ValueError):
        with pytest.raises(
            InvalidParameter, match=r"^Data must be .* finite numbers; got invalid data \(.+\)\. .*Mend it"
        ):
            finite_rows(ODD[name](), "Data", "Mend it.")
        return
    found = finite_rows(ODD[name](), "Data", "Mend it.")
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, wanted)


COUNTS = np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]])
SPARSE: dict[str, Callable[[], Any]] = {
    "by rows": lambda: sparse.csr_array(COUNTS),
    "by columns": lambda: sparse.csc_array(COUNTS),
    "by entries": lambda: sparse.coo_matrix(COUNTS),
    "whole": lambda: sparse.csr_array(COUNTS.astype(np.int32)),
    "zeros": lambda: sparse.csr_array((2, 3)),
    "not a number": lambda: sparse.csr_array(np.array([[np.nan, 1.0]])),
    "infinity": lambda: sparse.csr_array(np.array([[np.inf, 1.0]])),
    "complex": lambda: sparse.csr_array(COUNTS + 1j),
    "no rows": lambda: sparse.csr_array((0, 3)),
    "no columns": lambda: sparse.csr_array((3, 0)),
    "one row": lambda: sparse.coo_array(np.ones(3)),
}


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_counts_are_accepted_and_refused_as_by_scikit_learn(name: str) -> None:
    try:
        wanted = check_array(SPARSE[name](), accept_sparse="csr", dtype=np.float64)
    except (TypeError, ValueError):
        with pytest.raises(InvalidParameter, match=r"finite numbers; got invalid data \(.+\)\. Mend it"):
            finite_counts(SPARSE[name](), "counts", "Mend it.")
        return
    found = finite_counts(SPARSE[name](), "counts", "Mend it.")
    assert isinstance(found, sparse.csr_array)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found.toarray(), wanted.toarray())


def test_a_number_that_no_float_holds_is_refused_in_words() -> None:
    with pytest.raises(InvalidParameter, match="too large"):
        finite_rows([[10**400]], "Data", "Mend it.")


def test_topics_take_sparse_counts_and_components_do_not(model: PCA) -> None:
    topics = TopicModel(2, **BUDGET)
    topics.guarantee_, topics.topics_, topics.weights_ = (
        None,
        np.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]]),
        np.full(2, 0.5),
    )
    np.testing.assert_allclose(topics.transform(sparse.coo_array(COUNTS)), topics.transform(COUNTS))
    with pytest.raises(InvalidParameter, match=r"a sparse array\)\. Convert it to an array"):
        model.transform(sparse.csr_array(NUMBERS))
