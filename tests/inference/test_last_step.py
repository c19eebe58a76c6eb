"""What the last Newton step leaves out: intervals contain the truth also where earlier rounds did not come near it.

Without noise and sampling: scores of all people, and earlier rounds whose scores say nothing, so that the only step
goes all the way. The interval is then what is added for the curvature that a step does not know.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from dpcape.analyses.regression import LOGISTIC_SHARES
from dpcape.estimators.linear.regression_rounds import Asked, weights_of
from dpcape.estimators.linear.score_rounds import logistic_inference


@dataclass
class _AllPeople:
    """Rounds of scores at given log-odds; all but the last are zero."""

    columns: np.ndarray
    log_odds: np.ndarray
    asked: int = field(default=0)
    intercept: bool = True
    bound: float = 1.0
    scale: float = 1e-12
    share: float = 1e-18
    weighted: bool = True

    @property
    def n_coefficients(self) -> int:
        return 1 + self.columns.shape[1]

    def mean(self, statistic: str, **public: Any) -> Any:
        self.asked += 1
        v = np.column_stack([np.full(len(self.columns), weights_of(1.0, intercept=True)[1]), self.columns])
        p = expit(v @ public["coefficients"])
        curvature = (v * (p * (1 - p))[:, np.newaxis]).T @ v / len(v)
        is_last = self.asked == len(LOGISTIC_SHARES)
        return SimpleNamespace(score=is_last * (expit(self.log_odds) - p) @ v / len(v), curvature=curvature)


@pytest.mark.parametrize("constant", [-2.0, -0.5, 0.0, 1.0])
@pytest.mark.parametrize("slope", [0.3, 1.0, 2.0, -3.0])
def test_one_step_from_zero_has_an_interval_with_the_truth(constant: float, slope: float) -> None:
    """The second column is two-valued and rare, so that few people determine its coefficient."""
    x = np.linspace(-0.8, 0.8, 200)
    columns = np.column_stack([x, np.where(np.arange(200) % 20 == 0, 0.5, 0.0)])
    truth = np.array([slope, -slope / 2])
    found = logistic_inference(_AllPeople(columns, constant + columns @ truth), Asked(0.95, None, None, None))
    assert found.low is not None
    assert found.high is not None
    assert (found.low[1:] <= truth).all(), (found.low, found.values, found.high)
    assert (truth <= found.high[1:]).all(), (found.low, found.values, found.high)


@pytest.mark.parametrize("constant", [-2.0, -1.0, 1.0])
@pytest.mark.parametrize("kind", ["rare", "square"])
def test_coefficients_that_other_records_hardly_bend_have_the_truth_in_their_interval(
    kind: str, constant: float
) -> None:
    """A rare group with a strong effect beside a weak one, and a square without effect beside a strong one."""
    x = np.linspace(-0.8, 0.8, 200)
    second = np.where(np.arange(200) % 40 == 0, 0.5, 0.0) if kind == "rare" else x**2
    columns = np.column_stack([x, second])
    truth = np.array([0.1, 5.0]) if kind == "rare" else np.array([2.5, 0.0])
    found = logistic_inference(_AllPeople(columns, constant + columns @ truth), Asked(0.95, None, None, None))
    assert found.low is not None
    assert found.high is not None
    assert found.low[2] <= truth[1] <= found.high[2], (found.low, found.values, found.high)
