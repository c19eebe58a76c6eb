"""Polynomial losses of one's own: sensitivity, search, minimisation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from dpcape import Cape, Exact, Federation, Independent, PolynomialLoss, Replay, in_process, labelled, rows
from dpcape.core.errors import InvalidParameter
from dpcape.core.facts import PublicFacts
from dpcape.estimators.linear.polynomial import PackedPolynomial
from dpcape.estimators.linear.polynomial_loss import minimise_in_ball
from dpcape.statistics.losses import LinearPredictorLoss, RecordLoss, known_loss
from dpcape.statistics.monomials import monomials, multiplicities, powers
from dpcape.statistics.polynomials import polynomial_coefficients

Vector = NDArray[np.float64]


class _Squared(RecordLoss):
    """(y - x.w)^2 written out degree by degree."""

    degree: ClassVar[int] = 2
    parameter_bound: ClassVar[float] = 3.0

    def coefficients(self, rows: Vector, targets: Any, facts: PublicFacts) -> Sequence[Vector]:
        y = np.asarray(targets)[:, np.newaxis]
        return [y**2, -2 * y * rows, multiplicities(rows.shape[1], 2) * powers(rows, 2)]

    def bound(self, facts: PublicFacts) -> float:
        # |(y^2, 2 y x, x x')| for y and |x| up to 1.
        return math.sqrt(6)


@known_loss
class Enforced(_Squared):
    name: ClassVar[str] = "test squared, enforced"


@known_loss
class True4(_Squared):
    name: ClassVar[str] = "test squared, stated"

    def stated_diameter(self, facts: PublicFacts) -> float:
        # The joint sensitivity of the linear functional mechanism (docs/papers/claims.md, functional-joint).
        return 4.0


@known_loss
class TooSmall(_Squared):
    name: ClassVar[str] = "test squared, the dissertation's"

    def stated_diameter(self, facts: PublicFacts) -> float:
        # The largest single degree is 4; 3.9 is not enough for all of them together.
        return 3.9


@known_loss
class Linear(LinearPredictorLoss):
    name: ClassVar[str] = "test squared, computed"
    degree: ClassVar[int] = 2
    parameter_bound: ClassVar[float] = 3.0

    def predictor_coefficients(self, targets: Any, facts: PublicFacts) -> Vector:
        y = np.asarray(targets)
        return np.stack([y**2, -2 * y, np.ones_like(y)], axis=1)

    def intervals(self, facts: PublicFacts) -> Vector:
        return np.array([[0.0, 1.0], [-2.0, 2.0], [1.0, 1.0]])


@known_loss
class Liar(LinearPredictorLoss):
    """Claims a narrow interval for coefficients that are wide: they are clamped to it."""

    name: ClassVar[str] = "test clamped"
    degree: ClassVar[int] = 1
    parameter_bound: ClassVar[float] = 1.0

    def predictor_coefficients(self, targets: Any, facts: PublicFacts) -> Vector:
        return np.stack([np.zeros(len(targets)), 1e6 * np.asarray(targets)], axis=1)

    def intervals(self, facts: PublicFacts) -> Vector:
        return np.array([[0.0, 0.0], [-0.1, 0.1]])


@known_loss
class Location(RecordLoss):
    """|x - w|^2 of rows without a response; its minimiser is the mean."""

    name: ClassVar[str] = "test location"
    degree: ClassVar[int] = 2
    parameter_bound: ClassVar[float] = 1.0

    def coefficients(self, rows: Vector, targets: Any, facts: PublicFacts) -> Sequence[Vector]:
        width = rows.shape[1]
        diagonal = np.array([float(first == second) for first, second in monomials(width, 2)])
        return [np.zeros((len(rows), 1)), -2 * rows, np.tile(diagonal, (len(rows), 1))]

    def weights(self, facts: PublicFacts) -> tuple[float, ...]:
        return (0.0, 1.0, 1.0)

    def bound(self, facts: PublicFacts) -> float:
        return math.sqrt(4 + facts.n_features)

    def stated_diameter(self, facts: PublicFacts) -> float:
        return 4.0


def facts_of(width: int = 3) -> PublicFacts:
    return labelled(np.zeros((1, width)), np.zeros(1), bound=1.0, response=(-1, 1)).facts()


def federation(X: Vector, y: Vector, protocol: Any, seed: int = 0) -> Federation:
    records = {f"site{k}": labelled(X[k::4], y[k::4], bound=1.0, response=(-1, 1)) for k in range(4)}
    return Federation(in_process(records, noise=Replay(seed)), protocol=protocol)


def linear_data(n_records: int = 8000) -> tuple[Vector, Vector]:
    generator = np.random.default_rng(0)
    X = generator.uniform(-0.5, 0.5, (n_records, 3))
    return X, X @ np.array([0.8, -0.5, 0.2]) + generator.normal(0, 0.05, n_records)


# Sensitivity


def test_a_diameter_that_is_too_small_is_found_out_before_anything_is_released() -> None:
    X, y = linear_data(100)
    fed = federation(X, y, Cape(n_colluding=1))
    with pytest.raises(InvalidParameter, match="apart"):
        PolynomialLoss("test squared, the dissertation's", epsilon=1.0, delta=1e-5).fit(fed)


def test_a_true_statement_passes_the_search_and_is_an_assumption() -> None:
    X, y = linear_data(400)
    model = PolynomialLoss("test squared, stated", epsilon=1.0, delta=1e-5).fit(federation(X, y, Independent()))
    assert any("author's diameter" in line for line in model.guarantee_.assumptions)
    assert model.guarantee_.status.startswith("conditional")
    assert "verified" not in model.guarantee_.sentence()
    enforced = PolynomialLoss("test squared, enforced", epsilon=1.0, delta=1e-5).fit(federation(X, y, Independent()))
    assert not any("author's diameter" in line for line in enforced.guarantee_.assumptions)
    assert polynomial_coefficients(facts_of(), loss="test squared, enforced").diameter == pytest.approx(
        2 * math.sqrt(6)
    )
    assert polynomial_coefficients(facts_of(), loss="test squared, stated").diameter == 4.0


def test_the_search_finds_the_extreme_pair() -> None:
    """The joint sensitivity 4 is attained at x = x', y = -y': a search with teeth gets there."""
    from dpcape.statistics.diameter_search import largest_distance

    loss = Enforced()
    found = largest_distance(lambda x, y: loss.packed(x, y, facts_of()), facts_of())
    assert found == pytest.approx(4.0, rel=1e-6)


def test_the_computed_diameter_covers_what_the_search_finds() -> None:
    from dpcape.statistics.diameter_search import largest_distance

    loss = Linear()
    diameters = loss.block_diameters(facts_of())
    np.testing.assert_allclose(diameters, [1.0, 4.0, math.sqrt(2)])
    found = largest_distance(lambda x, y: loss.packed(x, y, facts_of()), facts_of())
    assert 0.8 * loss.stated_diameter(facts_of()) <= found <= loss.stated_diameter(facts_of())


def test_coefficients_outside_their_interval_are_clamped() -> None:
    packed = Liar().packed(np.eye(3), np.array([1.0, -1.0, 0.0]), facts_of())
    lengths = np.linalg.norm(packed, axis=1) / Liar().weights(facts_of())[1]
    np.testing.assert_allclose(lengths, [0.1, 0.1, 0.0], rtol=1e-6)


def test_records_longer_than_the_bound_are_scaled() -> None:
    class Tight(_Squared):
        name: ClassVar[str] = "test tight"

        def bound(self, facts: PublicFacts) -> float:
            return 0.5

    packed = Tight().packed(np.eye(3), np.ones(3), facts_of())
    assert np.linalg.norm(packed, axis=1).max() <= 0.5


def test_the_enforcing_function_may_not_be_replaced_and_names_not_reused() -> None:
    class Sneaky(_Squared):
        name: ClassVar[str] = "test sneaky"

        def packed(self, rows: Vector, targets: Any, facts: PublicFacts) -> Vector:
            return np.ones((len(rows), 10))

    with pytest.raises(InvalidParameter, match="packed"):
        known_loss(Sneaky)
    with pytest.raises(InvalidParameter, match="new"):
        known_loss(Enforced)
    with pytest.raises(InvalidParameter, match="one of"):
        polynomial_coefficients(facts_of(), loss="no such loss")


def test_a_subclass_that_states_its_own_diameter_is_not_called_proved() -> None:
    @known_loss
    class Own(Linear):
        name: ClassVar[str] = "test squared, own statement"

        def stated_diameter(self, facts: PublicFacts) -> float:
            return super().stated_diameter(facts) * 1.5

    assert polynomial_coefficients(facts_of(), loss="test squared, computed").proved
    assert not polynomial_coefficients(facts_of(), loss="test squared, own statement").proved


def test_a_loss_that_gives_no_numbers_is_refused() -> None:
    @known_loss
    class Broken(_Squared):
        name: ClassVar[str] = "test broken"

        def coefficients(self, rows: Vector, targets: Any, facts: PublicFacts) -> Sequence[Vector]:
            return [np.full_like(block, math.nan) for block in super().coefficients(rows, targets, facts)]

    with pytest.raises(InvalidParameter, match="apart"):
        polynomial_coefficients(facts_of(), loss="test broken")


@known_loss
class Singular(_Squared):
    """Finite everywhere but around one row, which the search for large distances does not meet."""

    name: ClassVar[str] = "test singular"
    row: ClassVar[Vector] = np.array([0.123, 0.456, 0.25])

    def coefficients(self, rows: Vector, targets: Any, facts: PublicFacts) -> Sequence[Vector]:
        # Rows are on a grid.
        near = np.abs(rows - self.row).max(axis=1, keepdims=True) < 1e-5
        return [block * np.where(near, np.nan, 1.0) for block in super().coefficients(rows, targets, facts)]


def test_a_record_the_loss_has_no_numbers_for_contributes_zero_and_is_not_told() -> None:
    X, y = linear_data(20)
    statistic = polynomial_coefficients(facts_of(), loss="test singular")
    whole = labelled(np.vstack([X, Singular.row]), np.append(y, 0.5), bound=1.0, response=(-1, 1))
    others = labelled(X, y, bound=1.0, response=(-1, 1))
    np.testing.assert_array_equal(statistic.total(whole), statistic.total(others))


def test_zero_for_want_of_numbers_is_within_the_diameter() -> None:
    """Contributions that lie together far from zero: without numbers for a record, zero is the farthest neighbour."""

    @known_loss
    class Far(LinearPredictorLoss):
        name: ClassVar[str] = "test far from zero"
        degree: ClassVar[int] = 1
        parameter_bound: ClassVar[float] = 1.0

        def predictor_coefficients(self, targets: Any, facts: PublicFacts) -> Vector:
            y = np.asarray(targets)
            with np.errstate(invalid="ignore"):
                return np.column_stack([5.5 + (y - 0.123) / (y - 0.123), 0.1 * y])

        def intervals(self, facts: PublicFacts) -> Vector:
            return np.array([[5.0, 6.5], [-0.1, 0.1]])

        def weights(self, facts: PublicFacts) -> tuple[float, ...]:
            return (1.0, 1.0)

    X, y = linear_data(20)
    statistic = polynomial_coefficients(facts_of(), loss="test far from zero")
    totals = []
    for last in (0.5, 0.123):
        records = labelled(np.vstack([X, np.eye(3)[0]]), np.append(y, last), bound=1.0, response=(-1, 1))
        totals.append(statistic.total(records))
    moved = float(np.linalg.norm(totals[0] - totals[1]))
    assert 6 < moved <= statistic.diameter + statistic.rounding(21)


# Polynomials


def test_packed_polynomials_have_the_value_of_the_loss() -> None:
    X, y = linear_data(50)
    w = np.array([0.3, -0.2, 0.7])
    packed = Enforced().packed(X, y, facts_of()).mean(axis=0)
    polynomial = PackedPolynomial(np.split(packed, [1, 4]), 3)
    assert polynomial.value(w) == pytest.approx(np.mean((y - X @ w) ** 2), rel=1e-12)
    value, slope = polynomial.value_and_slope(w)
    assert value == polynomial.value(w)
    np.testing.assert_allclose(slope, -2 * X.T @ (y - X @ w) / 50, rtol=1e-9)


def test_an_unbounded_polynomial_is_minimised_within_the_ball() -> None:
    falling = PackedPolynomial([np.zeros(0), np.array([0.0, 0.0]), np.array([-1.0, 0.0, -1.0])], 2)
    found = minimise_in_ball(falling, [0.0, 0.0, 0.0], radius=0.5)
    assert np.linalg.norm(found) == pytest.approx(0.5, rel=1e-3)
    assert not minimise_in_ball(falling, [0.0, 0.0, 2.0], radius=0.5).any()


# Flow


@pytest.mark.parametrize("loss", ["test squared, enforced", "test squared, computed"])
def test_without_noise_the_minimiser_is_least_squares(loss: str) -> None:
    X, y = linear_data(500)
    model = PolynomialLoss(loss, epsilon=1.0, delta=1e-5).fit(federation(X, y, Exact()))
    np.testing.assert_allclose(model.coef_, np.linalg.lstsq(X, y, rcond=None)[0], atol=1e-4)


def test_a_loss_of_rows_alone() -> None:
    X = np.random.default_rng(0).normal(0.2, 0.1, (3000, 2))
    records = {f"site{k}": rows(X[k::4], bound=1.0) for k in range(4)}
    fed = Federation(in_process(records, noise=Replay(0)), protocol=Cape(n_colluding=1))
    model = PolynomialLoss("test location", epsilon=3.0, delta=1e-5).fit(fed)
    np.testing.assert_allclose(model.coef_, [0.2, 0.2], atol=0.05)


def test_poisson_regression() -> None:
    """The worked example: close to the maximum-likelihood fit at epsilon 1, never worse than zero parameters."""
    generator = np.random.default_rng(0)
    X = generator.normal(0, 0.3, (12_000, 3))
    X[:, 0] = 0.5
    X *= np.minimum(1, 1 / np.linalg.norm(X, axis=1))[:, None]
    counts = np.clip(generator.poisson(5 * np.exp(X @ [-1.0, 0.7, -0.5])), 0, 12)

    def loss(w: Vector) -> float:
        return float(np.mean(np.exp(X @ w) - counts / 6 * (X @ w)))

    best = minimize(loss, np.zeros(3)).x
    records = {f"site{k}": labelled(X[k::4], counts[k::4], bound=1.0, response=(0, 12)) for k in range(4)}
    for epsilon, share in ((0.1, 0.0), (1.0, 0.85), (10.0, 0.95)):
        for seed in range(3):
            fed = Federation(in_process(records, noise=Replay(seed)), protocol=Cape(n_colluding=1))
            model = PolynomialLoss("poisson", epsilon=epsilon, delta=1e-5).fit(fed)
            gained = (loss(np.zeros(3)) - loss(model.coef_)) / (loss(np.zeros(3)) - loss(best))
            assert gained >= share


def test_counts_must_start_at_zero() -> None:
    with pytest.raises(InvalidParameter, match="counts"):
        polynomial_coefficients(facts_of(), loss="poisson")


def test_models_travel(tmp_path: Any) -> None:
    X, y = linear_data(400)
    model = PolynomialLoss("test squared, computed", epsilon=5.0, delta=1e-5).fit(federation(X, y, Independent()))
    model.save(tmp_path / "loss.npz")
    again = PolynomialLoss.load(tmp_path / "loss.npz")
    np.testing.assert_array_equal(again.predictor(X), model.predictor(X))
