"""What every private analysis shares: parameters, a guarantee, and files without code."""

from __future__ import annotations

import html
import json
import math
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_is_fitted

from dpcape.errors import DpcapeWarning, InvalidParameter
from dpcape.federation import Allowance, Federation, Release
from dpcape.privacy.guarantee import Guarantee

_FORMAT = "dpcape model 1"


class FederatedEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """An analysis whose ``fit`` takes a :class:`Federation`.

    A subclass stores its parameters in ``__init__``, lists its fitted arrays in ``_fitted``, and writes ``_fit``, which
    asks an allowance for means and post-processes them.

    Attributes
    ----------
    guarantee_ : Guarantee — what may be claimed for the fitted model.
    releases_ : list of Release — what was released, with its noise.
    warnings_ : list of str — what was warned of during the fit, for the report.
    feature_names_in_ : array of str — only when the sites name their columns.
    """

    _fitted: ClassVar[tuple[str, ...]]
    epsilon: float | Mapping[str, float]
    delta: float
    guarantee_: Guarantee
    releases_: list[Release]
    warnings_: list[str]

    def fit(self, federation: Federation, y: None = None) -> Self:
        """Fit to the records of all sites.

        Parameters
        ----------
        federation : Federation — the sites, and the protocol they run.
        y : ignored, present for scikit-learn's convention.
        """
        if not isinstance(federation, Federation):
            raise InvalidParameter(
                f"fit must be given a Federation; got {type(federation).__name__}. "
                "Write Federation(in_process({'here': rows(X, bound=...)}), protocol=Independent())."
            )
        # A guarantee of an earlier fit must not outlive a fit that fails half-way.
        self.__dict__.pop("guarantee_", None)
        with _kept_warnings() as texts:
            private = federation.allow(self.epsilon, self.delta, shares=self._shares(federation))
            self._fit(federation, private)
        self.n_features_in_ = federation.n_features
        if federation.facts.feature_names:
            self.feature_names_in_ = np.array(federation.facts.feature_names, dtype=object)
        self.guarantee_ = private.guarantee()
        self.releases_ = list(private.releases)
        self.warnings_ = texts
        return self

    def _shares(self, federation: Federation) -> Sequence[float]:
        """Shares of mu^2, one per release; everything that is decided before data is seen."""
        return (1.0,)

    @abstractmethod
    def _fit(self, federation: Federation, private: Allowance) -> None:
        """Ask for means and set the fitted attributes."""

    def save(self, path: str | Path) -> None:
        """Write parameters, fitted arrays and guarantee to an ``.npz`` file that holds no code."""
        check_is_fitted(self, "guarantee_")
        arrays = {name: np.asarray(getattr(self, name)) for name in self._fitted}
        about = {
            "format": _FORMAT,
            "class": type(self).__name__,
            "params": self.get_params(deep=False),
            "guarantee": msgspec.to_builtins(self.guarantee_),
            "releases": [msgspec.to_builtins(release) for release in self.releases_],
            "warnings": list(getattr(self, "warnings_", [])),
            "n_features_in": self.n_features_in_,
            "feature_names": list(getattr(self, "feature_names_in_", [])),
        }
        np.savez(path, about=np.array(json.dumps(about, default=_plain)), **arrays)  # type: ignore[arg-type]  # stubs know no mapping

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what :meth:`save` wrote."""
        with np.load(path, allow_pickle=False) as stored:
            about = _about(stored, path)
            if about["class"] != cls.__name__:
                raise InvalidParameter(
                    f"the model in {str(path)!r} must be a {cls.__name__}; got a {about['class']}. "
                    f"Load it with {about['class']}.load(...)."
                )
            model = cls(**about["params"])
            for name in cls._fitted:
                setattr(model, name, stored[name] if stored[name].ndim else stored[name].item())
        model.guarantee_ = msgspec.convert(about["guarantee"], Guarantee)
        model.releases_ = [msgspec.convert(release, Release) for release in about["releases"]]
        model.warnings_ = list(about.get("warnings", []))
        model.n_features_in_ = about["n_features_in"]
        if about["feature_names"]:
            model.feature_names_in_ = np.array(about["feature_names"], dtype=object)
        return model

    def _checked_rows(self, X: ArrayLike, width: int) -> NDArray[np.float64]:
        """Return new data as float64 rows of the fitted width."""
        check_is_fitted(self, "guarantee_")
        rows: NDArray[np.float64] = check_array(X, dtype=np.float64)
        if rows.shape[1] != width:
            raise InvalidParameter(
                f"data for {type(self).__name__} must have the {width} columns it was fitted with; got {rows.shape[1]}."
            )
        return rows

    def _repr_html_(self) -> str:
        text = f"<code>{html.escape(repr(self))}</code>"
        if not hasattr(self, "guarantee_"):
            return text
        from dpcape.report.card import card_html, card_of

        return text + card_html(card_of(self.guarantee_, releases=self.releases_))

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}


@contextmanager
def _kept_warnings() -> Iterator[list[str]]:
    """Note the texts of dpcape's warnings; every warning is issued at the end, where it came from."""
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


def check_components(n_components: int | str, largest: int) -> int | None:
    """Return the number of components asked for, or None for "auto"."""
    if n_components == "auto":
        return None
    if isinstance(n_components, bool) or not isinstance(n_components, int | np.integer):
        raise InvalidParameter(f"n_components must be a whole number or 'auto'; got {n_components!r}.")
    if not 1 <= n_components <= largest:
        raise InvalidParameter(f"n_components must be between 1 and {largest} here; got {n_components}.")
    return int(n_components)


def effective_share(federation: Federation, survivors: tuple[str, ...]) -> float:
    """Return sum of w_s^2 / N_s: one over the number of records unless sites are weighted otherwise."""
    if not federation.weights:
        return 1.0 / sum(federation.sites[site] for site in survivors)
    total = math.fsum(federation.weights[site] for site in survivors)
    return math.fsum((federation.weights[site] / total) ** 2 / federation.sites[site] for site in survivors)


def _about(stored: Any, path: str | Path) -> dict[str, Any]:
    if "about" not in stored:
        raise InvalidParameter(f"{str(path)!r} must be a model written by save(); got another file.")
    about: dict[str, Any] = json.loads(str(stored["about"]))
    if about.get("format") != _FORMAT:
        raise InvalidParameter(f"{str(path)!r} must be of format {_FORMAT!r}; got {about.get('format')!r}.")
    return about


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"cannot write {type(value).__name__}")
