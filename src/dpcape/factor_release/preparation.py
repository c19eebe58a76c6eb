"""Check the holder's input and standardise the features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpcape.core.arrays import BoolArray, FloatArray
from dpcape.core.errors import InvalidParameter


@dataclass(frozen=True)
class Standardisation:
    """How raw features become model features: unusable ones left out, the others centred and scaled."""

    used: BoolArray
    centre: FloatArray
    scale: FloatArray

    def apply(self, X: FloatArray) -> FloatArray:
        """Return the standardised features of further subjects."""
        if X.shape[1] != self.used.size:
            raise InvalidParameter(
                "X", f"have the {self.used.size} features of the fit", X.shape[1], "Pass the same features."
            )
        return np.ascontiguousarray((X[:, self.used] - self.centre) / self.scale)


def as_table(X: ArrayLike, name: str) -> FloatArray:
    """Return a two-dimensional float array; missing values are allowed here, infinite ones are not."""
    table = _as_numbers(X, name)
    if table.ndim != 2 or table.shape[0] == 0 or table.shape[1] == 0:
        raise InvalidParameter(name, "be a table of subjects by columns", f"shape {table.shape}", "Reshape it.")
    if np.isinf(table).any():
        raise InvalidParameter(name, "be finite", "infinite values", "Remove or correct them.")
    return table


def _as_numbers(values: ArrayLike, name: str) -> FloatArray:
    """Return values as numbers."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        got = f"{type(values).__name__} with entries of a different type"
        raise InvalidParameter(name, "hold numbers", got, "Pass an array or a table of numbers.") from error


def standardise(X: FloatArray, missing: str) -> tuple[FloatArray, Standardisation]:
    """Return standardised features and how they were made.

    Features that do not vary carry no information and are left out. Missing values are refused, or with
    ``missing="drop"`` every feature that has one is left out.
    """
    if not isinstance(missing, str) or missing not in ("refuse", "drop"):
        raise InvalidParameter("missing", 'be "refuse" or "drop"', repr(missing), "Use one of them.")
    holes = np.isnan(X).any(axis=0)
    if holes.any() and missing == "refuse":
        remedy = 'Impute them, or pass missing="drop" to leave those features out.'
        raise InvalidParameter("X", "not have missing values", "at least one", remedy)
    filled = np.where(holes, 0.0, X) if holes.any() else X
    centre, scale = filled.mean(axis=0), filled.std(axis=0)
    # Equal numbers can have a tiny rounding spread around their mean.
    used = ~holes & (scale > 1e-10 * np.maximum(np.abs(centre), np.finfo(float).tiny))
    if not used.any():
        raise InvalidParameter("X", "have at least one complete feature that varies", "0", "Check the table.")
    rule = Standardisation(used, centre[used], scale[used])
    return rule.apply(X), rule


def as_response(y: ArrayLike, n_train: int, n_test: int) -> FloatArray:
    """Return the training responses; responses of test subjects are refused."""
    response = _as_numbers(y, "y")
    if n_test and response.shape == (n_train + n_test,):
        must = f"hold responses of the {n_train} training subjects only"
        remedy = "Leave the test subjects' responses out: they are not to be released."
        raise InvalidParameter("y", must, f"{response.size} values", remedy)
    if response.shape != (n_train,) or not np.isfinite(response).all():
        must = f"be {n_train} finite numbers, one per training subject"
        remedy = "Remove subjects without a response, or put them in the test part."
        raise InvalidParameter("y", must, f"shape {response.shape}", remedy)
    return response


def as_covariates(covariates: ArrayLike | None, n: int, name: str) -> FloatArray | None:
    """Return covariates as n x q, or None."""
    if covariates is None:
        return None
    raw = np.asarray(covariates, dtype=np.float64)
    table = as_table(raw[:, None] if raw.ndim == 1 else raw, name)
    if len(table) != n or np.isnan(table).any():
        must = f"have {n} rows, one per subject, without missing values"
        raise InvalidParameter(name, must, f"{len(table)} rows", "Align the rows and fill the gaps.")
    return table


def check_n_factors(n_factors: object, n: int, n_features: int) -> None:
    """Refuse a number of factors that the data cannot identify."""
    if isinstance(n_factors, str) and n_factors == "adaptive":
        if n < 4:
            raise InvalidParameter("X", "have at least 4 subjects", n, "Collect more.")
        return
    if isinstance(n_factors, bool) or not isinstance(n_factors, int | np.integer) or n_factors < 1:
        raise InvalidParameter("n_factors", 'be a positive whole number or "adaptive"', repr(n_factors), "Choose one.")
    if n_factors >= n:
        raise InvalidParameter(
            "n_factors", f"be smaller than the number of subjects, {n}", n_factors, "Use fewer factors."
        )
    if n_factors > n_features:
        raise InvalidParameter(
            "n_factors", f"not exceed the number of varying features, {n_features}", n_factors, "Use fewer factors."
        )


def check_whole(value: object, name: str, *, least: int) -> None:
    """Refuse anything but a whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InvalidParameter(name, f"be a whole number of at least {least}", repr(value), "Pass an int.")


def check_settings(settings: Mapping[str, object]) -> None:
    """Refuse settings of the sampler that have no meaning."""
    if not isinstance(settings["prior"], str) or settings["prior"] not in ("multiplicative", "independent"):
        raise InvalidParameter(
            "prior", 'be "multiplicative" or "independent"', repr(settings["prior"]), "Use one of them."
        )
    least = {"n_burn_in": 0, "n_draws": 4, "thin": 1, "n_chains": 1, "checkpoint_every": 1, "n_folds": 2}
    for name, number in least.items():
        check_whole(settings[name], name, least=number)
    if settings["random_state"] is not None:
        check_whole(settings["random_state"], "random_state", least=0)


def check_not_released(released: bool) -> None:
    """Refuse to add subjects to what a third party has already."""
    if released:
        remedy = "A second release shows the people who were added. Release other people in a study of their own."
        raise InvalidParameter("Subjects", "be added before release()", "a model that is released", remedy)


def check_parts(n_train: int, n_test: int, n_folds: int, *, with_covariates: tuple[bool, bool]) -> None:
    """Refuse too few training subjects, and covariates of one part only."""
    if n_train < 2 * n_folds:
        raise InvalidParameter(
            "X", f"have at least {2 * n_folds} training subjects for {n_folds} folds", n_train, "Use fewer folds."
        )
    if n_test and with_covariates[0] != with_covariates[1]:
        raise InvalidParameter(
            "covariates", "be given for both parts or for neither", "one of them", "Pass the other too."
        )
