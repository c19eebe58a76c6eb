"""Base class of estimators that give new rows scores: transformers of scikit-learn, fitted to a federation."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from dpcape.core.errors import InvalidParameter
from dpcape.estimators.estimator import FederatedEstimator
from dpcape.estimators.fitted import require_fitted
from dpcape.schema.containers import check_container, contained


class ScoringEstimator(FederatedEstimator):
    """Base class of estimators with ``transform``; ``set_output`` chooses arrays or tables as in scikit-learn."""

    # Name of a score, before its number, and the fitted array with one row per score.
    _score: ClassVar[str]
    _per_score: ClassVar[str]
    # The container that set_output chose; None leaves it to scikit-learn's configuration.
    _output: str | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        """Have ``transform`` return what ``set_output`` chose."""
        super().__init_subclass__(**options)
        if "transform" in vars(cls):
            cls.transform = _in_container(vars(cls)["transform"])  # type: ignore[attr-defined]  # subclasses have it

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Return the names of the scores."""
        require_fitted(self)
        count = len(getattr(self, self._per_score))
        return np.array([f"{self._score}{index}" for index in range(count)], dtype=object)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose what ``transform`` returns, as in scikit-learn.

        Parameters
        ----------
        transform : 'default', 'pandas', 'polars' or None
            Arrays, or tables with names of columns; None leaves it as it is.
        """
        if transform is not None:
            check_container(transform)
            self._output = transform
        return self

    def fit_transform(self, X: object, y: object = None, **_: object) -> NoReturn:
        """Refuse: records stay at their sites, and their scores are not released.

        Parameters
        ----------
        X, y : object
            Not used.
        """
        subject, must = f"{type(self).__name__}.fit_transform", "not be used, because the sites' records are not here"
        raise InvalidParameter(subject, must, type(X).__name__, "Write fit(federation), then transform(new_rows).")

    def __sklearn_clone__(self) -> Self:
        return super().__sklearn_clone__().set_output(transform=self._output)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()
        tags.transformer_tags = TransformerTags()
        return tags


def _in_container(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``transform`` with its scores in the chosen container; of several arrays the first, as in scikit-learn."""
    rows_name = list(inspect.signature(method).parameters)[1]

    @functools.wraps(method)
    def transform(self: ScoringEstimator, *arguments: Any, **options: Any) -> Any:
        found = method(self, *arguments, **options)
        X = arguments[0] if arguments else options.get(rows_name)
        first, *others = found if isinstance(found, tuple) else (found,)
        first = contained(first, self.get_feature_names_out, X, self._output)
        return (first, *others) if isinstance(found, tuple) else first

    return transform
