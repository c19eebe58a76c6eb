"""Implicit claims about the preparation of data."""

from __future__ import annotations

import math

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.privacy.gaussian import epsilon_of
from dpcape_papers.claims.claim import WRONG, Claim, Evidence, number
from dpcape_papers.published.regression import classical_multiplier


def _scaled(rows: FloatArray) -> FloatArray:
    scaled = rows / np.linalg.norm(rows, axis=1).max()
    return np.asarray(scaled.T @ scaled / len(rows))


def _max_norm() -> Evidence:
    rng = np.random.default_rng(7)  # evidence on synthetic data; protects nothing
    rows = rng.standard_normal((1000, 5))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    outlier = rows.copy()
    outlier[0] *= 100
    moved = float(np.linalg.norm(_scaled(rows) - _scaled(outlier)))
    covariance = _centring()
    lines = (
        "1000 records of norm 1, one of them replaced by a record of norm 100, scaled by the largest norm: the moment "
        f"moves by {number(moved)}, {number(moved * 1000 / math.sqrt(2))} times sqrt(2)/N",
        f"a covariance centred by the sample mean moves by up to {number(covariance)}/N, not sqrt(2)/N",
    )
    return Evidence(lines, moved * 1000 > 100 * math.sqrt(2) and covariance > 3.9)


def _centring(n_records: int = 1000) -> float:
    """Return N times the change of a centred covariance when one of N equal records moves to the opposite point."""
    rows = np.zeros((n_records, 2))
    rows[:, 0] = 1.0
    moved = rows.copy()
    moved[0, 0] = -1.0
    return float(np.linalg.norm(np.cov(rows.T, bias=True) - np.cov(moved.T, bias=True)) * n_records)


def _replicated() -> Evidence:
    mu = 1 / classical_multiplier(1.0, 1e-2)
    tenfold, replaced = epsilon_of(1e-2, 10 * mu), epsilon_of(1e-2, 10 * math.sqrt(2) * mu)
    lines = (
        f"10 copies, the papers' noise for (1, 0.01): real epsilon {number(tenfold)}, or {number(replaced)} if a "
        "person is replaced",
    )
    return Evidence(lines, tenfold > 10 and replaced > 19)


CLAIMS = (
    Claim(
        "preparation",
        "all papers: scaling by the largest norm, centring, a PCA beforehand",
        "The preparation of the data does not count towards the privacy loss.",
        WRONG,
        "Anything estimated from the data is a release too. dpcape clips to public bounds, centres with a private "
        "mean, and cannot take a bound from the data.",
        _max_norm,
    ),
    Claim(
        "replicated-records",
        "capeCCA paper and dissertation, chapter 7 (XRMB)",
        "Copying the sample p times gives more samples.",
        WRONG,
        "Each person then has p records, so mu is p times larger.",
        _replicated,
        ("dissertation-7.1", "capecca-2"),
    ),
)
