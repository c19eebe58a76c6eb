"""Moments with one contribution per subject, for subject-level ICA (docs/analyses/joint_ica.md).

Computations within one subject cost no privacy, so each subject's series is centred, reduced and whitened by itself,
and only the result is bounded. Every contribution passes through :func:`into_ball` last (or is a scaled projector), so
the diameters below hold for any records and any public matrix.

A tile holds one subject. What it contributes is computed by linear algebra of ordinary numbers, in arrays whose shapes
and entries are that subject's own: whatever the library rounds, and however it orders its sums for these shapes, the
result is a function of that subject and of public numbers, because no other subject takes part. Then it is put on whole
numbers and added exactly. Between two machines the last bits may differ, between neighbouring data sets not.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.contributions import Form, Plain
from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import Extent, exact_sums, plain_error
from dpcape.core.facts import PublicFacts
from dpcape.core.kernel import Summed
from dpcape.core.statistic import MeanT_co, known
from dpcape.core.tiles import Tile
from dpcape.statistics.packing import pack, pack4, packed_size, packed_size4, pair_products, traceless4, unpack
from dpcape.statistics.reduced import centred, checked_matrix, checked_positive, into_ball, key_of

# Eigenvalues of a subject's covariance are raised to this part of the largest: fewer time points than dimensions,
# or constant voxels, must not divide by zero.
_LEAST_EIGENVALUE = 1e-6
# Norm of a whitened time point, in units of sqrt(dimensions), beyond which it is scaled down.
_SERIES_CLIP = 1.3
# Weights of the present and of the past in the lagged fourth moment.
_PRESENT, _DECAY = 0.6, 0.7
# A traceless part smaller than this part of the tensor is rounding, not signal.
_LEAST_TRACELESS = 1e-4


class OfSubjects(Summed[MeanT_co]):
    """Base class of statistics of whole subjects, each of which contributes one vector of at most the radius."""

    kinds = frozenset({"subjects"})
    units = frozenset({"subject"})

    def terms(self, tile: Tile) -> Sequence[Form]:
        return [Plain(self._of_subject(tile)[np.newaxis], self.radius)]

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        return sums[0]

    @abstractmethod
    def _of_subject(self, tile: Tile) -> FloatArray:
        """Return what the only subject of a tile contributes."""


def extent_in_ball(size: float, radius: float) -> Extent:
    """Return the extent of contributions in a ball: the diameter is twice the radius.

    What is computed is no longer than the radius (:func:`into_ball`); rounding it to whole numbers is all that is off.
    """
    return exact_sums(size, 2 * radius, radius, error=plain_error(size, radius))


class InBall(OfSubjects[MeanT_co]):
    """Base class of statistics whose contributions are clipped to a ball, one subject at a time.

    Series are reduced by ``projection`` (cached) and then multiplied by ``whitener``.
    """

    _fills: ClassVar[bool] = False
    _projection: FloatArray
    _whitener: FloatArray

    def _of_subject(self, tile: Tile) -> FloatArray:
        series = tile.series.kept(self._key, self._reduced)
        return into_ball(self._attempt(series @ self._whitener.T), self.radius, fill=self._fills)

    def _reduced(self, series: FloatArray) -> FloatArray:
        return centred(series @ self._projection)

    @cached_property
    def _key(self) -> bytes:
        return key_of(self._projection)

    def _attempt(self, series: FloatArray) -> FloatArray:
        """Return the contribution, or zero if a decomposition fails, so that the site always answers."""
        try:
            with np.errstate(all="ignore"):
                return self._contribution(series)
        except np.linalg.LinAlgError:
            return np.zeros(self.size)

    @abstractmethod
    def _contribution(self, series: FloatArray) -> FloatArray:
        """Return one subject's contribution before clipping, from its reduced series."""


