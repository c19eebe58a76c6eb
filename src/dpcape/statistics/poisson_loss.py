"""Poisson regression as a polynomial loss: loss "poisson", and a model for losses of your own."""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial

from dpcape.core.arrays import FloatArray
from dpcape.core.errors import InvalidParameter
from dpcape.core.facts import PublicFacts
from dpcape.core.record_blocks import Targets
from dpcape.statistics.losses import LinearPredictorLoss, known_loss


@known_loss
class PoissonLoss(LinearPredictorLoss):
    """Negative log-likelihood of counts, m exp(x.w) - c x.w, divided by m, with exp replaced by a polynomial.

    m, the rate at w = 0, is the middle of the public range of counts, which makes the linear coefficient symmetric.
    The polynomial interpolates exp at Chebyshev points of [-B r, B r], r the largest length of the parameters. For
    an intercept, give the records a constant column.
    """

    name: ClassVar[str] = "poisson"
    degree: ClassVar[int] = 4
    parameter_bound: ClassVar[float] = 2.0

    def predictor_coefficients(self, targets: Targets | None, facts: PublicFacts) -> FloatArray:
        low, high = _range(facts)
        assert targets is not None  # records with a range of counts have targets
        middle, half_width = (high + low) / 2, (high - low) / 2
        heights = np.tile(self._exponential(facts), (len(targets), 1))
        # c / m for responses in [-1, 1].
        heights[:, 1] -= 1 + np.asarray(targets, dtype=np.float64) * (half_width / middle)
        return heights

    def intervals(self, facts: PublicFacts) -> FloatArray:
        low, high = _range(facts)
        constant = self._exponential(facts)
        pairs = np.stack([constant, constant], axis=1)
        pairs[1] -= np.array([2 * high, 2 * low]) / (high + low)
        return pairs

    def _exponential(self, facts: PublicFacts) -> FloatArray:
        return exponential_polynomial(self.degree, facts.bounds[0] * self.parameter_bound)


@lru_cache(maxsize=16)
def exponential_polynomial(degree: int, reach: float) -> FloatArray:
    """Return the coefficients of the polynomial that meets exp at the Chebyshev points of [-reach, reach]."""
    # Where exp overflows there is no such polynomial; the intervals are then refused.
    with np.errstate(over="ignore", invalid="ignore"):
        fitted = Chebyshev.interpolate(np.exp, degree, domain=[-reach, reach])
    fractions, exponents = np.frexp(np.asarray(fitted.convert(kind=Polynomial).coef, dtype=np.float64))
    # So coarse that all libraries agree on them.
    coefficients: FloatArray = np.ldexp(np.rint(np.ldexp(fractions, 40)), exponents - 40)
    coefficients.flags.writeable = False
    return coefficients


def _range(facts: PublicFacts) -> tuple[float, float]:
    if facts.response is None or facts.response[0] < 0:
        must, remedy = "have counts of at least 0", "Build them with labelled(X, y, bound=..., response=(0, largest))."
        raise InvalidParameter("Records for a Poisson regression", must, f"the range {facts.response!r}", remedy)
    return facts.response
