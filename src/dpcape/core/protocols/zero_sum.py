"""Cancelling noise of Cape and Dealer: scales, closed form and the adversary's view."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.errors import InvalidParameter
from dpcape.core.privacy.adversary_view import AdversaryView
from dpcape.core.protocols.protocol import Protocol, with_colluders


class ZeroSum(Protocol):
    """Base class of protocols with cancelling noise."""

    n_colluding: int
    cancelling_ratio: float

    shares_noise: ClassVar[bool] = True

    @staticmethod
    def closed_form(n_sites: float, n_honest: float, ratio: float) -> tuple[float, float]:
        # Along the sum of the honest sites, their releases carry only own noise; in all other directions, shared too.
        square = n_sites * ratio
        return math.sqrt(square), math.sqrt(1 / n_honest + (1 - 1 / n_honest) / (1 + square))

    def unit_scales(self, demands: FloatArray) -> tuple[FloatArray, FloatArray]:
        # One sum protects every site, so equal noise everywhere is best against the worst coalition.
        own = np.ones_like(demands)
        return own, own * np.sqrt(demands.size * self.cancelling_ratio)

    def cover(self, own_scales: FloatArray, shared_scales: FloatArray) -> FloatArray:
        own, shared = own_scales**2, shared_scales**2
        # Divide before multiplying, because the squares may be close to overflow or underflow.
        return own * (shared / (own + shared))

    def view(
        self,
        n_sites: int,
        *,
        honest: Sequence[int] | None = None,
        own_scales: FloatArray | None = None,
        shared_scales: FloatArray | None = None,
    ) -> AdversaryView:
        own = np.ones(n_sites) if own_scales is None else own_scales
        shared = own * np.sqrt(n_sites * self.cancelling_ratio) if shared_scales is None else shared_scales
        return zero_sum_view(n_sites, range(n_sites) if honest is None else honest, own, shared)

    def exposure(self, site: int, honest: Sequence[int], own_scales: FloatArray, shared_scales: FloatArray) -> float:
        """Return the closed form of the exposure in :func:`zero_sum_view`.

        With own variance s, variance t of a draw and v = s + t: the honest sum of draws is known, and given it the
        releases have covariance diag(v) - t t' / T, T being the sum of t. Its inverse (Sherman and Morrison) has the
        diagonal 1/v + (t/v)^2 / C, where C is the sum of s t / v over the honest sites.
        """
        members = list(honest)
        own, drawn = own_scales[members] ** 2, shared_scales[members] ** 2
        both = own + drawn
        mine = float(own_scales[site] ** 2 + shared_scales[site] ** 2)
        if mine == 0:
            return math.inf
        drawn_share = float(shared_scales[site] ** 2) / mine
        if drawn_share == 0:
            return 1 / math.sqrt(mine)
        common = float(np.sum(own * (drawn / np.where(both > 0, both, 1.0))))
        return math.sqrt(1 / mine + drawn_share**2 / common) if common else math.inf

    def adversary(self) -> str:
        return with_colluders("the aggregator", self.n_colluding)


def zero_sum_view(n_sites: int, honest: Sequence[int], own: FloatArray, shared: FloatArray) -> AdversaryView:
    """Return the view of the aggregator and all sites outside ``honest``.

    Noise sources are the draws of all sites, then their own noises. Rows: the releases of the honest survivors, the
    agreed sum of draws, the draws of all other sites (a dropped site's draw counts as known: with one dropped site the
    correction reveals it). The correction, the sum of the survivors' draws, follows from the last two.
    """
    draw, own_noise = np.eye(n_sites, 2 * n_sites), np.eye(n_sites, 2 * n_sites, n_sites)
    members = list(honest)
    others = [site for site in range(n_sites) if site not in set(members)]
    releases = draw[members] - draw.mean(axis=0) + own_noise[members]
    shift = np.zeros((len(members) + 1 + len(others), n_sites))
    shift[np.arange(len(members)), members] = 1.0
    mixing = np.vstack([releases, draw.sum(axis=0), draw[others]])
    return AdversaryView(shift=shift, mixing=mixing, variances=np.concatenate([shared, own]) ** 2)


def check_ratio(ratio: float) -> float:
    """Return the cancelling ratio, or raise if it is outside the range of the integer grid."""
    if not 1e-3 <= ratio <= 1e6:
        remedy = "The papers use 1, the default is 100."
        raise InvalidParameter("cancelling_ratio", "be between 0.001 and 1e6", repr(ratio), remedy)
    return float(ratio)
