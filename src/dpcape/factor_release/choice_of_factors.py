"""Choosing the number of factors by held-out error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dpcape.errors import InvalidParameter
from dpcape.factor_release.factor_release import FactorRelease


@dataclass(frozen=True)
class ChoiceOfFactors:
    """Held-out error of the recommended model for each number of factors tried, and the best number."""

    errors: dict[int, float]
    chosen: int


def choose_n_factors(
    X: Any,
    y: Any,
    *,
    candidates: Sequence[int],
    covariates: Any = None,
    n_burn_in: int = 200,
    n_draws: int = 100,
    seed: int | None = None,
    kernel: str = "auto",
) -> ChoiceOfFactors:
    """Fit the model with each number of factors and compare the cross-validated errors on training subjects.

    The paper takes the number that does best on the test part, which makes the reported test error too
    small. Here the test part is not seen: errors are of training subjects, held out in folds.

    Parameters
    ----------
    X, y, covariates : object
        Training subjects, as in :meth:`FactorRelease.fit`.
    candidates : sequence of int
        Numbers of factors to try.
    n_burn_in, n_draws, seed, kernel
        As in :class:`FactorRelease`, with one chain each.
    """
    if not candidates:
        raise InvalidParameter("candidates must name at least one number of factors; got none. Pass some.")
    errors: dict[int, float] = {}
    for n_factors in candidates:
        model = FactorRelease(
            n_factors, n_burn_in=n_burn_in, n_draws=n_draws, thin=1, n_chains=1, seed=seed, kernel=kernel
        )
        fitted = model.fit(X, y, covariates=covariates).recommended_
        if fitted is not None:
            errors[int(n_factors)] = fitted.cv_error
    return ChoiceOfFactors(errors, min(errors, key=lambda k: (errors[k], k)))
