"""Choosing the number of factors by held-out error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from numpy.typing import ArrayLike

from dpcape.core.errors import InvalidParameter
from dpcape.factor_release.factor_release import FactorRelease


@dataclass(frozen=True)
class ChoiceOfFactors:
    """Held-out error of the recommended model for each number of factors tried, and the best number."""

    errors: dict[int, float]
    chosen: int


def choose_n_factors(
    X: ArrayLike,
    y: ArrayLike,
    *,
    candidates: Sequence[int],
    covariates: ArrayLike | None = None,
    n_burn_in: int = 200,
    n_draws: int = 100,
    random_state: int | None = None,
    kernel: str = "auto",
) -> ChoiceOfFactors:
    """Compare numbers of factors by the cross-validated error on training subjects.

    The paper takes the number that does best on the test part, which makes the reported test error too
    small. Here the test part is not used: errors are those of training subjects, held out in folds.

    Parameters
    ----------
    X, y : array-like
        Training subjects, as in :meth:`FactorRelease.fit`.
    candidates : sequence of int
        Numbers of factors to try.
    covariates : array-like or None
        As in :meth:`FactorRelease.fit`.
    n_burn_in, n_draws : int
        As in :class:`FactorRelease`; each candidate runs one chain.
    random_state : int or None
        As in :class:`FactorRelease`.
    kernel : str
        As in :class:`FactorRelease`.
    """
    if not candidates:
        raise InvalidParameter(
            "candidates", "name at least one number of factors", "an empty list", "Pass for example [5, 10]."
        )
    errors: dict[int, float] = {}
    for n_factors in candidates:
        model = FactorRelease(
            n_factors,
            n_burn_in=n_burn_in,
            n_draws=n_draws,
            thin=1,
            n_chains=1,
            random_state=random_state,
            kernel=kernel,
        )
        fitted = model.fit(X, y, covariates=covariates).recommended_
        if fitted is not None:
            errors[int(n_factors)] = fitted.cv_error
    return ChoiceOfFactors(errors, min(errors, key=lambda k: (errors[k], k)))
