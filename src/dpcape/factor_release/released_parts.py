"""The released parts of a bundle by row, as an adversary uses them together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from dpcape.core.arrays import FloatArray
from dpcape.factor_release.bundle import Bundle, fit_bundle
from dpcape.factor_release.evidence import as_released, roughly
from dpcape.factor_release.recommended import RecommendedModel, fit_at, penalty_root
from dpcape.factor_release.ridge import least_squares, with_intercept

Rows = NDArray[np.intp]

MOST_DRAWS = 50  # the attacks use this many of the released draws, evenly spaced
N_COARSE = 5


@dataclass(frozen=True)
class ReleasedParts:
    """Everything released, training rows first; n rows, K factors, q covariates."""

    factors: FloatArray  # n x K
    covariates: FloatArray  # n x q
    response: FloatArray | None  # n, NaN where it is not released
    root: FloatArray | None  # K x K
    draws: FloatArray | None  # n_draws x n x K
    held_out: FloatArray | None  # n_train, responses predicted by the recommended model, each without its own fold
    covariates_only: FloatArray | None  # n_train, the same from covariates without factors

    def take(self, rows: Rows, draws: FloatArray, gram: FloatArray) -> ReleasedParts:
        """Return the parts of a release made for these people only, given its own draws and their Gram matrix."""
        factors = np.asarray(draws.mean(axis=0))
        spaced = None if self.draws is None else _spaced(draws, len(self.draws))
        return replace(
            self,
            factors=factors,
            covariates=self.covariates[rows],
            response=None if self.response is None else self.response[rows],
            root=None if self.root is None else penalty_root(factors, gram),
            draws=spaced,
            held_out=None,
            covariates_only=None,
        )

    def tables(self) -> list[FloatArray]:
        """Return tables from which features can be predicted.

        Factors, and factors in the metric of the penalty rows, in which loadings are about equally spread; both
        also with covariates and responses, and with the deviations of the draws from their mean.
        """
        bases = [self.factors]
        if self.root is not None:
            bases.append(_unit(self.factors @ np.linalg.pinv(self.root)))
        extra = _varying(self.covariates)
        if self.response is not None:
            filled = np.where(np.isnan(self.response), np.nanmean(self.response), self.response)
            extra = np.column_stack([extra, _varying(filled[:, None])])
        tables = [*bases]
        if extra.shape[1]:
            tables += [np.column_stack([base, extra]) for base in bases]
        if self.draws is not None and len(self.draws) > 1:
            spread = self.draws - self.draws.mean(axis=0)
            flat = _unit(spread.transpose(1, 0, 2).reshape(len(self.factors), -1))
            tables += [np.column_stack([table, flat]) for table in tables]
        return tables


def _unit(table: FloatArray) -> FloatArray:
    """Scale a table so that it weighs as much as the factors, about one per factor."""
    return np.asarray(table / max(float(np.sqrt(np.mean(table**2))), 1e-300))


def _varying(table: FloatArray) -> FloatArray:
    """Return standardised columns without the constant ones."""
    scale = table.std(axis=0)
    used = scale > 1e-10 * np.maximum(np.abs(table.mean(axis=0)), np.finfo(float).tiny)
    return np.asarray((table[:, used] - table[:, used].mean(axis=0)) / scale[used])


def _spaced(draws: FloatArray, count: int) -> FloatArray:
    return draws[np.linspace(0, len(draws) - 1, min(count, len(draws))).astype(np.intp)]


def released_parts(bundle: Bundle, model: RecommendedModel | None = None) -> ReleasedParts:
    """Lay out a bundle by row.

    Parameters
    ----------
    bundle : Bundle
        What is handed out, in any row order.
    model : RecommendedModel or None
        The recommended model if it has been fitted already; its weights are used again.
    """
    n_train, n_test = len(bundle.factors), len(bundle.factors_test)
    covariates = np.empty((n_train + n_test, 0))
    if bundle.covariates is not None:
        tested = bundle.covariates[:0] if bundle.covariates_test is None else bundle.covariates_test
        covariates = np.vstack([bundle.covariates, tested])
    response = None if bundle.response is None else np.concatenate([bundle.response, np.full(n_test, np.nan)])
    held_out, covariates_only = (None, None) if bundle.response is None else _held_out(bundle, model)
    return ReleasedParts(
        factors=np.vstack([bundle.factors, bundle.factors_test]),
        covariates=covariates,
        response=response,
        root=bundle.root,
        draws=None if bundle.draws is None else _spaced(bundle.draws, MOST_DRAWS),
        held_out=held_out,
        covariates_only=covariates_only,
    )


def _held_out(bundle: Bundle, model: RecommendedModel | None) -> tuple[FloatArray | None, FloatArray | None]:
    """Predict each training response as if it had not been released, with and without factors."""
    y, fold = bundle.response, bundle.fold
    if y is None or fold is None or bundle.root is None or bundle.fold_guides is None:
        return None, None
    model = fit_bundle(bundle).model if model is None else model
    unpenalised = with_intercept(bundle.covariates, len(y))
    with_factors, without = np.empty(len(y)), np.empty(len(y))
    for number, guide in enumerate(bundle.fold_guides):
        held_out, used = fold == number, fold != number
        train_covariates = None if bundle.covariates is None else bundle.covariates[used]
        fitted = fit_at(
            bundle.factors[used], y[used], covariates=train_covariates, root=bundle.root, guide=guide,
            ridge=model.ridge, lasso_fraction=model.lasso_fraction,
        )  # fmt: skip
        held_out_covariates = None if bundle.covariates is None else bundle.covariates[held_out]
        with_factors[held_out] = fitted.predict(bundle.factors[held_out], held_out_covariates)
        without[held_out] = unpenalised[held_out] @ least_squares(unpenalised[used], y[used])
    return with_factors, without


def without_covariates(bundle: Bundle) -> Bundle:
    """Leave the covariates out; the guides are kept as they are."""
    return replace(bundle, covariates=None, covariates_test=None)


def without_draws(bundle: Bundle) -> Bundle:
    """Leave the posterior draws out."""
    return replace(bundle, draws=None)


def coarsened(bundle: Bundle) -> Bundle:
    """Replace covariates and responses by the median of their fifth of the people."""
    n = len(bundle.factors)
    covariates, tested = bundle.covariates, bundle.covariates_test
    if covariates is not None:
        table = covariates if tested is None else np.vstack([covariates, tested])
        table = np.column_stack([_banded(column) for column in table.T])
        covariates, tested = table[:n], None if tested is None else table[n:]
    response = None if bundle.response is None else _banded(bundle.response)
    return replace(bundle, covariates=covariates, covariates_test=tested, response=response)


def _banded(values: FloatArray) -> FloatArray:
    codes = roughly(values, N_COARSE)
    medians = {int(code): float(np.median(values[codes == code])) for code in np.unique(codes)}
    return np.array([medians[int(code)] for code in codes])


def remedies(bundle: Bundle) -> list[tuple[str, Callable[[Bundle], Bundle]]]:
    """Return changes to a bundle that can lower its risk, each with its name; only those that change something."""
    changes: list[tuple[str, Callable[[Bundle], Bundle]]] = []
    if bundle.covariates is not None:
        changes.append(("leave out the covariates", without_covariates))
    columns = [] if bundle.covariates is None else list(bundle.covariates.T)
    columns += [] if bundle.response is None else [bundle.response]
    if any(len(np.unique(as_released(column))) > N_COARSE for column in columns):
        changes.append((f"coarsen covariates and responses to {N_COARSE} bands", coarsened))
    if bundle.draws is not None:
        changes.append(("release no draws", without_draws))
    if len(changes) > 1:
        steps = [change for _, change in changes]
        changes.append(("all of these", lambda start: reduce(lambda changed, change: change(changed), steps, start)))
    return changes
