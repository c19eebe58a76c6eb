"""Regressions on sums with the exact Gaussian noise, in one process and without protocol: fast enough for coverage.

:class:`SumRounds` has what the solvers of ``dpcape.estimators.linear.regression_rounds`` need of a study. Contributions
are those of dpcape's statistics; only the noise is drawn here, of scale diameter / (N mu), as for pooled records.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcape import labelled
from dpcape.core.statistic import build

Vector = NDArray[np.float64]


class SumRounds:
    """Private means of one data set, with shares of mu^2 used one by one."""

    intercept = True
    weighted = True

    def __init__(
        self,
        features: Vector,
        targets: NDArray[Any],
        *,
        bound: float,
        mu: float,
        shares: Sequence[float],
        generator: np.random.Generator,
        classes: bool = False,
    ) -> None:
        self.bound, self.n_coefficients, self.share = bound, features.shape[1] + 1, 1 / len(features)
        kind: dict[str, Any] = {"classes": [0, 1]} if classes else {"response": (-1, 1)}
        self._records = labelled(features, targets, bound=bound, **kind)
        self._mu, self._shares, self._generator = mu, list(shares), generator
        self.scale = 0.0

    def mean(self, statistic: str, **public: Any) -> Any:
        """Return a private mean."""
        made = build(statistic, self._records.facts(), {"intercept": True, **public})
        n_records = self._records.n_records
        self.scale = made.diameter / (n_records * self._mu * math.sqrt(self._shares.pop(0)))
        total = made.total(self._records) / n_records
        return made.unpack(total + self.scale * self._generator.standard_normal(total.shape))