@known
class SubjectProjector(OfSubjects[FloatArray]):
    """Mean of the projectors on each subject's leading directions, in a public basis.

    A contribution is U U' with |U'U|_F <= sqrt(K): positive semi-definite for every U, so two contributions have an
    inner product of at least 0 and a squared distance of at most 2 K. Each entry of U U' is a sum of K products: its
    roundings are at most K u |U|^2 long together, and |U|^2, the trace of U'U, is at most sqrt(K) |U'U|_F <= K.
    """

    name = "subject_projector"

    def __init__(self, facts: PublicFacts, basis: FloatArray, n_components: int) -> None:
        matrix = checked_matrix("basis", basis, (facts.n_features, None))
        if isinstance(n_components, bool) or not 1 <= n_components <= matrix.shape[1]:
            must = f"be between 1 and the {matrix.shape[1]} columns of the basis"
            raise InvalidParameter("n_components", must, repr(n_components), "Use fewer components.")
        super().__init__(facts, basis=matrix, n_components=int(n_components))
        check_lengths(facts, int(n_components))
        self._basis, self._n_components = matrix, int(n_components)

    @staticmethod
    def extent(*, n_columns: float, n_components: float) -> Extent:
        """Return the extent for projectors on ``n_components`` directions in a basis of ``n_columns``."""
        radius = math.sqrt(n_components)
        size = packed_size(n_columns)
        error = plain_error(size, radius, roundings=64 + 2 * n_components * radius)
        return exact_sums(size, math.sqrt(2 * n_components), radius, error=error)

    @property
    def numbers(self) -> Mapping[str, float]:
        return {"n_columns": self._basis.shape[1], "n_components": self._n_components}

    def _of_subject(self, tile: Tile) -> FloatArray:
        directions = self._directions(centred(tile.series.values @ self._basis))
        return pack(directions @ directions.T)

    def _directions(self, series: FloatArray) -> FloatArray:
        """Return at most K orthonormal columns, scaled down where rounding made them too long."""
        try:
            if len(series) < series.shape[1]:
                directions = np.linalg.svd(series, full_matrices=False)[2][: self._n_components].T
            else:
                directions = np.linalg.eigh(series.T @ series)[1][:, -self._n_components :]
        except np.linalg.LinAlgError:
            return np.zeros((series.shape[1], 1))
        gram = directions.T @ directions
        length = math.sqrt(max(float(np.linalg.norm(gram)), 1e-300))
        # Less by more than the roundings of U'U, relative to its length, and of that length.
        target = math.sqrt(self.radius) * (1 - (series.shape[1] * self._n_components + 64) * 2.0**-52)
        if not np.isfinite(length) or not series.any():
            return np.zeros((series.shape[1], 1))
        scaled: FloatArray = directions * min(1.0, target / length)
        return scaled

    def unpack(self, packed: FloatArray) -> FloatArray:
        return unpack(packed, self._basis.shape[1])


class _OfReducedSubjects(InBall[FloatArray]):
    """Base class of statistics in a ball that refuse series with too few time points."""

    def __init__(self, facts: PublicFacts, projection: FloatArray, whitener: FloatArray, **more: float) -> None:
        matrix = checked_matrix("projection", projection, (facts.n_features, None))
        inner = checked_matrix("whitener", whitener, (matrix.shape[1], matrix.shape[1]))
        super().__init__(facts, projection=matrix, whitener=inner, **more)
        check_lengths(facts, int(matrix.shape[1]))
        self._projection, self._whitener = matrix, inner

    @property
    def _width(self) -> int:
        return int(self._projection.shape[1])


@known
class SubjectLogCovariance(_OfReducedSubjects):
    """Mean of log C - (tr/K) I of each subject's covariance C, clipped to ``clip``: a ball, hence 2 clip."""

    name = "subject_log_covariance"

    def __init__(self, facts: PublicFacts, projection: FloatArray, whitener: FloatArray, clip: float) -> None:
        super().__init__(facts, projection, whitener, clip=checked_positive("clip", clip))
        self._clip = float(clip)

    @staticmethod
    def extent(*, n_components: float, clip: float) -> Extent:
        """Return the extent for matrices of ``n_components`` rows and of length at most ``clip``."""
        return extent_in_ball(packed_size(n_components), clip)

    @property
    def numbers(self) -> Mapping[str, float]:
        return {"n_components": self._width, "clip": self._clip}

    def _contribution(self, series: FloatArray) -> FloatArray:
        values, vectors = _eigen(series)
        logs = np.log(values)
        return pack((vectors * (logs - logs.mean())) @ vectors.T)

    def unpack(self, packed: FloatArray) -> FloatArray:
        return unpack(packed, self._width)


