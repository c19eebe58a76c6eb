"""Stages of joint ICA: each requests private means and post-processes them; shares are fixed in advance."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
from scipy.linalg import expm

from dpcape.analyses.joint_ica import (
    LEFT_BY_LOGS,
    LOG_CLIP,
    N_COVARIANCE_ROUNDS,
    N_POLISH_ROUNDS,
    covariance_clip,
    fourth_clip,
    infomax_clips,
    subject_infomax_clip,
    whitening_clip,
)
from dpcape.core.arrays import FloatArray
from dpcape.core.errors import UtilityWarning
from dpcape.core.facts import PublicFacts
from dpcape.core.statistic import AnyStatistic, build
from dpcape.estimators.ica.infomax import Infomax
from dpcape.estimators.ica.polish import first_widths, polished
from dpcape.estimators.ica.rotation import rotate, tensor_values
from dpcape.estimators.ica.self_check import ALL_CLEAR, clearance, least_clearance
from dpcape.federation.allowance import Allowance
from dpcape.postprocessing.eigen import floored_whitener, noise_norm, top_eigen
from dpcape.postprocessing.wide_components import (
    basis_maps,
    kept_columns,
    off_basis,
    residual_length,
    score_reach,
    shrunk_maps,
)
from dpcape.statistics.basis import Basis
from dpcape.statistics.basis_moments import of_basis
from dpcape.statistics.fourth_moments import fourth_moment, reduced_second_moment
from dpcape.statistics.infomax_scores import infomax_scores
from dpcape.statistics.moments import second_moment
from dpcape.statistics.subject_moments import (
    subject_covariance,
    subject_log_covariance,
    subject_projector,
    subject_tensor,
)
from dpcape.statistics.subject_scores import subject_infomax, subject_polish

# An error of the gradient causes 1/slope times that error in the rotation. Runs with an error of .09 found nothing,
# runs with .04 found the sources (experiments/ica, 20 components); the limit lies between.
_SLOPE, _MOST_ERROR = 0.1, 0.06


@dataclass(frozen=True)
class SeenInBasis:
    """Moments of wide rows in a public basis, and the directions that reduce them.

    Attributes
    ----------
    basis : Basis
        The public basis.
    moment : array of shape (R, R)
        Released second moment of the coordinates.
    left_out : float
        Released energy that the basis leaves out.
    scale : float
        Standard deviation of the noise on the diagonal of the moment.
    directions : array of shape (kept, n_components)
        The projection in the first columns of the basis.
    """

    basis: Basis
    moment: FloatArray
    left_out: float
    scale: float
    directions: FloatArray


@dataclass(frozen=True)
class Reduction:
    """Reduction and whitening of rows.

    Attributes
    ----------
    projection : array of shape (n_features, n_components)
        Reduces rows: rows @ projection.
    whitener : array of shape (n_components, n_components)
        Whitens reduced rows: reduced @ whitener.T.
    seen : SeenInBasis or None
        What was released in a public basis, of which maps can be made; None otherwise.
    """

    projection: FloatArray
    whitener: FloatArray
    seen: SeenInBasis | None = None

    @property
    def white(self) -> FloatArray:
        """The projection onto whitened dimensions."""
        return self.projection @ self.whitener.T


def reduce_records(
    facts: PublicFacts, private: Allowance, basis: Basis | FloatArray | None, n_components: int
) -> Reduction:
    """Reduce and whiten at the record unit: private PCA, unless the basis is small enough, and private whitening."""
    bound = math.hypot(*facts.bounds)
    if isinstance(basis, Basis) and basis.n_columns > n_components:
        return _reduce_in_basis(facts, private, basis, n_components)
    if isinstance(basis, Basis):
        basis = basis_maps(basis, np.eye(n_components)).T
    if basis is not None and basis.shape[1] == n_components:
        moment = private.mean(reduced_second_moment(facts, basis, clip=bound))
        return Reduction(basis, floored_whitener(moment, noise_norm(private.releases[-1].scale, n_components)))
    if basis is None:
        moment = private.mean(second_moment(facts))
    else:
        moment = private.mean(reduced_second_moment(facts, basis, clip=bound))
    noise = noise_norm(private.releases[-1].scale, len(moment))
    values, vectors = top_eigen(moment, n_components)
    _warn_of_drowned_directions(values, noise)
    directions = vectors if basis is None else basis @ vectors
    scaled = directions / _roots(values, noise)
    return Reduction(scaled, _whitened(facts, private, scaled))


def _reduce_in_basis(facts: PublicFacts, private: Allowance, basis: Basis, n_components: int) -> Reduction:
    """Reduce wide rows in a public basis, of whose first columns as many are kept as give the most energy."""
    moment, energies = private.mean(build("basis_moments", facts, of_basis(basis)))
    moment = moment * np.outer(basis.used, basis.used)
    scale = private.releases[-1].scale / private.counted.divisor
    n_kept = kept_columns(moment, scale, n_components, basis.cuts(n_components))
    values, vectors = top_eigen(moment[:n_kept, :n_kept], n_components)
    noise = noise_norm(scale, n_kept)
    _warn_of_drowned_directions(values, noise)
    directions = vectors / _roots(values, noise)
    projection = np.ascontiguousarray(basis_maps(basis, directions).T)
    seen = SeenInBasis(basis, moment, float(energies[0]), scale, directions)
    return Reduction(projection, _whitened(facts, private, projection), seen)


def _roots(values: FloatArray, noise: float) -> FloatArray:
    """Return the lengths of directions by released eigenvalues: the next release then has equal noise in all."""
    return np.sqrt(np.maximum(values, max(noise, float(values[0]) * 1e-9, 1e-300)))


def _whitened(facts: PublicFacts, private: Allowance, projection: FloatArray) -> FloatArray:
    """Release the second moment of reduced rows, and return what whitens it."""
    n_components = projection.shape[1]
    moment = private.mean(reduced_second_moment(facts, projection, clip=whitening_clip(n_components)))
    return floored_whitener(moment, max(noise_norm(private.releases[-1].scale, n_components), 1e-3))


def released_maps(facts: PublicFacts, private: Allowance, seen: SeenInBasis, inner: FloatArray) -> FloatArray:
    """Release the maps of sources beyond the kept columns of a basis, (D, K), shrunk by their noise.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of the records.
    private : Allowance
        Its next release is used.
    seen : SeenInBasis
        What was released in the basis.
    inner : array of shape (K, K)
        Unmixing of reduced rows.
    """
    n_kept, n_components = seen.directions.shape
    reach = score_reach(n_components)
    # Whitening uses clipped rows, so sources may have a variance above 1: rescale them to 1.
    reduced = seen.directions.T @ seen.moment[:n_kept, :n_kept] @ seen.directions
    spread = np.sqrt(np.maximum(np.vecdot(inner @ reduced, inner), 1e-12))
    length = residual_length(seen.moment, seen.left_out, seen.scale, n_kept)
    public = {
        **of_basis(seen.basis),
        "kept": np.array([n_kept]),
        "scores": seen.directions @ inner.T / (reach * spread),
        "offset": np.zeros((1, n_components)),
        "residual_scale": np.array([length]),
    }
    maps = private.mean(build("residual_maps", facts, public)) * (length * reach)
    scale = private.releases[-1].scale / private.counted.divisor * (length * reach)
    residual = shrunk_maps(off_basis(seen.basis, maps.T, n_kept), scale, seen.basis.inside)
    beyond: FloatArray = residual.T / spread
    return beyond


def rotate_records(
    facts: PublicFacts, private: Allowance, reduction: Reduction, kurtosis: str
) -> tuple[FloatArray, float]:
    """Rotate at the record unit: one fourth moment; return the rotation and its clearance over noise."""
    n = len(reduction.whitener)
    tensor = private.mean(fourth_moment(facts, reduction.white, clip=fourth_clip(n)))
    rotation = rotate(tensor, n, kurtosis=kurtosis, n_starts=starts(n))
    return rotation, _checked(tensor, rotation, private.releases[-1].scale)


def reduce_subjects(
    facts: PublicFacts, private: Allowance, basis: FloatArray, n_components: int, n_timepoints: int
) -> Reduction:
    """Reduce and whiten at the subject unit: projector PCA, log-covariance, then recentred covariances."""
    projection = basis
    if basis.shape[1] > n_components:
        mean = private.mean(subject_projector(facts, basis, n_components=n_components))
        values, vectors = top_eigen(mean, n_components)
        _warn_of_drowned_directions(values, noise_norm(private.releases[-1].scale, len(mean)))
        projection = basis @ vectors
    logs = private.mean(subject_log_covariance(facts, projection, clip=LOG_CLIP))
    whitener: FloatArray = expm(-_pulled_back(logs) / 2)
    clip = covariance_clip(n_components, n_timepoints, private.releases[-1].scale, residual=LEFT_BY_LOGS)
    for _ in range(N_COVARIANCE_ROUNDS):
        excess = private.mean(subject_covariance(facts, projection, whitener, clip=clip))
        whitener = floored_whitener(np.eye(n_components) + excess, 0.05) @ whitener
        clip = covariance_clip(n_components, n_timepoints, private.releases[-1].scale)
    return Reduction(projection, whitener)


def _pulled_back(logs: FloatArray) -> FloatArray:
    """Return a mean of clipped log-covariances with eigenvalues that such a mean can have; noise may exceed them."""
    values, vectors = np.linalg.eigh(logs)
    if np.abs(values).max() <= LOG_CLIP:
        return logs
    pulled: FloatArray = (vectors * np.clip(values, -LOG_CLIP, LOG_CLIP)) @ vectors.T
    return pulled


def rotate_subjects(
    facts: PublicFacts, private: Allowance, reduction: Reduction, kurtosis: str
) -> tuple[FloatArray, float]:
    """Rotate and refine at the subject unit; return the rotation and the tensor's clearance over noise."""
    n = len(reduction.whitener)
    tensor = private.mean(subject_tensor(facts, reduction.projection, reduction.whitener))
    scale = private.releases[-1].scale
    rotation = rotate(tensor, n, kurtosis=kurtosis, n_starts=starts(n))
    clear = _checked(tensor, rotation, scale)
    if kurtosis != "positive":
        return rotation, clear
    widths = first_widths(tensor_values(tensor, rotation), scale)
    for _ in range(N_POLISH_ROUNDS):
        statistic = subject_polish(facts, reduction.projection, reduction.whitener, rotation=rotation)
        scores, slopes = private.mean(statistic)
        rotation, widths = polished(rotation, scores, slopes, widths, private.releases[-1].scale)
    return rotation, clear


