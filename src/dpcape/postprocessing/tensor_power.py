"""Components from released moments: whitening, the tensor power method, and the inverse of the whitening.

With M2 = sum_k w_k a_k a_k' and M3 = sum_k w_k a_k (x) a_k (x) a_k, a whitener W (W' M2 W = I) makes the
vectors v_k = sqrt(w_k) W'a_k orthonormal, and M3(W, W, W) = sum_k w_k^(-1/2) v_k (x) v_k (x) v_k is found
one v_k at a time by power iterations (Anandkumar et al. 2014; dissertation, section 5.1.3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy.linalg
from scipy.special import ndtri

from dpcape.core.arrays import FloatArray
from dpcape.postprocessing.eigen import fix_signs, noise_norm
from dpcape.statistics.packing import packed_tensor_size

# From this size on, Lanczos steps are faster than a full reduction if few eigenvectors are needed.
_LARGE = 400


@dataclass(frozen=True)
class Whitening:
    """Whitening of a noisy second moment, and its inverse.

    Attributes
    ----------
    forward : array of shape (n_features, n_components)
        Whitening matrix W.
    backward : array of shape (n_features, n_components)
        Transposed pseudo-inverse of W, so that a = backward v solves W'a = v.
    eigenvalues : array of shape (n_components,)
        Eigenvalues of the released moment, descending.
    kept : array of shape (n_components,)
        Eigenvalues used: corrected for noise, and not below its level.
    n_drowned : int
        Number of eigenvalues not clearly above the noise; those below it were raised to its level.
    """

    forward: FloatArray
    backward: FloatArray
    eigenvalues: FloatArray
    kept: FloatArray
    n_drowned: int


def whiten(moment: FloatArray, n_components: int, *, scale: float) -> Whitening:
    """Return the whitening of a symmetric moment with isotropic noise of this scale.

    Noise of operator norm 2 t, t^2 = D scale^2 / 2, moves an eigenvalue l > t to l + t^2 / l; this is inverted. Below
    2 t an eigenvalue is indistinguishable from noise: it is set to t, the smallest one that can be detected.
    """
    values, vectors = _top_eigen(moment, n_components)
    edge = noise_norm(scale, moment.shape[0])
    # An absolute minimum keeps the exact, rank-deficient case finite.
    least = max(edge / 2, float(np.abs(values).max()) * 1e-10, 1e-150)
    root = np.sqrt(np.maximum(values**2 - edge**2, 0.0))
    cleaned = np.where(values > edge, (values + root) / 2, least)
    cleaned = np.maximum(cleaned, least)
    # The norm of the noise fluctuates: 10% more is not clearly above.
    n_drowned = int(np.sum(values <= max(1.1 * edge, least)))
    return Whitening(vectors / np.sqrt(cleaned), vectors * np.sqrt(cleaned), values, cleaned, n_drowned)


def _top_eigen(moment: FloatArray, n_components: int) -> tuple[FloatArray, FloatArray]:
    size = moment.shape[0]
    if size < _LARGE or n_components > size // 8:
        values, vectors = scipy.linalg.eigh(moment, subset_by_index=(size - n_components, size - 1))
    else:
        from scipy.sparse.linalg import eigsh  # Slow to import, and planning imports this module for its noise.

        # A fixed start makes the result repeatable.
        values, vectors = eigsh(moment, n_components, which="LA", v0=np.ones(size))
    order = np.argsort(values)[::-1]
    return values[order], fix_signs(vectors[:, order])


def multilinear(tensor: FloatArray, matrix: FloatArray) -> FloatArray:
    """Return T(M, M, M) of a symmetric tensor, one index at a time: never more than n^2 m numbers besides T."""
    result = tensor
    for _ in range(3):
        # The transformed index goes to the end, so three rounds restore the order.
        result = np.tensordot(result, matrix, axes=(0, 0))
    return result


def power_method(
    tensor: FloatArray, n_components: int, *, n_restarts: int = 64, n_iter: int = 60, n_polish: int = 30
) -> tuple[FloatArray, FloatArray]:
    """Return (values, vectors as columns) of a nearly orthogonally decomposable symmetric tensor.

    All restarts advance together, one matrix product per step. The best one is kept and subtracted before the next
    search (Anandkumar et al. 2014, algorithm 1). Because errors of early components propagate to later ones, all are
    then refined together: the v_k become the nearest orthonormal set to l_k T(I, v_k, v_k), as long as this increases
    sum l_k^2.

    Parameters
    ----------
    tensor : array of shape (n, n, n)
        Symmetric tensor.
    n_components : int
        Number of components.
    n_restarts : int
        Starting points of each search, evenly spread and fixed, not random.
    n_iter : int
        Steps of each search.
    n_polish : int
        Joint refinement steps at the end.
    """
    starts = spread_directions(tensor.shape[0], n_restarts)
    remainder = tensor.copy()
    vectors = np.empty((tensor.shape[0], n_components))
    for component in range(n_components):
        vector = strongest(remainder, starts, n_iter)
        value = contract(remainder, vector[:, None])[:, 0] @ vector
        vectors[:, component] = vector
        remainder -= value * np.multiply.outer(np.multiply.outer(vector, vector), vector)
    vectors = _polished(tensor, vectors, n_polish)
    values = np.einsum("ik,ik->k", contract(tensor, vectors), vectors)
    # T(-v, -v, -v) = -T(v, v, v): a value may be taken as positive, and the component l v is the same.
    order = np.argsort(-np.abs(values))
    return np.abs(values)[order], (vectors * np.where(values < 0, -1.0, 1.0))[:, order]


def contract(tensor: FloatArray, vectors: FloatArray) -> FloatArray:
    """Return T(I, v, v) for all columns v at once."""
    n, n_vectors = vectors.shape
    pairs = (vectors[:, None, :] * vectors[None, :, :]).reshape(n * n, n_vectors)
    return tensor.reshape(n, n * n) @ pairs


def strongest(tensor: FloatArray, starts: FloatArray, n_iter: int) -> FloatArray:
    """Return the unit vector to which the best of many power iterations converges."""
    vectors = starts
    for _ in range(n_iter):
        vectors = _normalised(contract(tensor, vectors))
    values = np.einsum("ik,ik->k", contract(tensor, vectors), vectors)
    return vectors[:, int(np.argmax(values))]


def _normalised(vectors: FloatArray) -> FloatArray:
    lengths = np.sqrt(np.einsum("ik,ik->k", vectors, vectors))
    # A vector that is mapped to zero stays zero and is never the best.
    result: FloatArray = vectors / np.maximum(lengths, 1e-300)
    return result


def _polished(tensor: FloatArray, vectors: FloatArray, n_steps: int) -> FloatArray:
    """Return the orthonormal set with the largest summed squared values found by joint steps from ``vectors``."""
    vectors = _orthonormal(vectors)
    best, most = vectors, -math.inf
    for _ in range(n_steps + 1):
        images = contract(tensor, vectors)
        values = np.einsum("ik,ik->k", images, vectors)
        if float(values @ values) <= most:
            break
        best, most = vectors, float(values @ values)
        vectors = _orthonormal(images * values)
    return best


def _orthonormal(vectors: FloatArray) -> FloatArray:
    """Return the nearest orthonormal columns (polar factor)."""
    left, _, right = np.linalg.svd(vectors, full_matrices=False)
    nearest: FloatArray = left @ right
    return nearest


@lru_cache(maxsize=32)
def _spread(n: int, count: int) -> FloatArray:
    # Kronecker sequence of the generalised golden ratio (Roberts 2018): even, deterministic, any dimension.
    ratio = 2.0
    for _ in range(64):
        ratio = (1 + ratio) ** (1 / (n + 1))
    steps = ratio ** -np.arange(1.0, n + 1)
    points = (0.5 + np.outer(steps, np.arange(1, count + 1))) % 1.0
    directions = _normalised(ndtri(np.clip(points, 1e-9, 1 - 1e-9)))
    directions.setflags(write=False)
    return directions


def spread_directions(n: int, count: int) -> FloatArray:
    """Return ``count`` unit vectors (columns) spread over the sphere: axes first, then an evenly spread sequence."""
    return np.hstack([np.eye(n)[:, : min(n, count)], _spread(n, max(count - n, 0))])


@dataclass(frozen=True)
class Coordinates:
    """Public coordinates in which a third moment is released, and their inverse.

    Attributes
    ----------
    forward : array of shape (n_features, n_components)
        Matrix R; a record or word x enters as R'x.
    inner : array of shape (n_components, n_components)
        Matrix that whitens R'M2 R.
    backward : array of shape (n_features, n_components)
        Maps an orthonormal v_k of the whitened tensor to sqrt(w_k) a_k.
    """

    forward: FloatArray
    inner: FloatArray
    backward: FloatArray


def whitened_coordinates(whitening: Whitening) -> Coordinates:
    """Return the coordinates R = W."""
    return Coordinates(whitening.forward, np.eye(whitening.forward.shape[1]), whitening.backward)


def bounded_coordinates(whitening: Whitening) -> Coordinates:
    """Return whitening coordinates whose rows, the images of single words, are scaled down to the best public norm.

    Scaling down rows of W does not clip records: with R instead of W the released tensor is exactly M3(R, R, R), and
    R'M2 R is known from the first release. Rare words have long rows, and noise is proportional to the cube of the
    longest one. The chosen norm gives the least noise after whitening again.
    """
    lengths = np.linalg.norm(whitening.forward, axis=1)
    candidates = np.unique(np.quantile(lengths[lengths > 0], np.linspace(0.05, 1.0, 39)))
    options = [_shortened(whitening, lengths, float(length)) for length in candidates]
    costs = [
        tensor_noise_norm(float(length) ** 3, option.inner) for length, option in zip(candidates, options, strict=True)
    ]
    return options[int(np.argmin(costs))]


def _shortened(whitening: Whitening, lengths: FloatArray, longest: float) -> Coordinates:
    factors = longest / np.maximum(lengths, longest)
    forward = whitening.forward * factors[:, None]
    # S = R'B with B B' the kept part of M2, so R'M2 R = S S'; with the polar form S = P Q, P^-1 whitens and
    # the inverse is B S^-1 P = B Q'. The least singular value is kept away from zero; such an option is
    # never the best.
    left, values, right = np.linalg.svd(forward.T @ whitening.backward)
    inner = (left / np.maximum(values, 1e-9 * values[0])) @ left.T
    return Coordinates(forward, inner, whitening.backward @ (left @ right).T)


def onto_simplex(rows: FloatArray) -> FloatArray:
    """Return the nearest probability vector to each row (Held, Wolfe and Crowder 1974)."""
    ordered = -np.sort(-rows, axis=1)
    excess = np.cumsum(ordered, axis=1) - 1
    ranks = np.arange(1, rows.shape[1] + 1)
    n_positive = np.sum(ordered * ranks > excess, axis=1)
    shift = excess[np.arange(len(rows)), n_positive - 1] / n_positive
    result: FloatArray = np.maximum(rows - shift[:, None], 0.0)
    result /= result.sum(axis=1, keepdims=True)
    return result


def tensor_noise_norm(scale: float, whitener: FloatArray) -> float:
    """Return the expected Frobenius norm of isotropic symmetric tensor noise after T(W, W, W).

    The noise is the symmetrised iid tensor, so with G = W'W the square is the mean over permutations of the
    products of traces along their cycles: (tr(G)^3 + 3 tr(G) tr(G^2) + 2 tr(G^3)) / 6.
    """
    gram = np.linalg.eigvalsh(whitener.T @ whitener)
    one, two, three = (float(np.sum(gram**power)) for power in (1, 2, 3))
    return scale * math.sqrt((one**3 + 3 * one * two + 2 * three) / 6)


# Largest value of an isotropic symmetric Gaussian tensor over the unit sphere, per scale and root of its
# width (ground state of the spherical 3-spin model, Auffinger, Ben Arous and Cerny 2013).
_SPIN_CONSTANT = 1.657


def noise_strength(scale: float, inner: FloatArray) -> float:
    """Return the strength that noise of this scale alone would have after T(M, M, M), M = ``inner``."""
    n_components = inner.shape[1]
    spread = tensor_noise_norm(scale, inner) / math.sqrt(packed_tensor_size(n_components))
    return _SPIN_CONSTANT * spread * math.sqrt(n_components)
