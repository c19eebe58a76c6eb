"""The stages of joint ICA: each asks for private means and post-processes them; shares are fixed beforehand."""

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
from dpcape.arrays import FloatArray
from dpcape.errors import UtilityWarning
from dpcape.facts import PublicFacts
from dpcape.federation import Allowance
from dpcape.postprocessing.eigen import floored_whitener, noise_norm, top_eigen
from dpcape.postprocessing.ica_infomax import Infomax
from dpcape.postprocessing.ica_polish import first_widths, polished
from dpcape.postprocessing.ica_rotation import rotate, tensor_values
from dpcape.postprocessing.ica_self_check import ALL_CLEAR, clearance, least_clearance
from dpcape.statistics import (
    fourth_moment,
    infomax_scores,
    reduced_second_moment,
    second_moment,
    subject_covariance,
    subject_infomax,
    subject_log_covariance,
    subject_polish,
    subject_projector,
    subject_tensor,
)
from dpcape.statistics.statistic import AnyStatistic

# Infomax turns an error of the gradient into 1/slope as much error of the rotation. Runs at .09 of such error found
# nothing and runs at .04 found the sources (experiments/ica, 20 components); the limit lies between.
_SLOPE, _MOST_ERROR = 0.1, 0.06


@dataclass(frozen=True)
class Reduction:
    """Rows times ``projection`` have few dimensions; times ``whitener``' they are white."""

    projection: FloatArray
    whitener: FloatArray

    @property
    def white(self) -> FloatArray:
        """The projection onto whitened dimensions."""
        product: FloatArray = self.projection @ self.whitener.T
        return product


def reduce_records(facts: PublicFacts, private: Allowance, basis: FloatArray | None, n_components: int) -> Reduction:
    """Private PCA (unless the basis has as many columns as components) and private whitening, record unit."""
    bound = math.hypot(*facts.bounds)
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
    # Scaled by the released eigenvalues first, so that the noise of the next release is even over directions.
    scaled = directions / np.sqrt(np.maximum(values, max(noise, float(values[0]) * 1e-9, 1e-300)))
    moment = private.mean(reduced_second_moment(facts, scaled, clip=whitening_clip(n_components)))
    floor = max(noise_norm(private.releases[-1].scale, n_components), 1e-3)
    return Reduction(scaled, floored_whitener(moment, floor))


def rotate_records(
    facts: PublicFacts, private: Allowance, reduction: Reduction, kurtosis: str
) -> tuple[FloatArray, float]:
    """One fourth moment, then a rotation; return it with its clearance over noise."""
    n = len(reduction.whitener)
    tensor = private.mean(fourth_moment(facts, reduction.white, clip=fourth_clip(n)))
    rotation = rotate(tensor, n, kurtosis=kurtosis, n_starts=starts(n))
    return rotation, _checked(tensor, rotation, private.releases[-1].scale)


def reduce_subjects(
    facts: PublicFacts, private: Allowance, basis: FloatArray, n_components: int, n_timepoints: int
) -> Reduction:
    """Projector PCA (unless the basis is small already), log-covariance and recentred covariances, subject unit."""
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
    """Tensor, rotation and polish; return the rotation with the tensor's clearance over noise."""
    n = len(reduction.whitener)
    tensor = private.mean(subject_tensor(facts, reduction.projection, reduction.whitener))
    scale = private.releases[-1].scale
    rotation = rotate(tensor, n, kurtosis=kurtosis, n_starts=starts(n))
    clear = _checked(tensor, rotation, scale)
    if kurtosis != "positive":
        return rotation, clear
    widths = first_widths(tensor_values(tensor, rotation), scale)
    for _ in range(N_POLISH_ROUNDS):
        asked = subject_polish(facts, reduction.projection, reduction.whitener, rotation=rotation)
        scores, slopes = private.mean(asked)
        rotation, widths = polished(rotation, scores, slopes, widths, private.releases[-1].scale)
    return rotation, clear


def infomax_records(
    facts: PublicFacts, private: Allowance, reduction: Reduction, state: Infomax, tolerance: float
) -> FloatArray:
    """Infomax rounds at the record unit; stopping early is allowed, paying less is not."""
    n = state.n_components
    clip, bias_clip = infomax_clips(n)
    while state.done < state.n_iter:
        asked = infomax_scores(
            facts, reduction.white, unmixing=state.unmixing, bias=state.bias, clip=clip, bias_clip=bias_clip
        )
        if state.done == 0:
            _warn_of_noisy_rounds(private, asked, state.n_iter, private.releases[-1].n_records)
        if state.step(*private.mean(asked)) < tolerance:
            break
    return state.result()


def infomax_subjects(
    facts: PublicFacts,
    private: Allowance,
    reduction: Reduction,
    state: Infomax,
    tolerance: float,
    n_timepoints: int,
) -> FloatArray:
    """Infomax rounds with a whole subject as the unit."""
    clip = subject_infomax_clip(state.n_components, n_timepoints)
    while state.done < state.n_iter:
        asked = subject_infomax(
            facts,
            reduction.projection,
            reduction.whitener,
            unmixing=state.unmixing,
            bias=state.bias,
            clip=clip,
        )
        if state.done == 0:
            _warn_of_noisy_rounds(private, asked, state.n_iter, private.releases[-1].n_records)
        if state.step(*private.mean(asked)) < tolerance:
            break
    return state.result()


def _warn_of_noisy_rounds(private: Allowance, asked: AnyStatistic, n_iter: int, n_records: int) -> None:
    """Warn, from the planned noise alone, when the averaged iterates of infomax must be mostly noise."""
    plan = private.plan(asked)
    sites = tuple(plan.own_scales)
    scale = plan.sum_scale(sites) / n_records
    if scale * math.sqrt(2 / n_iter) > _MOST_ERROR * _SLOPE:
        warnings.warn(
            f"noise in the {n_iter} rounds of infomax must average out; got rounds too noisy for that. Use "
            "solver='moment', more records or a larger epsilon; do not interpret these maps.",
            UtilityWarning,
            stacklevel=2,
        )


def starts(n: int) -> int:
    """Return how many rotations to start from: fewer where each costs more."""
    return 8 if n <= 25 else 3


def _checked(tensor: FloatArray, rotation: FloatArray, scale: float) -> float:
    """Return the clearance of the rotation's values over noise, with a warning where it is small."""
    clear = clearance(tensor_values(tensor, rotation), scale)
    n = len(rotation)
    advice = "Use more records, a larger epsilon, a public basis or fewer components."
    if clear < least_clearance(n):
        text = (
            f"got {clear:.2f} times the values of pure noise, which noise alone may reach. Do not interpret these maps."
        )
        warnings.warn(f"components must stand out of the noise; {text} {advice}", UtilityWarning, stacklevel=2)
    elif clear < ALL_CLEAR:
        text = (
            f"got {clear:.2f} times the values of pure noise, where {ALL_CLEAR} is clear. The weaker maps may be noise."
        )
        warnings.warn(f"components should stand out of the noise; {text} {advice}", UtilityWarning, stacklevel=2)
    return clear


def _warn_of_drowned_directions(values: FloatArray, noise: float) -> None:
    """Say so when released eigenvalues do not stand out of the noise (public: both are released)."""
    n_clear = int(np.sum(values > noise))
    if n_clear < values.size and noise > 0:
        warnings.warn(
            f"directions must stand out of the noise of the private PCA; got {n_clear} of {values.size} that do. "
            "Voxels may be constant, or noise dominates: use a public basis of fewer columns, more records, a larger "
            "epsilon or fewer components.",
            UtilityWarning,
            stacklevel=2,
        )
