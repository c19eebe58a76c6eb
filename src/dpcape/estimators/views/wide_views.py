"""Canonical correlations of wide views: moments in public bases, and loadings at full resolution."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpcape.core.arrays import FloatArray, IntArray
from dpcape.estimators.scaling import scaled
from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation
from dpcape.postprocessing.component_tests import MomentNoise
from dpcape.postprocessing.scaling import Scaling
from dpcape.postprocessing.wide_components import (
    basis_maps,
    clear_directions,
    off_basis,
    residual_length,
    score_reach,
    shrunk_maps,
    values_kept,
)
from dpcape.statistics.basis import Basis, basis_parts
from dpcape.statistics.basis_moments import of_basis
from dpcape.statistics.moments import MEAN_WEIGHT
from dpcape.statistics.view_bases import SideBySide


@dataclass(frozen=True)
class WideView:
    """Released moments of one view, in units of its radius, and the directions in which it is analysed.

    Attributes
    ----------
    basis : Basis
        Public basis of the view.
    radius : float
        Length by which rows of the view were divided.
    covariance : array of shape (R, R)
        Covariance, or second moment, of the coordinates.
    mean : array of shape (R,)
        Mean of the coordinates; zeros without centring.
    left_out : float
        Mean squared length of what the basis leaves of the view.
    noise_scale : float
        Standard deviation of the noise on the diagonal of the covariance.
    directions : array of shape (kept, d)
        Orthonormal directions in the first columns of the basis.
    values : array of shape (d,)
        Variances along them; of a view with a basis, as far as they are not noise.
    """

    basis: Basis
    radius: float
    covariance: FloatArray
    mean: FloatArray
    left_out: float
    noise_scale: float
    directions: FloatArray
    values: FloatArray

    @property
    def n_kept(self) -> int:
        """Number of the first columns of the basis that are used."""
        return len(self.directions)

    def weights(self, variate_weights: FloatArray) -> FloatArray:
        """Return weights in the directions, (d, K), at full resolution and in the units of the rows: (D, K)."""
        return basis_maps(self.basis, self.directions @ variate_weights).T / self.radius

    def loadings(self, variate_weights: FloatArray) -> FloatArray:
        """Return the covariances of the columns, within the basis, with the variates of these weights: (D, K)."""
        is_complete = self.basis.is_complete
        inside = (
            self.covariance @ variate_weights
            if is_complete
            else self.directions @ (self.values[:, np.newaxis] * variate_weights)
        )
        return basis_maps(self.basis, inside).T * self.radius

    def beyond(self, maps: FloatArray, scale: float) -> FloatArray:
        """Return released covariances of residuals, (D, K), shrunk by their noise."""
        residual = off_basis(self.basis, maps.T, self.n_kept)
        return shrunk_maps(residual, scale, self.basis.inside).T * self.radius


@dataclass(frozen=True)
class WideViews:
    """Released moments of wide views.

    Attributes
    ----------
    basis : SideBySide
        Public basis of each view.
    scaling : Scaling
        How views were standardised.
    views : list of WideView
        What was released of each view.
    covariance : array
        Covariance of all views along their directions.
    noise : MomentNoise
        Its noise.
    """

    basis: SideBySide
    scaling: Scaling
    views: list[WideView]
    covariance: FloatArray
    noise: MomentNoise

    @property
    def widths(self) -> tuple[int, int]:
        """Number of directions of each of two views."""
        first, second = (view.directions.shape[1] for view in self.views)
        return first, second

    @property
    def n_kept(self) -> IntArray:
        """Number of the first columns of each basis that are used."""
        return np.array([view.n_kept for view in self.views])

    @property
    def left_out(self) -> FloatArray:
        """Mean squared length of what the basis leaves of each view, in the units of the rows."""
        each = [0.0 if view.basis.is_complete else view.left_out * view.radius**2 for view in self.views]
        return np.array(each)

    @property
    def mean_row(self) -> FloatArray:
        """Mean of the rows, as far as it was released."""
        coordinates = np.concatenate([view.mean for view in self.views])
        return self.scaling.rows(self.basis.expanded(coordinates[np.newaxis])[0])


def released_views(
    federation: Federation, private: Allowance, basis: SideBySide, scaling: Scaling, *, center: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Release the moments of views in their public bases; return mean, second moment and energies left out.

    Parameters
    ----------
    federation : Federation
        The sites.
    private : Allowance
        Its next release is used.
    basis : SideBySide
        Public basis of each view.
    scaling : Scaling
        How views are standardised first.
    center : bool
        Whether the mean is released, too.
    """
    arrays = of_basis(basis)
    if center:
        statistic = scaled(federation.facts, scaling, "centred_basis_moments", **arrays, mean_weight=MEAN_WEIGHT)
        mean, moment, energies = private.mean(statistic)
        return np.where(basis.used, mean, 0.0), moment, energies
    moment, energies = private.mean(scaled(federation.facts, scaling, "basis_moments", **arrays))
    return np.zeros(basis.n_columns), moment, energies


