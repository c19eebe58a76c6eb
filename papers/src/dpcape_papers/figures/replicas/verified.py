"""Noise of dpcape's calibration on the moments of a replica, at the epsilon and delta that the authors state.

Moments are symmetrised first, and the noise is isotropic among symmetric arrays, as that of dpcape's statistics is.
What else the authors do with data, such as scaling them by their own largest norm, is left as it is.
"""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
from numpy.random import Generator  # published algorithms for comparison: nothing is protected by it

from dpcape import Cape
from dpcape.core.arrays import FloatArray
from dpcape_papers.published.cape import assumed_colluding

SCHEMES = ("CAPE", "conventional", "local")


def noise_scale(curve: str, diameter: float, mu: float, *, n_records: int, n_sites: int) -> float:
    """Return the standard deviation of the noise on a mean, at an entry that occurs once.

    Parameters
    ----------
    curve : str
        One of `SCHEMES`; "local" is the mean of one of the sites, which are equally large.
    diameter : float
        Of one record's contribution.
    mu : float
        Of this release.
    n_records, n_sites : int
        Of all sites together.
    """
    own = diameter / mu
    if curve == "local":
        return own * n_sites / n_records
    if curve == "CAPE":
        protocol = Cape(n_colluding=assumed_colluding(n_sites))
        scales = protocol.unit_scales(np.ones(n_sites))
        own *= protocol.exposure(0, range(protocol.n_honest(n_sites)), *scales)
    return math.sqrt(n_sites) * own / n_records


def with_noise(moment: FloatArray, scale: float, rng: Generator) -> FloatArray:
    """Return the symmetric part of a moment with isotropic symmetric noise."""
    return symmetric_part(moment) + symmetric_part(rng.normal(scale=scale, size=moment.shape))


def symmetric_part(array: FloatArray) -> FloatArray:
    """Return the mean over all orders of the axes."""
    orders = list(permutations(range(array.ndim)))
    total: FloatArray = np.sum([array.transpose(order) for order in orders], axis=0)
    return total / len(orders)
