"""Base class of all estimators: fitting, planning, the guarantee, saving and loading."""

from __future__ import annotations

import inspect
import json
import math
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from dpcape.analyses.description import Analysis, Public, public_facts
from dpcape.analyses.footprint import footprint_of
from dpcape.core.arrays import FloatArray
from dpcape.core.errors import (
    DamagedFile,
    DpcapeWarning,
    InvalidParameter,
    ReleaseLost,
    UndeterminedWarning,
    UtilityWarning,
)
from dpcape.core.facts import PublicSchema
from dpcape.core.privacy.calibration import noise_ratio
from dpcape.core.privacy.gaussian import mu_of
from dpcape.core.statistic import is_own
from dpcape.estimators.fitted import require_fitted
from dpcape.estimators.model_files import DAMAGE, FORMAT, about_model, npz_path, opened_arrays, plain_value
from dpcape.estimators.new_rows import checked_rows
from dpcape.estimators.parameters import Parameters
from dpcape.estimators.reported import Reported
from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation
from dpcape.guarantee.guarantee import Guarantee
from dpcape.guarantee.release_record import ReleaseRecord
from dpcape.postprocessing.verdicts import Verdict, at_most_uncertain, warning_of
from dpcape.schema.schema import Schema

if TYPE_CHECKING:
    from dpcape.planning.declared import Declared
    from dpcape.planning.federation_plan import StudyPlan