def reduced_views(
    basis: SideBySide, scaling: Scaling, moment: FloatArray, energies: FloatArray, noise: MomentNoise, least: int
) -> WideViews:
    """Return views along the directions that noise does not hide.

    They follow from each view's own moments alone, whose noise is independent of that of the products between views: a
    test of these products is as valid as with directions that are known beforehand.

    Parameters
    ----------
    basis : SideBySide
        Public basis of each view.
    scaling : Scaling
        How views were standardised.
    moment : array of shape (R, R)
        Released second moment of the coordinates of all views.
    energies : array of shape (views,)
        Released energies that the bases leave out.
    noise : MomentNoise
        Noise of mean and moment.
    least : int
        How many directions each view has at least.
    """
    used = np.outer(basis.used, basis.used)
    covariance = (moment - np.outer(noise.mean, noise.mean)) * used
    views, turns = [], np.zeros((basis.n_columns, 0))
    for at, (part, _, own) in enumerate(basis_parts(basis)):
        block = covariance[own, own]
        directions, values = _directions(part, block, noise.scale, least)
        radius, energy = float(scaling.radius[at]), float(energies[at])
        views.append(WideView(part, radius, block, noise.mean[own], energy, noise.scale, directions, values))
        turn = np.zeros((basis.n_columns, directions.shape[1]))
        turn[own.start : own.start + len(directions)] = directions
        turns = np.hstack([turns, turn])
    reduced = MomentNoise(noise.scale, noise.mean_scale, turns.T @ noise.mean, noise.record_share)
    return WideViews(basis, scaling, views, turns.T @ covariance @ turns, reduced)


def _directions(part: Basis, covariance: FloatArray, scale: float, least: int) -> tuple[FloatArray, FloatArray]:
    """Return the directions in which a view is analysed, and the variances along them, as far as they are not noise."""
    if part.is_complete:
        return np.eye(part.n_columns), np.diagonal(covariance)
    directions, values = clear_directions(covariance, scale, least, part.cuts(least))
    return directions, values_kept(values, scale, len(directions))


def released_maps(
    federation: Federation, private: Allowance, reduced: WideViews, weights: tuple[FloatArray, FloatArray]
) -> list[FloatArray | None]:
    """Release covariances of what the kept columns leave of each wide view with its canonical variates.

    Parameters
    ----------
    federation : Federation
        The sites.
    private : Allowance
        Its next release is used.
    reduced : WideViews
        The moments that were released.
    weights : tuple of array
        Weights of the directions of each view in its variates, (d, K).

    Returns
    -------
    list of array or None
        For each view, what is added to its loadings, (D, K); None for a view of which nothing is left out.
    """
    wide = [at for at, view in enumerate(reduced.views) if not view.basis.is_complete]
    reach = score_reach(weights[0].shape[1])
    scores, offsets, lengths = [], [], []
    for at in wide:
        view = reduced.views[at]
        mine = view.directions @ weights[at] / reach
        scores.append(mine)
        offsets.append(view.mean[: view.n_kept] @ mine)
        # Residuals of all views together are clipped to one ball.
        energy = residual_length(view.covariance, view.left_out, view.noise_scale, view.n_kept)
        lengths.append(energy * math.sqrt(len(wide)))
    statistic = scaled(
        federation.facts,
        reduced.scaling,
        "residual_maps",
        **of_basis(reduced.basis),
        kept=np.array([reduced.views[at].n_kept for at in wide]),
        scores=np.vstack(scores),
        offset=np.array(offsets),
        residual_scale=np.array(lengths),
    )
    maps = private.mean(statistic) * reach
    scale = private.releases[-1].scale / private.counted.divisor * reach
    result: list[FloatArray | None] = [None] * len(reduced.views)
    end = 0
    for at, length in zip(wide, lengths, strict=True):
        start, end = end, end + reduced.views[at].basis.n_features
        result[at] = reduced.views[at].beyond(maps[start:end] * length, scale * length)
    return result