@known
class SubjectCovariance(SubjectLogCovariance):
    """Mean of each subject's covariance scaled to trace K, minus I, clipped to ``clip``."""

    name = "subject_covariance"

    def _contribution(self, series: FloatArray) -> FloatArray:
        covariance = series.T @ series
        covariance *= self._width / np.trace(covariance)
        return pack(covariance - np.eye(self._width))


@known
class SubjectTensor(_OfReducedSubjects):
    """Mean of each subject's traceless fourth-order tensor with lags, divided by its length.

    The subject is whitened by its own covariance; F_t are the products of pairs of a time point, and the tensor is the
    symmetric part of sum_t F_t (.6 F_t + sum_l .7^(l-1) F_(t-l))'. The lags capture volatility that persists.
    """

    name = "subject_tensor"
    _fills = True

    def __init__(self, facts: PublicFacts, projection: FloatArray, whitener: FloatArray) -> None:
        super().__init__(facts, projection, whitener)

    @staticmethod
    def extent(*, n_components: float) -> Extent:
        """Return the extent for tensors of ``n_components`` dimensions and of length one."""
        return extent_in_ball(packed_size4(n_components), 1.0)

    @property
    def numbers(self) -> Mapping[str, float]:
        return {"n_components": self._width}

    def _contribution(self, series: FloatArray) -> FloatArray:
        # Imported here: the import takes half of the start-up time of a command or site, and few analyses need it.
        from scipy.signal import lfilter

        pairs = pair_products(limited(whitened(series)))
        # y_t = F_(t-1) + .7 y_(t-1), the exponentially weighted past.
        past = lfilter([0.0, 1.0], [1.0, -_DECAY], pairs, axis=1)
        tensor = pack4(pairs @ (_PRESENT * pairs + past).T, self._width)
        traceless = traceless4(tensor, self._width)
        if np.linalg.norm(traceless) < _LEAST_TRACELESS * np.linalg.norm(tensor):
            return np.zeros(self.size)
        return traceless


def check_lengths(facts: PublicFacts, n_components: int) -> None:
    """Refuse series that are all too short, at a site; the longest length is a public fact (0 if unknown)."""
    if 0 < facts.rows_per_unit <= n_components:
        must = f"have more time points than the {n_components} components"
        raise InvalidParameter("Subjects", must, f"at most {facts.rows_per_unit}", "Use fewer components.")


def _eigen(series: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return eigenvalues, raised to a least part of the largest, and eigenvectors of a subject's covariance."""
    values, vectors = np.linalg.eigh(series.T @ series / len(series))
    return np.maximum(values, _LEAST_EIGENVALUE * values[-1]), vectors


def whitened(series: FloatArray) -> FloatArray:
    """Return the series times the symmetric inverse root of its own covariance."""
    values, vectors = _eigen(series)
    result: FloatArray = series @ ((vectors / np.sqrt(values)) @ vectors.T)
    return result


def limited(series: FloatArray) -> FloatArray:
    """Return the series with time points longer than 1.3 sqrt(K) scaled down to that."""
    norms = np.sqrt(np.vecdot(series, series))
    limit = _SERIES_CLIP * math.sqrt(series.shape[1])
    result: FloatArray = series * (limit / np.maximum(norms, limit))[:, np.newaxis]
    return result


def subject_projector(facts: PublicFacts, basis: FloatArray, *, n_components: int) -> SubjectProjector:
    """Mean of the projectors on each subject's leading directions."""
    return SubjectProjector(facts, basis, n_components)


def subject_log_covariance(facts: PublicFacts, projection: FloatArray, *, clip: float) -> SubjectLogCovariance:
    """Mean of the clipped logarithms of the subjects' covariances."""
    return SubjectLogCovariance(facts, projection, np.eye(projection.shape[1]), clip)


def subject_covariance(
    facts: PublicFacts, projection: FloatArray, whitener: FloatArray, *, clip: float
) -> SubjectCovariance:
    """Mean of the subjects' covariances in ``whitener`` coordinates, minus the identity."""
    return SubjectCovariance(facts, projection, whitener, clip)


def subject_tensor(facts: PublicFacts, projection: FloatArray, whitener: FloatArray) -> SubjectTensor:
    """Mean of the subjects' normalised traceless tensors."""
    return SubjectTensor(facts, projection, whitener)