class FederatedEstimator(Reported, Parameters):
    """Base class of estimators whose ``fit`` takes a :class:`Federation`.

    A subclass stores its parameters in ``__init__``, names the description of its analysis, annotates its fitted arrays
    or lists them in ``_fitted``, and implements ``_fit``, which requests private means and post-processes them.

    Attributes
    ----------
    analysis : Analysis or None
        Description of the analysis; None if there is none.
    epsilon : float or mapping
        Privacy parameter epsilon, for all sites or per site.
    delta : float or mapping
        Privacy parameter delta, for all sites or per site.
    guarantee_ : Guarantee
        Privacy guarantee of the fitted model.
    releases_ : list of ReleaseRecord
        The releases that were made, with their noise.
    warnings_ : list of str
        Texts of the warnings issued during the fit; the report repeats them.
    n_features_in_ : int
        Number of columns, of all views together.
    feature_names_in_ : array of str
        Only when the sites name their columns.
    uncertain_ : list of str
        What nobody outside the sites can know about the result, in words; empty if nothing.
    verdicts_ : list of Verdict
        For each quantity of the result, whether it is determined, uncertain or not determined, and why.
    assumptions_ : list of str
        What the figures rest on besides the guarantee, in words, as far as it follows from the fit: what intervals
        assume, and which mean is subtracted. ``result()`` has all.
    bounds_in_ : tuple of float
        Public maximum norm of a record, one per view.
    schemas_in_ : tuple of Schema or None
        Public schema by which sites prepare raw columns, one per view; None where numbers are taken as they are.
    widths_in_ : tuple of int
        Number of prepared columns, one per view.
    """

    analysis: ClassVar[Analysis | None] = None
    _fitted: ClassVar[tuple[str, ...]]
    # Whether sites may have weights; otherwise every record counts once.
    _takes_weights: ClassVar[bool] = True
    # The call that builds records for this analysis, for error messages.
    _builder: ClassVar[str] = "rows(X, bound=...)"
    epsilon: float | Mapping[str, float]
    delta: float | Mapping[str, float]
    guarantee_: Guarantee
    releases_: list[ReleaseRecord]
    warnings_: list[str]
    uncertain_: list[str]
    verdicts_: list[Verdict]
    assumptions_: list[str]
    bounds_in_: tuple[float, ...]
    schemas_in_: tuple[Schema | None, ...]
    widths_in_: tuple[int, ...]

    def __init_subclass__(cls, **options: Any) -> None:
        """Add annotated attributes that end in an underscore to the fitted arrays, unless ``_fitted`` lists them."""
        super().__init_subclass__(**options)
        annotated = tuple(name for name in inspect.get_annotations(cls) if name.endswith("_"))
        if annotated and "_fitted" not in vars(cls):
            cls._fitted = tuple(dict.fromkeys((*getattr(cls, "_fitted", ()), *annotated)))

    def fit(self, federation: Federation, y: None = None) -> Self:
        """Fit the model to the records of all sites.

        Parameters
        ----------
        federation : Federation
            The sites and the protocol they run.
        y : None
            Ignored; present because scikit-learn's estimators take it.

        Returns
        -------
        Self
            The fitted estimator.
        """
        if not isinstance(federation, Federation):
            raise InvalidParameter(
                "The argument of fit()",
                "be a Federation",
                type(federation).__name__,
                f"For one data holder, write Federation(in_process({{'here': {self._builder}}}), "
                "protocol=Independent()).",
            )
        with _kept_warnings() as texts:
            shares = self._shares(federation)
            if self.analysis is not None:
                needed = footprint_of(self.analysis, self.public(federation))
                federation.require_memory(type(self).__name__, needed)
            private = federation.allow(self.epsilon, self.delta, shares=shares, stated=self.stated())
            private.memory_checked = self.analysis is not None
            # A refusal up to here leaves an earlier fit intact; its guarantee must not outlive a fit that fails
            # half-way.
            self.__dict__.pop("guarantee_", None)
            self.verdicts_, self.assumptions_ = [], []
            self._accept_losses(federation, private)
            self._fit(federation, private)
            self.uncertain_ = list(getattr(private, "uncertain", []))
            if self.uncertain_:
                # Something unknown may bear on the result.
                self.verdicts_ = at_most_uncertain(self.verdicts_, "unreadable records are not counted")
            if undetermined := warning_of(self.verdicts_):
                warnings.warn(f"{type(self).__name__}: {undetermined}", UndeterminedWarning, stacklevel=2)
        self.n_features_in_ = federation.n_features
        self.bounds_in_ = federation.facts.bounds
        self.widths_in_ = federation.facts.widths
        self.schemas_in_ = read_schemas(federation.facts.schemas, len(self.widths_in_))
        if federation.facts.feature_names:
            self.feature_names_in_ = np.array(federation.facts.feature_names, dtype=object)
        self.guarantee_ = private.guarantee()
        self.releases_ = list(private.releases)
        self.warnings_ = texts
        return self

    def plan(self, federation: Federation, *, declared: Declared | None = None) -> StudyPlan:
        """Return the releases that fitting would make, their noise and the privacy loss; spends nothing.

        The plan follows from the public facts of the federation; no site receives a request.

        Parameters
        ----------
        federation : Federation
            The sites and the protocol they run.
        declared : dpcape.planning.Declared or None
            Public knowledge about the records, for the expected error; None assumes :class:`Declared`'s defaults.
        """
        from dpcape.planning.federation_plan import plan_estimator

        return plan_estimator(federation, self, declared)

    def public(self, federation: Federation) -> Public:
        """Return the public numbers that determine the releases: parameters, facts, sizes and mu."""
        assert self.analysis is not None
        own = {name: value for name, value in self.get_params(deep=False).items() if name not in ("epsilon", "delta")}
        known = public_facts(federation.facts, federation.n_records, len(federation.sites))
        mu, protocol = partial(self._mu, federation), federation.protocol

        def total_mu() -> float:
            return mu() / (noise_ratio(protocol, len(federation.sites)) if protocol.adds_noise else 1.0)

        return self.analysis.public(own, known, mu=mu, total_mu=total_mu)

    def stated(self) -> tuple[str, ...]:
        """Return what the guarantee rests on because this class is not part of dpcape; nothing for dpcape's own."""
        if is_own(type(self)):
            return ()
        return (f"the analysis {type(self).__name__}, which is not part of dpcape, is what its author says",)

    def _mu(self, federation: Federation) -> float:
        """Return the smallest mu over all sites; infinite if the protocol adds no noise."""
        if not federation.protocol.adds_noise:
            return math.inf
        # Raises if epsilon or delta is invalid.
        terms = federation.terms(self.epsilon, self.delta)
        return min(mu_of(epsilon, terms.delta) for epsilon in terms.epsilons.values())

    @classmethod
    def from_releases(cls, folder: str | Path, **parameters: Any) -> Self:
        """Rebuild a result from releases that were kept, without asking a site, for free.

        Parameters
        ----------
        folder : str or Path
            The folder ``releases`` of a run.
        **parameters
            Of the analysis, as for its constructor; ``epsilon`` and ``delta`` are those of the run unless given.
            Parameters that do not change what is asked of the sites may differ from those of the run.
        """
        from dpcape.federation.rebuilt import RebuiltFederation

        federation = RebuiltFederation(folder)
        return cls(**{"epsilon": federation.epsilon, "delta": federation.delta, **parameters}).fit(federation)

    def _rounds(self, federation: Federation) -> range:
        """Return the numbers of releases of which some may be lost: rounds that all do the same."""
        return range(0)

    def _accept_losses(self, federation: Federation, private: Allowance) -> None:
        """Refuse to go on without a release that was begun and lost, unless rounds are left that do the same."""
        if not private.lost:
            return
        rounds = self._rounds(federation)
        names = ", ".join(str(number + 1) for number in sorted(private.lost))
        if not private.lost < set(rounds):
            raise ReleaseLost(
                "The result cannot be formed",
                f"the release numbered {names} was begun and is lost, and the analysis cannot do without it",
                "Its charge stands. Start a new run with --again, which is charged too.",
            )
        warnings.warn(
            f"The release numbered {names} was begun and is lost; the analysis goes on with the other rounds.",
            UtilityWarning,
            stacklevel=3,
        )

    def _shares(self, federation: Federation) -> Sequence[float]:
        """Check the parameters and return the shares of mu^2, one per release; reads no data."""
        if not self._takes_weights:
            refuse_weights(federation, f"for {type(self).__name__}")
        if self.analysis is None:
            return (1.0,)
        public = self.public(federation)
        self.analysis.check(public)
        return self.analysis.shares(public)

    @abstractmethod
    def _fit(self, federation: Federation, private: Allowance) -> None:
        """Request private means and set the fitted attributes."""

    def save(self, path: str | Path) -> None:
        """Write parameters, fitted arrays and guarantee to an ``.npz`` file that contains no code.

        Parameters
        ----------
        path : str or Path
            File to write; ``.npz`` is appended if it is missing, here and in :meth:`load`.
        """
        require_fitted(self)
        arrays = self.fitted_arrays()
        about = {
            "format": FORMAT,
            "class": type(self).__name__,
            "params": self.get_params(deep=False),
            "guarantee": msgspec.to_builtins(self.guarantee_),
            "releases": [msgspec.to_builtins(release) for release in self.releases_],
            "warnings": list(getattr(self, "warnings_", [])),
            "uncertain": list(getattr(self, "uncertain_", [])),
            "assumptions": list(self.assumptions_),
            "verdicts": [msgspec.to_builtins(verdict) for verdict in self.verdicts_],
            "n_features_in": self.n_features_in_,
            "bounds_in": list(self.bounds_in_),
            "widths_in": list(self.widths_in_),
            "schemas_in": [
                None if entry is None else msgspec.to_builtins(entry.public()) for entry in self.schemas_in_
            ],
            "feature_names": list(getattr(self, "feature_names_in_", [])),
        }
        np.savez(npz_path(path), about=np.array(json.dumps(about, default=plain_value)), **arrays)  # type: ignore[arg-type]  # stubs know no mapping

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what :meth:`save` wrote."""
        try:
            return cls._load(path)
        except (InvalidParameter, FileNotFoundError):
            raise
        except DAMAGE as error:
            raise DamagedFile(
                f"The model in {str(path)!r} cannot be read",
                f"the file is damaged ({type(error).__name__})",
                "Restore it from a backup, or rebuild it from the run's releases with: dpcape run --resume.",
            ) from error

    @classmethod
    def _load(cls, path: str | Path) -> Self:
        with opened_arrays(npz_path(path)) as stored:
            about = about_model(stored, path)
            if about["class"] != cls.__name__:
                kind, remedy = about["class"], f"Load it with {about['class']}.load(...)."
                raise InvalidParameter(f"The model in {str(path)!r}", f"be a {cls.__name__}", f"a {kind}", remedy)
            model = cls(**about["params"])
            for name in (name for name in cls._fitted if name in stored):
                setattr(model, name, stored[name] if stored[name].ndim else stored[name].item())
        model.guarantee_ = msgspec.convert(about["guarantee"], Guarantee)
        model.releases_ = [msgspec.convert(release, ReleaseRecord) for release in about["releases"]]
        model.warnings_ = list(about["warnings"])
        model.uncertain_ = list(about["uncertain"])
        model.assumptions_ = list(about["assumptions"])
        model.verdicts_ = [msgspec.convert(verdict, Verdict) for verdict in about["verdicts"]]
        model.n_features_in_ = about["n_features_in"]
        model.bounds_in_ = tuple(about["bounds_in"])
        model.widths_in_ = tuple(about["widths_in"])
        stored_schemas = msgspec.convert(about["schemas_in"], tuple[PublicSchema | None, ...])
        model.schemas_in_ = read_schemas(stored_schemas, len(model.widths_in_))
        if about["feature_names"]:
            model.feature_names_in_ = np.array(about["feature_names"], dtype=object)
        return model

    def _checked_rows(self, X: ArrayLike, width: int, *, first: int = 0) -> FloatArray:
        """Return new data as prepared rows of the fitted width; ``first`` is the first column of the view.

        A table with named columns is in original units, and is prepared by the schema of the sites; an array holds rows
        that are prepared already.
        """
        require_fitted(self)
        return checked_rows(self, X, width, first)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "guarantee_")

    def _repr_html_(self) -> str:
        text = super()._repr_html_()
        if not hasattr(self, "guarantee_"):
            return text
        from dpcape.guarantee.card import card_html, card_of

        return text + card_html(card_of(self.guarantee_, releases=self.releases_))


@contextmanager
def _kept_warnings() -> Iterator[list[str]]:
    """Collect the texts of dpcape's warnings; all warnings are issued at the end, from where they arose."""
    texts: list[str] = []
    caught: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", DpcapeWarning)
            yield texts
    finally:
        mine = (str(entry.message) for entry in caught if issubclass(entry.category, DpcapeWarning))
        texts += dict.fromkeys(mine)
        for entry in caught:
            warnings.warn_explicit(entry.message, entry.category, entry.filename, entry.lineno)


def refuse_weights(federation: Federation, where: str) -> None:
    """Refuse weights of sites in an analysis that counts every record once."""
    if federation.weights:
        must = f"be left out {where}, which counts every record once"
        raise InvalidParameter("weights of sites", must, f"weights of {len(federation.weights)} sites", "Remove them.")


def read_schemas(
    public: tuple[PublicSchema | None, ...] | msgspec.UnsetType, n_views: int
) -> tuple[Schema | None, ...]:
    """Return the schemas that public facts describe, one per view."""
    schemas = (None,) * n_views if public is msgspec.UNSET else public
    return tuple(None if entry is None else Schema.from_public(entry) for entry in schemas)


def effective_share(federation: Federation, survivors: tuple[str, ...]) -> float:
    """Return the sum of w_s^2 / N_s over sites: one over the number of records unless sites have weights."""
    if not federation.weights:
        return 1.0 / sum(federation.sites[site] for site in survivors)
    total = math.fsum(federation.weights[site] for site in survivors)
    return math.fsum((federation.weights[site] / total) ** 2 / federation.sites[site] for site in survivors)