def infomax(
    facts: PublicFacts, private: Allowance, reduction: Reduction, state: Infomax, tolerance: float, n_timepoints: int
) -> FloatArray:
    """Run infomax at the unit of the records; stopping early does not reduce the charge."""
    clip, bias_clip = infomax_clips(state.n_components)
    subject_clip = subject_infomax_clip(state.n_components, n_timepoints)
    while state.done < state.n_iter:
        parameters = {"unmixing": state.unmixing, "bias": state.bias}
        statistic: AnyStatistic
        if facts.unit == "record":
            statistic = infomax_scores(facts, reduction.white, **parameters, clip=clip, bias_clip=bias_clip)
        else:
            projection, whitener = reduction.projection, reduction.whitener
            statistic = subject_infomax(facts, projection, whitener, **parameters, clip=subject_clip)
        if state.done == 0:
            _warn_of_noisy_rounds(private, statistic, state.n_iter, private.releases[-1].n_records)
        if state.step(*private.mean(statistic)) < tolerance:
            break
    return state.result()


def _warn_of_noisy_rounds(private: Allowance, statistic: AnyStatistic, n_iter: int, n_records: int) -> None:
    """Warn, from the planned noise alone, when averaging over rounds cannot remove enough noise."""
    plan = private.plan(statistic)
    sites = tuple(plan.own_scales)
    scale = plan.sum_scale(sites) / n_records
    if scale * math.sqrt(2 / n_iter) > _MOST_ERROR * _SLOPE:
        warnings.warn(
            f"The {n_iter} infomax rounds are too noisy to average out. Do not interpret these maps. Use "
            "solver='moment', more records or a larger epsilon.",
            UtilityWarning,
            stacklevel=2,
        )


