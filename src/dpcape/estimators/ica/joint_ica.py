"""Joint independent components of fMRI series spread over sites (dissertation, chapter 6)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dpcape.analyses.description import Analysis
from dpcape.analyses.joint_ica import JOINT_ICA, as_numbers, is_operator, least_subjects, sources_in_basis
from dpcape.core.arrays import FloatArray
from dpcape.core.errors import InvalidParameter, UtilityWarning
from dpcape.estimators.estimator import effective_share
from dpcape.estimators.fitted import require_fitted
from dpcape.estimators.ica import stages as stages
from dpcape.estimators.ica.infomax import Infomax
from dpcape.estimators.ica.self_check import ALL_CLEAR, least_clearance, tensor_dimensions, too_noisy
from dpcape.estimators.reported import grid, weights_section
from dpcape.estimators.scores import ScoringEstimator
from dpcape.estimators.wide_moments import maps_or_warned
from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation
from dpcape.postprocessing.eigen import inverted
from dpcape.postprocessing.verdicts import numbered, of_clearance
from dpcape.postprocessing.wide_components import basis_maps
from dpcape.results import Result
from dpcape.statistics.bases import as_basis
from dpcape.statistics.basis import Basis
from dpcape.statistics.subject_moments import subject_tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class JointICA(ScoringEstimator):
    """Joint ICA (group temporal ICA) of the subjects of all sites: maps with independent time courses.

    Parameters
    ----------
    n_components : int
        Number of components, at least 2.
    epsilon : float or mapping
        Privacy parameter epsilon of the whole fit: one number for all sites, or one per site.
    delta : float or mapping
        Privacy parameter delta, for all sites or per site; far below one over the number of records.
    solver : str
        "moment" releases one tensor of fourth moments and finds the rotation by post-processing; "infomax" is algorithm
        6.1, with one release per round.
    basis : Basis, array_like or None
        Public basis to whose span the private PCA is restricted: :class:`~dpcape.Cosines`, :class:`~dpcape.Atlas`,
        :class:`~dpcape.Template`, or a matrix of orthonormal columns, (voxels, columns). With as many columns as
        components there is no PCA. None uses all voxels.
    kurtosis : str
        Sign of the sources' excess kurtosis: "positive" (bursts and sparse courses, as in fMRI), "negative" or "mixed".
    n_timepoints : int
        Typical number of time points per subject, from public knowledge. It sets clip radii for unit "subject" and does
        not affect the guarantee.
    n_iter : int
        Number of infomax rounds, fixed and charged in advance.
    learning_rate : float
        Step size of infomax.
    tol : float
        Infomax stops when the squared change falls below this; unused rounds stay charged.
    insist : bool
        Whether to fit at the subject unit even where public numbers say that noise hides the maps; otherwise that is
        refused before anything is charged.
    maps : bool
        With unit "record", solver "moment" and a basis: whether what the basis leaves out of the maps is released too,
        at full resolution. If noise would hide it, judging from public numbers, the whole allowance goes to the rest.

    Attributes
    ----------
    unmixing_ : array of shape (n_components, n_features)
        Unmixing matrix: the sources are rows @ ``unmixing_.T``.
    mixing_ : array of shape (n_features, n_components)
        The maps, one per column.
    clearance_ : float
        Fourth moments along the components, relative to what the same search finds in pure noise; NaN for infomax.

    Privacy
    -------
    Unit "record" protects one time point: x x' (diameter sqrt(2) B^2), z z' of the whitened row z clipped to c
    (sqrt(2) c^2), then z^4 (sqrt(2) c^4), or per round the clipped gradient (2 hypot(B_G, B_h)). With ``maps`` one
    more: what the basis leaves of a row times its sources, both clipped to 1 (2, for any basis and sources). A person
    has many time points, and if series were filtered or standardised over time beforehand, one *recorded* time point
    affects several rows. Unit "subject" protects a whole person: projector (sqrt(2 K)), log-covariance and covariance
    (2 clip), tensor and polish (2), or per round the subject's own clipped mean gradient (2 clip). Everything else is
    post-processing.

    Edge cases
    ----------
    ==========================================  =============================================================
    one subject at the subject unit             refused
    too few subjects for the components         refused before anything is charged, unless ``insist=True``
    no more time points than components         refused
    constant voxels                             maps are noise or zero there; UtilityWarning if noise dominates
    subjects with different voxels or masks     refused when records or the federation are built
    noise dominates                             UtilityWarning; the result is returned
    ==========================================  =============================================================

    References
    ----------
    H. Imtiaz, dissertation, algorithm 6.1; P. Comon 1994; B. T. Baker et al. 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcape import Federation, Independent, JointICA, in_process, subjects
    >>> S = np.random.default_rng(0).laplace(size=(40_000, 2))
    >>> held = subjects([S @ [[0.8, 0.6], [0.6, -0.8]]], bound=6.0, unit="record")
    >>> fed = Federation(in_process({"lyon": held}), protocol=Independent())
    >>> JointICA(2, epsilon=5.0, delta=1e-6, basis=np.eye(2)).fit(fed).mixing_.shape
    (2, 2)
    """

    analysis: ClassVar[Analysis | None] = JOINT_ICA
    _score, _per_score = "ica", "unmixing_"
    _builder: ClassVar[str] = "subjects(arrays, bound=..., unit=...)"
    _fitted: ClassVar[tuple[str, ...]] = ("unmixing_", "mixing_", "clearance_")

    def __init__(
        self,
        n_components: int,
        *,
        epsilon: float | Mapping[str, float],
        delta: float | Mapping[str, float],
        solver: str = "moment",
        basis: Basis | ArrayLike | None = None,
        kurtosis: str = "positive",
        n_timepoints: int = 250,
        n_iter: int = 200,
        learning_rate: float = 1.0,
        tol: float = 1e-6,
        insist: bool = False,
        maps: bool = False,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.solver = solver
        self.basis = basis
        self.kurtosis = kurtosis
        self.n_timepoints = n_timepoints
        self.n_iter = n_iter
        self.learning_rate = learning_rate
        self.tol = tol
        self.insist = insist
        self.maps = maps

    def _shares(self, federation: Federation) -> Sequence[float]:
        """Check the parameters, refuse a fit that noise would hide, and return the shares of mu^2."""
        shares = super()._shares(federation)
        if federation.facts.unit == "subject" and not self.insist:
            least = least_subjects(self.public(federation))
            if federation.n_records < least:
                raise InvalidParameter(
                    "Subjects",
                    f"number at least {least} for {self.n_components} components at this epsilon",
                    federation.n_records,
                    "Noise would hide the maps, and nothing was charged. Use more subjects, a larger epsilon, fewer "
                    "components or a public basis, or write insist=True.",
                )
        return shares

    def _rounds(self, federation: Federation) -> range:
        n_releases = len(self._shares(federation))
        return range(n_releases - (self.n_iter if self.solver == "infomax" else 0), n_releases)

    def _fit(self, federation: Federation, private: Allowance) -> None:
        facts, basis = federation.facts, self._basis(federation)
        by_record = facts.unit == "record"
        # Decide, and warn, before the first release.
        public = self.public(federation)
        with_maps = by_record and maps_or_warned(public, sources_in_basis(public), needed=True)
        if by_record:
            reduction = stages.reduce_records(facts, private, basis, self.n_components)
        else:
            columns = np.eye(facts.n_features) if basis is None else _columns_of(basis)
            self._warn_if_hopeless(federation, private, columns)
            reduction = stages.reduce_subjects(facts, private, columns, self.n_components, self.n_timepoints)
        if self.solver == "moment":
            rotated = stages.rotate_records if by_record else stages.rotate_subjects
            turn, self.clearance_ = rotated(facts, private, reduction, self.kurtosis)
        else:
            state = Infomax(self.n_components, private.left, self.learning_rate)
            turn = stages.infomax(facts, private, reduction, state, self.tol, self.n_timepoints)
            self.clearance_ = math.nan
        inner = turn @ reduction.whitener
        self.unmixing_ = inner @ reduction.projection.T
        # The projection's columns are orthogonal but may be scaled.
        scales = (reduction.projection**2).sum(axis=0)
        self.mixing_ = (reduction.projection / scales) @ inverted(inner)
        if with_maps and reduction.seen is not None:
            self.mixing_ = self.mixing_ + stages.released_maps(facts, private, reduction.seen, inner)
        names = numbered("component", self.n_components)
        least = least_clearance(self.n_components)
        self.verdicts_ = of_clearance(names, self._sampled_clearance(federation, private), least, ALL_CLEAR)

    def _sampled_clearance(self, federation: Federation, private: Allowance) -> float:
        """Return the clearance over noise and sampling together; NaN where it is not known.

        Along any direction the fourth cumulant of N independent normal rows has variance 24 / N. The tensor of a normal
        subject is at most 1 long and has no preferred direction.
        """
        tensors = [release for release in private.releases if release.statistic in ("fourth_moment", "subject_tensor")]
        if math.isnan(self.clearance_) or not tensors or tensors[0].scale == 0:
            return math.nan
        share = effective_share(federation, tensors[0].survivors)
        by_record = federation.facts.unit == "record"
        sampling = 24 * share if by_record else share / tensor_dimensions(self.n_components)
        return self.clearance_ * tensors[0].scale / math.sqrt(tensors[0].scale ** 2 + sampling)

    def transform(self, X: ArrayLike) -> FloatArray:
        """Return the sources of rows: (time points, n_components)."""
        require_fitted(self)
        return self._checked_rows(X, self.unmixing_.shape[1]) @ self.unmixing_.T

    def plot_maps(self, shape: tuple[int, int]) -> Axes:
        """Draw the maps side by side, as images of this shape."""
        from dpcape.report.map_plots import plot_maps

        require_fitted(self)
        if np.prod(shape) != len(self.mixing_):
            remedy = "For three-dimensional maps use dpcape.neuro.write_maps."
            raise InvalidParameter("shape", f"have one pixel per voxel ({len(self.mixing_)})", tuple(shape), remedy)

        return plot_maps({"": self.mixing_}, shape)

    def _basis(self, federation: Federation) -> Basis | FloatArray | None:
        """Return the public basis; the identity if there are as many voxels as components."""
        if self.basis is None:
            few = federation.n_features == self.n_components
            return np.eye(federation.n_features) if few else None
        return as_basis(self.basis) if self.maps or is_operator(self.basis) else as_numbers(self.basis)

    def _warn_if_hopeless(self, federation: Federation, private: Allowance, basis: FloatArray) -> None:
        """Warn, before the first release, when noise at the subject unit must dominate."""
        if self.solver != "moment" or not federation.protocol.adds_noise:
            return
        n_before = 3 + (basis.shape[1] > self.n_components)
        statistic = subject_tensor(federation.facts, basis[:, : self.n_components], np.eye(self.n_components))
        plan = private.plan(statistic, n_before)
        scale = plan.sum_scale(tuple(federation.sites)) / federation.n_records
        shares = self._shares(federation)
        share = shares[n_before] / (1 - (shares[0] if n_before == 4 else 0.0))
        if too_noisy(scale, share, self.n_components):
            warnings.warn(
                f"Noise is expected to dominate with {self.n_components} components and {federation.n_records} "
                "subjects, judging from public sizes alone. Use more subjects, a larger epsilon, a public basis or "
                "fewer components.",
                UtilityWarning,
                stacklevel=2,
            )

    def _result(self) -> Result:
        values, names = self.mixing_.T, self._names(len(self.mixing_))
        inside = as_basis(self.basis).inside if is_operator(self.basis) else None
        estimand = (
            "weight of the voxel in the map of an independent source, of rows as they were clipped; its sign and the "
            "order of the sources carry no meaning"
        )
        part = grid("map", estimand, values, names, "source")
        title = "Maps of the sources"
        section = weights_section(title, (part,), values, names, "source", inside=inside, may_be_image=True)
        return Result((section,), ("sources are independent, and at most one of them is Gaussian",))


def _columns_of(basis: Basis | FloatArray) -> FloatArray:
    """Return the columns of a public basis as a matrix."""
    return np.ascontiguousarray(basis_maps(basis, np.eye(basis.n_columns)).T) if isinstance(basis, Basis) else basis
