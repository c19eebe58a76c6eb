"""Mixture of spherical Gaussians from private moments (capeAGN: dissertation, algorithm 5.1, section 5.1.2)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from dpcape.analyses.description import Analysis
from dpcape.analyses.mixture_model import MIXTURE_MODEL, step_clip, step_count_weight
from dpcape.analyses.moment_shares import LARGEST_FULL
from dpcape.charts import Weights
from dpcape.core.arrays import FloatArray
from dpcape.core.statistic import AnyStatistic
from dpcape.estimators.clusters.mixture_steps import moved, within_ball
from dpcape.estimators.estimator import effective_share
from dpcape.estimators.fitted import require_fitted
from dpcape.estimators.moment_decomposition import decompose, strength_section, warn_if_drowned
from dpcape.estimators.reported import weights_section
from dpcape.estimators.scores import ScoringEstimator
from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation
from dpcape.postprocessing.eigen import noise_norm
from dpcape.postprocessing.tensor_power import (
    Coordinates,
    Whitening,
    noise_strength,
    tensor_noise_norm,
    whiten,
    whitened_coordinates,
)
from dpcape.postprocessing.verdicts import numbered, of_parts
from dpcape.results import Estimates, Result
from dpcape.statistics.mixture_steps import mixture_step
from dpcape.statistics.moments import row_bound, second_moment
from dpcape.statistics.packing import packed_tensor_size
from dpcape.statistics.third_moments import third_moment, whitened_third_moment

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Clipping in whitened coordinates causes a small bias. Where noise in the whole third moment is below this share of an
# average strength, the root of n_components, that bias would be larger than the noise (experiments/topics).
_NEGLIGIBLE = 0.06
# False-alarm probability of a verdict.
_FAILURE = 0.05


class MixtureModel(ScoringEstimator):
    """Mixture of spherical Gaussians with a common variance, fitted to the rows of all sites.

    The moments E[x x'] - v I and E[x (x) x (x) x] - v 3 Sym(E[x] (x) I) of such a mixture are sums over components of
    powers of their means. The tensor power method decomposes these sums. It needs two releases and no starting point,
    because no likelihood is maximised. The means must be linearly independent, so there are at most as many as columns.
    Steps of expectation-maximisation then improve means and weights: only what is left to move is released, so a
    record counts with the length of its component's noise instead of its own.

    Parameters
    ----------
    n_components : int
        Number of components.
    epsilon : float or mapping
        Privacy parameter epsilon of the whole fit: one number for all sites, or one per site.
    delta : float or mapping
        Privacy parameter delta, for all sites or per site; far below one over the number of records.
    noise_variance : float
        Variance v of each component in every column, in squared units of the prepared rows. It must be public, for
        example known from the measurement, and never estimated from the records.
    design : str
        "full" releases the third moment of the rows, "whitened" that of their clipped coordinates along the private
        second moment. "auto" chooses the one with less noise, judging from the first release, and "full" if its noise
        is negligible.
    second_moment_share : float or "auto"
        Share of mu^2 for the second moment; the papers use half.
    clip_factor : float
        Clip radius of the whitened coordinates, as a multiple of their root mean square, which follows from the first
        release. A smaller factor means less noise and more bias.
    n_iter : int or "auto"
        Number of steps of expectation-maximisation; they get half of mu^2. "auto" makes two, and none if public numbers
        (records, columns, components, variance, and the noise in the total) say that noise would dominate them. With
        ``noise_variance`` 0 there are none.

    Attributes
    ----------
    means_ : array of shape (n_components, n_features)
        Means of the components; largest weight first.
    weights_ : array of shape (n_components,)
        Weights of the components, which add up to one.
    strengths_ : array of shape (n_components,)
        Eigenvalues w_k^(-1/2) of the whitened third moment, in the order of ``means_``.
    noise_level_ : float
        Strength that noise alone would have.
    eigenvalues_ : array of shape (n_components,)
        Eigenvalues of the released second moment.
    design_ : str
        Design that was used, "full" or "whitened".

    Privacy
    -------
    Two releases: x x' (diameter sqrt(2) B^2), then the corrected third moment (diameter 2 B^3 sqrt(1 - 6 s +
    3 (D+2) s^2) with s = v/B^2), or the same in whitened coordinates (``statistics.third_moments``). The
    clip radius follows from the first release and public numbers. Then ``n_iter`` steps: r_k - w_k and r_k (x - m_k),
    stacked and clipped together to c = 1.2 sqrt(D v) (diameter 2 c). Everything else is post-processing.

    Edge cases
    ----------
    ====================================  =====================================================
    more components than columns          refused before any charge
    indefinite or rank-deficient moment   floored at the noise, with a UtilityWarning
    component weaker than noise           returned, with a UtilityWarning
    steps drowned by noise                not made with ``n_iter`` "auto": all of mu^2 for the moments
    rows longer than the bound            clipped, which biases the moments: choose a generous bound
    ====================================  =====================================================

    References
    ----------
    H. Imtiaz, dissertation 2020, chapter 5; A. Anandkumar et al., *Tensor decompositions for learning latent
    variable models*, 2014; D. Hsu and S. Kakade 2013; M. Park et al., *DP-EM*, 2017 (private steps).

    Examples
    --------
    >>> import numpy as np
    >>> from dpcape import Federation, Independent, MixtureModel, Replay, in_process, rows
    >>> rng = np.random.default_rng(0)
    >>> X = np.repeat([[1.0, 0.0], [0.0, -1.0]], [6000, 4000], axis=0) + 0.1 * rng.normal(size=(10000, 2))
    >>> fed = Federation(in_process({"lyon": rows(X, bound=1.5)}, noise=Replay(1)), protocol=Independent())
    >>> model = MixtureModel(2, epsilon=5.0, delta=1e-6, noise_variance=0.01).fit(fed)
    >>> model.weights_.round(1)
    array([0.6, 0.4])
    """

    analysis: ClassVar[Analysis | None] = MIXTURE_MODEL
    _score, _per_score = "component", "weights_"
    _fitted: ClassVar[tuple[str, ...]] = ("means_", "weights_", "strengths_", "noise_level_", "eigenvalues_", "design_")

    means_: FloatArray
    weights_: FloatArray
    strengths_: FloatArray

    def __init__(
        self,
        n_components: int,
        *,
        epsilon: float | Mapping[str, float],
        delta: float | Mapping[str, float],
        noise_variance: float,
        design: str = "auto",
        second_moment_share: float | str = "auto",
        clip_factor: float = 1.7,
        n_iter: int | str = "auto",
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.noise_variance = noise_variance
        self.design = design
        self.second_moment_share = second_moment_share
        self.clip_factor = clip_factor
        self.n_iter = n_iter

    def _fit(self, federation: Federation, private: Allowance) -> None:
        released = private.mean(second_moment(federation.facts))
        floor = self._floor(federation, private)
        moment = released - self.noise_variance * np.eye(federation.n_features)
        whitening = whiten(moment, self.n_components, scale=private.releases[-1].scale)
        self.design_, statistic, coordinates = self._third(federation, private, whitening)
        third = private.mean(statistic)
        if self.design_ == "full":
            coordinates = Coordinates(np.eye(len(moment)), whitening.forward, whitening.backward)
        decomposition = decompose(third, coordinates, scale=private.releases[-1].scale)
        warn_if_drowned(whitening, decomposition)
        self.eigenvalues_, self.noise_level_ = whitening.eigenvalues, decomposition.noise_level
        self._set_components(decomposition.strengths, decomposition.halves)
        for _ in range(private.left):
            self._step(federation, private)
        names = numbered("component", self.n_components)
        # Strengths moved with their components; eigenvalues belong to all of them.
        self.verdicts_ = of_parts(names, self.strengths_, self.noise_level_, eigenvalues=self.eigenvalues_, floor=floor)

    def _floor(self, federation: Federation, private: Allowance) -> float:
        """Return the eigenvalue that noise and sampling reach in 5% of studies at most, where a component lacks.

        The second moment of N rows of noise of variance v is off by v (2 sqrt(D/N) + D/N) in norm; half as much again
        covers its fluctuation.
        """
        release, size = private.releases[-1], federation.n_features
        share = size * effective_share(federation, release.survivors) / private.valid
        sampling = 1.5 * float(self.noise_variance) * (2 * math.sqrt(share) + share)
        return noise_norm(release.scale / private.valid, size, _FAILURE) + sampling

    def _rounds(self, federation: Federation) -> range:
        return range(2, len(self._shares(federation)))

    def _step(self, federation: Federation, private: Allowance) -> None:
        """Move means and weights by one private step of expectation-maximisation."""
        n_features, variance = federation.n_features, float(self.noise_variance)
        self.means_ = within_ball(self.means_, row_bound(federation.facts))
        statistic = mixture_step(
            federation.facts,
            means=self.means_,
            weights=np.clip(self.weights_, 1e-6, 1.0),
            noise_variance=variance,
            clip=step_clip(n_features, variance),
            count_weight=step_count_weight(n_features, variance),
        )
        step = private.mean(statistic)
        means, weights = moved(self.means_, self.weights_, step, scale=private.releases[-1].scale)
        order = np.argsort(-weights, kind="stable")
        self.weights_, self.strengths_ = weights[order], self.strengths_[order]
        self.means_ = within_ball(means, row_bound(federation.facts))[order]

    def _third(
        self, federation: Federation, private: Allowance, whitening: Whitening
    ) -> tuple[str, AnyStatistic, Coordinates]:
        """Return the design, its statistic and its coordinates; "auto" chooses the less noisy one."""
        variance, coordinates = float(self.noise_variance), whitened_coordinates(whitening)
        mean_square = self.n_components + variance * float(np.sum(whitening.forward**2))
        clipped = whitened_third_moment(
            federation.facts,
            whitening.forward,
            clip=float(self.clip_factor) * float(np.sqrt(mean_square)),
            noise_variance=variance,
        )
        too_large = packed_tensor_size(federation.n_features) > LARGEST_FULL
        if self.design == "whitened" or (self.design == "auto" and too_large):
            return "whitened", clipped, coordinates
        full = third_moment(federation.facts, noise_variance=variance)
        noise_full = tensor_noise_norm(full.diameter, whitening.forward)
        noise_clipped = tensor_noise_norm(clipped.diameter, coordinates.inner)
        # The noise scale of the second release per unit of its diameter, from that of the first.
        shares, first = self._shares(federation), private.releases[-1].scale / second_moment(federation.facts).diameter
        scale = full.diameter * first * float(np.sqrt(shares[0] / shares[1]))
        negligible = _NEGLIGIBLE * float(np.sqrt(self.n_components))
        small = noise_strength(scale, whitening.forward) <= negligible
        if self.design == "full" or small or noise_full <= noise_clipped:
            return "full", full, coordinates
        return "whitened", clipped, coordinates

    def _set_components(self, strengths: FloatArray, halves: FloatArray) -> None:
        # A weight is at most one, so a strength is at least one; noise must not reverse that.
        bounded = np.maximum(strengths, 0.5)
        weights = bounded**-2.0
        order = np.argsort(-weights, kind="stable")
        self.weights_ = (weights / weights.sum())[order]
        self.means_ = (halves * bounded[:, None])[order]
        self.strengths_ = strengths[order]

    @property
    def original_means_(self) -> FloatArray:
        """The means of the components in original units."""
        return self.units_.points(self.means_)

    def transform(self, X: ArrayLike) -> FloatArray:
        """Return the probability of each component given each row, (rows, n_components)."""
        joint = self._log_joint(X)
        return np.exp(joint - logsumexp(joint, axis=1, keepdims=True))

    def predict(self, X: ArrayLike) -> NDArray[np.intp]:
        """Return the most probable component of each row."""
        labels: NDArray[np.intp] = np.argmax(self._log_joint(X), axis=1)
        return labels

    def score(self, X: ArrayLike, y: None = None) -> float:
        """Return the mean log-likelihood of rows. For private records this number is not protected."""
        return float(np.mean(logsumexp(self._log_joint(X), axis=1)))

    def _log_joint(self, X: ArrayLike) -> FloatArray:
        rows = self._checked_rows(X, getattr(self, "n_features_in_", 0))
        # With variance zero every row belongs to the nearest mean; a tiny variance has the same effect.
        variance = max(float(self.noise_variance), 1e-12)
        distances = np.sum(rows**2, axis=1)[:, None] - 2 * rows @ self.means_.T + np.sum(self.means_**2, axis=1)
        constant = rows.shape[1] / 2 * np.log(2 * np.pi * variance)
        joint: FloatArray = np.log(self.weights_) - np.maximum(distances, 0.0) / (2 * variance) - constant
        return joint

    def _result(self) -> Result:
        weights = Estimates(
            quantity="weight of the component",
            estimand="share of the records that come from the component, a spherical Gaussian of the public variance",
            names=numbered("component", len(self.weights_)),
            value=self.weights_,
        )
        means, estimand = self.means_, "mean of the component, of rows as they were clipped"
        estimands = (f"{estimand}, in units of the prepared column", f"{estimand}, in original units")
        names, parts = self._grids("mean of the component", estimands, (means, self.original_means_), "component")
        of_means = weights_section(
            "Means of the components", (weights, *parts), means, names, "component", may_be_image=True
        )
        model = f"records are a mixture of {len(means)} spherical Gaussians of variance {self.noise_variance:g}"
        return Result((of_means, strength_section(self.strengths_, self.noise_level_, self.weights_)), (model,))

    def plot_means(self, ax: Axes | None = None) -> Axes:
        """Draw the means as an image, one row per component."""
        from dpcape.report.drawing import draw

        require_fitted(self)
        return draw(Weights(values=self.means_, names=self._names(self.means_.shape[1]), row="component"), ax)

    def plot_strengths(self, ax: Axes | None = None) -> Axes:
        """Draw the strengths of the components and the noise level."""
        from dpcape.report.drawing import draw

        require_fitted(self)
        return draw(strength_section(self.strengths_, self.noise_level_, self.weights_).charts[0], ax)
