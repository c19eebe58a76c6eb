"""Log-likelihood ratios of released rows, given what an adversary knows of people.

Knowledge is compared with rows in a table of log-likelihood ratios, targets x rows: how much better a row
explains what is known of a target than a person taken at random does. Tables add up over independent
kinds of knowledge. The largest entry of a target points to a row; the mean over rows separates members from
people who are not in the release.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcape.core.arrays import FloatArray
from dpcape.factor_release.attacks import distances

Codes = NDArray[np.intp]

UNKNOWN = -1
N_ROUGH = 10  # a value known roughly is known to lie in the right tenth of the people
_MISMATCH = -1e3
_TIE = 1e-9


def as_released(values: FloatArray) -> Codes:
    """Return equal codes for values that look equal in the released files; UNKNOWN for missing ones."""
    written = np.array([float(f"{v:.10g}") for v in values])
    codes = np.unique(written, return_inverse=True)[1].reshape(-1).astype(np.intp)
    return np.where(np.isnan(written), UNKNOWN, codes)


def roughly(values: FloatArray, n_bands: int = N_ROUGH) -> Codes:
    """Return the quantile band of each value; values as released if there are at most ``n_bands`` of them."""
    codes = as_released(values)
    known = values[~np.isnan(values)]
    if len(np.unique(codes[codes != UNKNOWN])) <= n_bands:
        return codes
    cuts = np.unique(np.quantile(known, np.arange(1, n_bands) / n_bands))
    return np.where(np.isnan(values), UNKNOWN, np.searchsorted(cuts, values, side="right")).astype(np.intp)


def joint_classes(columns: list[Codes]) -> tuple[Codes, Codes]:
    """Return the equivalence class of each person over several columns, and the size of each class."""
    _, member, sizes = np.unique(np.column_stack(columns), axis=0, return_inverse=True, return_counts=True)
    return member.reshape(-1).astype(np.intp), sizes.astype(np.intp)


def joined(columns: list[Codes]) -> Codes:
    """Return one code for several columns together; UNKNOWN where any of them is."""
    missing = np.any([codes == UNKNOWN for codes in columns], axis=0)
    return np.where(missing, UNKNOWN, joint_classes(columns)[0])


def matching(known: Codes, rows: Codes) -> FloatArray:
    """Compare codes that the adversary knows of targets with the codes of rows.

    A match weighs minus the logarithm of its share among the rows; a mismatch rules a row out. A pair with an
    UNKNOWN code has weight zero.
    """
    released = rows[rows != UNKNOWN]
    share = np.array([np.mean(released == code) if released.size else 1.0 for code in known])
    weight = -np.log(np.maximum(share, 1.0 / max(2 * released.size, 1)))
    table = np.where(known[:, None] == rows[None, :], weight[:, None], _MISMATCH)
    silent = (known[:, None] == UNKNOWN) | (rows[None, :] == UNKNOWN)
    return np.where(silent, 0.0, table)


def closeness(known: FloatArray, rebuilt: FloatArray, n_factors: int) -> FloatArray:
    """Compare features known of targets with features rebuilt from rows, over the same columns.

    Rebuilt features lie in a subspace of few dimensions. Only the part of the known features in that subspace
    distinguishes rows; the rest is the same for all rows and is left out. Squared distances in ``n_factors``
    dimensions enter with the power n_factors / 2.
    """
    centre = rebuilt.mean(axis=0)
    rows = rebuilt - centre
    squares, directions = np.linalg.eigh(rows @ rows.T)
    used = squares > 1e-10 * max(float(squares[-1]), 1e-300)
    lengths = np.sqrt(squares[used])
    in_plane = (known - centre) @ rows.T @ directions[:, used] / lengths
    squared = np.maximum(distances(in_plane, directions[:, used] * lengths), 1e-12)
    return np.asarray(0.5 * n_factors * (np.log(squared.mean(axis=1))[:, None] - np.log(squared)))


def predicted(known: FloatArray, predictions: FloatArray, variance: float) -> FloatArray:
    """Compare known responses with predictions of rows that have an error of this variance."""
    gap = (known[:, None] - predictions[None, :]) ** 2
    return np.asarray(-0.5 * gap / max(variance, 1e-300))


def found_rate(table: FloatArray) -> float:
    """Return how often the best row is the target's own (row i is target i); ties are broken at random."""
    best = table.max(axis=1)
    at_best = table >= best[:, None] - _TIE
    return float(np.mean(np.diag(at_best) / at_best.sum(axis=1)))


def best_rows(table: FloatArray) -> Codes:
    """Return the row each target is linked to, the first of equals."""
    return np.asarray(np.argmax(table, axis=1), dtype=np.intp)


def membership(table: FloatArray) -> FloatArray:
    """Return the log-likelihood ratio of each target being one of the rows, all rows equally likely."""
    best = table.max(axis=1)
    return np.asarray(best + np.log(np.mean(np.exp(table - best[:, None]), axis=1)))


def thirds(values: FloatArray) -> Codes:
    """Return classes low, middle and high of about equal size; values as released if there are at most three."""
    return roughly(values, 3)


def ranked_guess(scores: FloatArray, classes: Codes) -> Codes:
    """Guess classes by the rank of scores, each class as often as it occurs."""
    guess = np.empty(len(scores), dtype=np.intp)
    guess[np.argsort(scores, kind="stable")] = np.sort(classes)
    return guess


def largest_share(classes: Codes) -> float:
    """Return what guessing the most frequent class reaches."""
    return float(np.unique(classes, return_counts=True)[1].max() / len(classes))
