"""The functional mechanism for any registered polynomial loss (dissertation, sections 8.1 to 8.3)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from dpcape.analyses.description import Analysis
from dpcape.analyses.polynomial_loss import POLYNOMIAL_LOSS
from dpcape.charts import Forest, drawn_caption
from dpcape.core.arrays import FloatArray
from dpcape.estimators.estimator import FederatedEstimator
from dpcape.estimators.linear.polynomial import PackedPolynomial
from dpcape.estimators.linear.regression_result import PREPARED
from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation
from dpcape.results import Estimates, Result, Section
from dpcape.statistics.diameter_search import halton
from dpcape.statistics.polynomials import polynomial_coefficients

_STARTS, _CLIMBS = 64, 4


class PolynomialLoss(FederatedEstimator):
    """Minimiser of a polynomial loss over the records of all sites, from one release.

    The fit minimises, within the loss's public ball, the released polynomial plus a bound on the noise at parameters of
    that norm. The result is no worse than zero parameters unless the noise exceeds its expected norm.

    Parameters
    ----------
    loss : str
        Name of a loss registered with :func:`~dpcape.statistics.known_loss`, for example "poisson".
    epsilon : float or mapping
        Privacy parameter epsilon of the whole fit: one number for all sites, or one per site.
    delta : float or mapping
        Privacy parameter delta, for all sites or per site; far below one over the number of records.

    Attributes
    ----------
    coef_ : array of shape (n_parameters,)
        Parameters that minimise the loss.
    polynomial_ : array
        Released coefficients, packed, degree by degree.
    improvement_ : float
        Released loss at zero minus released loss at ``coef_``.
    noise_scale_ : float
        Standard deviation of the noise per weighted packed coefficient.

    Privacy
    -------
    One release of all degrees jointly. The diameter is twice the loss's bound, which sites enforce; or the one the
    library computes for a :class:`~dpcape.statistics.LinearPredictorLoss`; or the one the loss's author states. Before
    the release, coordinator and sites search for two possible records that violate it. A stated diameter is listed
    among the guarantee's assumptions, and the status is then conditional, not verified.

    Edge cases
    ----------
    ==================================  ==============================================================
    stated diameter too small           refused if the search finds a violation; otherwise an assumption
    coefficients above the bound        scaled down at the site
    polynomial unbounded below          minimised within the public ball
    noise above every signal            zero parameters
    ==================================  ==============================================================

    References
    ----------
    H. Imtiaz, dissertation, algorithms 8.1 and 8.2.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcape import Federation, Independent, PolynomialLoss, in_process, labelled
    >>> x = np.linspace(-1, 1, 20000)[:, None]
    >>> records = labelled(x, 5 * np.exp(0.7 * x[:, 0]), bound=1.0, response=(0, 10))
    >>> fed = Federation(in_process({"lyon": records}), protocol=Independent())
    >>> PolynomialLoss("poisson", epsilon=10.0, delta=1e-6).fit(fed).coef_.round(1)
    array([0.7])
    """

    analysis: ClassVar[Analysis | None] = POLYNOMIAL_LOSS
    _builder: ClassVar[str] = "labelled(X, y, bound=..., response=(low, high))"
    _fitted: ClassVar[tuple[str, ...]] = ("coef_", "polynomial_", "improvement_", "noise_scale_")

    def __init__(self, loss: str, *, epsilon: float | Mapping[str, float], delta: float | Mapping[str, float]) -> None:
        self.loss = loss
        self.epsilon = epsilon
        self.delta = delta

    def _fit(self, federation: Federation, private: Allowance) -> None:
        statistic = polynomial_coefficients(federation.facts, loss=self.loss)
        blocks = private.mean(statistic)
        loss, scale = statistic.loss, private.releases[-1].scale
        width = loss.n_parameters(federation.facts)
        polynomial = PackedPolynomial(blocks, width)
        margins = [
            scale / weight * math.sqrt(degree * width) if weight else 0.0
            for degree, weight in enumerate(loss.weights(federation.facts))
        ]
        self.coef_ = minimise_in_ball(polynomial, margins, radius=loss.parameter_bound)
        self.improvement_ = polynomial.value(np.zeros(width)) - polynomial.value(self.coef_)
        self.polynomial_ = np.concatenate(blocks)
        self.noise_scale_ = scale

    def predictor(self, X: ArrayLike) -> FloatArray:
        """Return the linear predictor x.w of new rows, prepared as the sites prepare theirs."""
        return self._checked_rows(X, len(self.coef_) if hasattr(self, "coef_") else 0) @ self.coef_

    def _result(self) -> Result:
        values, units, names = self.coef_, self.units_, self._names(len(self.coef_))
        estimand = (
            f"parameter that minimises the released mean loss {self.loss!r} plus a bound on its noise, within the "
            "public ball, per {} of the column"
        )
        # A loss of one's own may have other parameters than one per column.
        by_column = len(units.names) == len(values)
        known = units.known and by_column
        unit = [f"per {unit}" if unit else "" for unit in units.names] if by_column else ""
        per, slopes = ("original unit", units.slopes(values)) if known else ("prepared unit", values)
        parts = [Estimates(quantity="coefficient", estimand=estimand.format(per), names=names, value=slopes, unit=unit)]
        if known:
            prepared = estimand.format("half of the public range")
            parts.append(Estimates(quantity=PREPARED, estimand=prepared, names=names, value=values))
        label, alt = "coefficient", f"Coefficients of {len(values)} features."
        caption = drawn_caption(len(values))
        forest = Forest(values=values, interval=None, names=names, label=label, alt=alt, caption=caption)
        return Result((Section(title="Coefficients", estimates=tuple(parts), charts=(forest,)),))


def minimise_in_ball(polynomial: PackedPolynomial, margins: Sequence[float], *, radius: float) -> FloatArray:
    """Minimise a polynomial plus sum_j margin_j |w|^j over |w| <= radius, from several starts.

    Isotropic noise on degree j moves the polynomial by at most its scale times sqrt(j D) |w|^j in expectation,
    uniformly over directions (Sudakov and Fernique: increments of <G, w^j> are at most j times those of <g, w>).
    """

    def height(free: FloatArray) -> tuple[float, FloatArray]:
        # The whole space is mapped onto the open ball, so that no constraint is needed.
        stretch = math.sqrt(1 + float(free @ free))
        w = radius * free / stretch
        value, slope = polynomial.value_and_slope(w)
        extra, extra_slope = _margin(w, margins)
        total = slope + extra_slope
        return value + extra, radius * (total / stretch - free * float(free @ total) / stretch**3)

    starts = halton(_STARTS, polynomial.width) / math.sqrt(polynomial.width)
    starts = np.concatenate([0.01 * starts, starts])
    best = starts[np.argsort([height(start)[0] for start in starts], kind="stable")[:_CLIMBS]]
    minima = [minimize(height, start, jac=True, method="L-BFGS-B").x for start in best]
    free = min(minima, key=lambda point: height(point)[0])
    if height(free)[0] >= polynomial.value(np.zeros(polynomial.width)):
        return np.zeros(polynomial.width)
    return radius * free / math.sqrt(1 + float(free @ free))


def _margin(w: FloatArray, margins: Sequence[float]) -> tuple[float, FloatArray]:
    """Return sum_j margin_j |w|^j and its gradient."""
    length = math.sqrt(float(w @ w) + 1e-24)
    value = sum(margin * length**degree for degree, margin in enumerate(margins))
    slope = sum(degree * margin * length ** (degree - 2) for degree, margin in enumerate(margins) if degree)
    return value, slope * w