def starts(n: int) -> int:
    """Return the number of starting rotations: fewer where each takes longer."""
    return 8 if n <= 25 else 3


def _checked(tensor: FloatArray, rotation: FloatArray, scale: float) -> float:
    """Return the clearance of the rotation's values over noise; warn if it is small."""
    clear = clearance(tensor_values(tensor, rotation), scale)
    n = len(rotation)
    advice = "Use more records, a larger epsilon, a public basis or fewer components."
    if clear < least_clearance(n):
        text = (
            f"The components are indistinguishable from noise: clearance_ is {clear:.2f}, which pure noise can reach. "
            "Do not interpret these maps."
        )
        warnings.warn(f"{text} {advice}", UtilityWarning, stacklevel=2)
    elif clear < ALL_CLEAR:
        text = f"The weaker components may be noise: clearance_ is {clear:.2f}, but only {ALL_CLEAR} or more is clear."
        warnings.warn(f"{text} {advice}", UtilityWarning, stacklevel=2)
    return clear


def _warn_of_drowned_directions(values: FloatArray, noise: float) -> None:
    """Warn when released eigenvalues are not above the noise; uses only what was released."""
    n_clear = int(np.sum(values > noise))
    if n_clear < values.size and noise > 0:
        warnings.warn(
            f"Only {n_clear} of {values.size} eigenvalues of the private PCA are above its noise. Voxels may be "
            "constant, or noise dominates. Use a public basis of fewer columns, more records, a larger epsilon or "
            "fewer components.",
            UtilityWarning,
            stacklevel=2,
        )
