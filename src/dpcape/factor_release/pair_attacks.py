"""What an adversary learns from two releases of nearly the same people: whose row was added.

The pair is made from the holder's own people: an earlier release of two thirds of them, sampled again, and the release
itself. One person at a time is taken as added. Sampling the whole release again does not hide that person, because all
others have nearly the same rows in both; responses and covariates are even equal.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from dpcape.core.arrays import FloatArray
from dpcape.factor_release.alignment import rotation_onto
from dpcape.factor_release.attack_result import ADDED, AttackResult
from dpcape.factor_release.bundle import Bundle
from dpcape.factor_release.feature_attacks import Twin

_ROUNDS = 10  # of matching rows and turning factors


def added_person(bundle: Bundle, twin: Twin) -> AttackResult:
    """Return how often the row of an added person is the one left over when all others are paired."""
    now, before = np.vstack([bundle.factors, bundle.factors_test]), np.asarray(twin.draws.mean(axis=0))
    columns = _released_as_given(bundle)
    inside = columns[twin.inside]
    # Responses and covariates are equal in both releases, and find partners; without them a few people must be known.
    n_known = 0 if columns.shape[1] > 1 else now.shape[1] + 2
    if n_known:
        start = rotation_onto(before[:n_known], now[twin.inside[:n_known]])
    else:
        start = rotation_onto(before, now[_partners(inside, columns)])
    turned = before @ _turn(before, now, start, (inside, columns))
    earlier = np.hstack([turned, inside])
    rows = np.hstack([now, columns])
    gaps = _gaps(earlier, rows)
    is_left_over = [_is_left_over(gaps[:, [*twin.inside, person]]) for person in twin.outside]
    n, share = len(is_left_over), float(np.mean(is_left_over))
    return AttackResult(
        goal=ADDED,
        knows="an earlier release without the person" + (f", and the rows of {n_known} others" if n_known else ""),
        success=share,
        standard_error=math.sqrt(share * (1 - share) / n),
        baseline=1.0 / (len(twin.inside) + 1),
        n_people=n,
    )


def _released_as_given(bundle: Bundle) -> FloatArray:
    """Return what is released as it is, on the scale of the factors: covariates, response, and the part."""
    n_train, n_test = len(bundle.factors), len(bundle.factors_test)
    columns = [np.repeat([1.0, 0.0], [n_train, n_test])]
    if bundle.covariates is not None:
        parts = [bundle.covariates, *([] if bundle.covariates_test is None else [bundle.covariates_test])]
        columns += list(np.vstack(parts).T)
    if bundle.response is not None:
        columns.append(np.concatenate([bundle.response, np.full(n_test, bundle.response.mean())]))
    table = np.array(columns).T
    return np.asarray((table - table.mean(axis=0)) / np.maximum(table.std(axis=0), 1e-12))


def _turn(before: FloatArray, now: FloatArray, start: FloatArray, columns: tuple[FloatArray, FloatArray]) -> FloatArray:
    """Return the rotation of the earlier factors onto the present ones: match rows, turn the factors, and so on."""
    turn = start
    for _ in range(_ROUNDS):
        partners = _partners(np.hstack([before @ turn, columns[0]]), np.hstack([now, columns[1]]))
        turn = rotation_onto(before, now[partners])
    return turn


def _gaps(rows: FloatArray, others: FloatArray) -> FloatArray:
    """Return the squared distance of every row to every other."""
    squares = np.square(rows).sum(axis=1)[:, None] + np.square(others).sum(axis=1)
    return np.asarray(squares - 2 * rows @ others.T)


def _partners(rows: FloatArray, others: FloatArray) -> NDArray[np.intp]:
    """Return the nearest of the others for every row."""
    return np.asarray(np.argmin(_gaps(rows, others), axis=1), dtype=np.intp)


def _is_left_over(gaps: FloatArray) -> bool:
    """Return whether the last column has no partner if every row has its own, at the least total distance."""
    return gaps.shape[1] - 1 not in linear_sum_assignment(gaps)[1]
