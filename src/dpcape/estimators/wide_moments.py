"""Components of wide rows: moments in a public basis, and maps of what the basis leaves out."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace

import numpy as np

from dpcape.analyses.description import Public
from dpcape.analyses.scaling import is_centred
from dpcape.analyses.wide import InBasis, maps_used, rows_in_basis
from dpcape.core.arrays import FloatArray
from dpcape.core.errors import UtilityWarning
from dpcape.estimators.estimator import effective_share
from dpcape.estimators.scaling import scaled
from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation
from dpcape.postprocessing.component_tests import MomentNoise, component_p_values, moment_error
from dpcape.postprocessing.eigen import all_eigen, fix_signs, top_eigen
from dpcape.postprocessing.scaling import Scaling
from dpcape.postprocessing.verdicts import LEVEL
from dpcape.postprocessing.wide_components import (
    basis_maps,
    combined_components,
    kept_columns,
    residual_length,
    values_kept,
)
from dpcape.statistics.basis import Basis
from dpcape.statistics.basis_moments import of_basis
from dpcape.statistics.moments import MEAN_WEIGHT

# The energy left out has normal noise; it exceeds this many standard deviations with probability 3e-5.
_FAR = 4.0


@dataclass(frozen=True)
class WideComponents:
    """Components of wide rows.

    Attributes
    ----------
    components : array of shape (K, D)
        Orthonormal rows.
    values : array of shape (K,)
        Eigenvalues.
    p_values : array of shape (K,)
        Of the test of each component inside the basis.
    n_kept : int
        Number of the first columns of the basis that were kept.
    directions : array of shape (n_kept, K)
        The components inside the basis.
    """

    components: FloatArray
    values: FloatArray
    p_values: FloatArray
    n_kept: int
    directions: FloatArray


@dataclass(frozen=True)
class WideMoments:
    """Released moments of wide rows in a public basis.

    Attributes
    ----------
    basis : Basis
        The public basis.
    scaling : Scaling or None
        How rows were standardised.
    covariance : array of shape (R, R)
        Covariance, or second moment, of the coordinates in the units of the rows; zero for unused columns.
    mean : array of shape (R,)
        Mean of the coordinates of standardised rows; zeros without centring.
    left_out : float
        Mean squared length of what the basis leaves of a row.
    noise : MomentNoise
        Noise of the covariance.
    """

    basis: Basis
    scaling: Scaling | None
    covariance: FloatArray
    mean: FloatArray
    left_out: float
    noise: MomentNoise

    @property
    def unit(self) -> float:
        """Length by which rows were divided."""
        return 1.0 if self.scaling is None else float(self.scaling.radius[0])

    @property
    def mean_row(self) -> FloatArray:
        """Mean of the rows, as far as it was released."""
        mean = self.basis.expanded(self.mean[np.newaxis])[0]
        return mean if self.scaling is None else self.scaling.rows(mean)

    def components(self, wanted: int | None) -> WideComponents:
        """Return the components inside the basis; None keeps those that the test finds."""
        used = self.basis.used
        most = wanted or int(used.sum())
        inner = replace(self.noise, mean=self.noise.mean[used])
        values, vectors = all_eigen(self.covariance[np.ix_(used, used)])
        p_values = component_p_values(values, vectors, inner, min(most, int(used.sum())))
        p_values = np.concatenate([p_values, np.ones(most - len(p_values))])
        n_components = max(1, int(np.sum(p_values <= LEVEL))) if wanted is None else wanted
        cuts = self.basis.cuts(n_components)
        n_kept = kept_columns(self.covariance, self.noise.scale, n_components, cuts)
        values, directions = top_eigen(self.covariance[:n_kept, :n_kept], n_components)
        maps = fix_signs(basis_maps(self.basis, directions).T).T
        return WideComponents(maps.copy(), values, p_values[:n_components], n_kept, directions)

    def interval(self, n_components: int, share_scale: float) -> FloatArray:
        """Return intervals for the largest eigenvalues of the whole rows, all together at 95%.

        With the coordinates in the basis and what is left stacked, an eigenvalue of the rows is at least that of the
        coordinates, and exceeds it by at most the largest eigenvalue of what is left, which its energy bounds.
        """
        used = self.basis.used
        values, _ = top_eigen(self.covariance[np.ix_(used, used)], min(n_components, int(used.sum())))
        values = np.concatenate([values, np.zeros(n_components - len(values))])
        error = moment_error(replace(self.noise, mean=self.noise.mean[used]), int(used.sum()))
        beyond = max(self.left_out + _FAR * self.noise.scale, 0.0)
        # Unreadable records that noise hides make every eigenvalue too small by their share.
        high = (values + error + beyond) * (1 + 2 * share_scale)
        return np.maximum(np.stack([values - error, high]), 0.0)


def released_moments(
    federation: Federation, private: Allowance, basis: Basis, scaling: Scaling | None, *, center: bool
) -> WideMoments:
    """Release the moments of wide rows in a public basis.

    Parameters
    ----------
    federation : Federation
        The sites.
    private : Allowance
        Its next release is used.
    basis : Basis
        The public basis.
    scaling : Scaling or None
        How rows are standardised first.
    center : bool
        Whether the mean is released, too, and subtracted.
    """
    mean = np.zeros(basis.n_columns)
    if center:
        statistic = scaled(
            federation.facts, scaling, "centred_basis_moments", **of_basis(basis), mean_weight=MEAN_WEIGHT
        )
        mean, moment, energies = private.mean(statistic)
    else:
        moment, energies = private.mean(scaled(federation.facts, scaling, "basis_moments", **of_basis(basis)))
    mean = np.where(basis.used, mean, 0.0)
    unit, bound = (1.0, math.hypot(*federation.facts.bounds)) if scaling is None else (float(scaling.radius[0]), 1.0)
    release = private.releases[-1]
    scale = release.scale / private.counted.divisor
    noise = MomentNoise(
        scale=scale * unit**2,
        mean_scale=scale * unit / (MEAN_WEIGHT * bound) if center else 0.0,
        mean=mean * unit,
        record_share=effective_share(federation, release.survivors) / private.counted.divisor,
    )
    covariance = (moment - np.outer(mean, mean)) * unit**2 * np.outer(basis.used, basis.used)
    return WideMoments(basis, scaling, covariance, mean, float(energies[0]) * unit**2, noise)


def maps_of_rows_or_warned(public: Public, *, scaled: bool) -> bool:
    """Return whether maps of rows are released, by the rule of the schedule; warn if they are asked for and are not."""
    wants_scaling = (is_centred(public.center, public.clip) and public.kind != "views") or public.clip is not None
    return maps_or_warned(public, rows_in_basis(public), needed=scaled or not wants_scaling)


def maps_or_warned(public: Public, rows: InBasis, *, needed: bool) -> bool:
    """Return whether maps are released, by the rule of the schedule; warn if they are asked for and are not.

    Parameters
    ----------
    public : Public
        Public numbers of the study.
    rows : InBasis
        What the basis makes of the columns.
    needed : bool
        Whether rows were scaled, where that was asked for.
    """
    used = bool(maps_used(public, rows, needed))
    if public.maps and not used:
        warnings.warn(
            "Maps of what the basis leaves out are not released because noise would hide them; the whole allowance "
            "goes to the basis. Use more records, a larger epsilon or fewer components.",
            UtilityWarning,
            stacklevel=5,
        )
    return used


def with_maps(
    federation: Federation, private: Allowance, moments: WideMoments, inside: WideComponents
) -> WideComponents:
    """Release maps of what the kept columns leave out, and return the components at full resolution.

    Parameters
    ----------
    federation : Federation
        The sites.
    private : Allowance
        Its next release is used.
    moments : WideMoments
        The moments that were released.
    inside : WideComponents
        The components inside the basis.
    """
    unit, n_components = moments.unit, len(inside.values)
    least = max(float(inside.values[0]) * 1e-9, 1e-300)
    scores = inside.directions / np.sqrt(np.maximum(inside.values, least))
    reach = math.sqrt(n_components)
    length = residual_length(moments.covariance, moments.left_out, moments.noise.scale, inside.n_kept)
    statistic = scaled(
        federation.facts,
        moments.scaling,
        "residual_maps",
        **of_basis(moments.basis),
        # Scores of rows in their own units have variance 1; they are sent divided by the length they are clipped to.
        kept=np.array([inside.n_kept]),
        scores=scores * (unit / reach),
        offset=(moments.mean[: inside.n_kept] @ scores * (unit / reach))[np.newaxis],
        residual_scale=np.array([length / unit]),
    )
    maps = private.mean(statistic) * (length * reach)
    scale = private.releases[-1].scale / private.counted.divisor * (length * reach)
    kept_values = values_kept(inside.values, moments.noise.scale, inside.n_kept)
    values, components = combined_components(moments.basis, inside.directions, kept_values, maps, scale)
    return replace(inside, components=components, values=values)
