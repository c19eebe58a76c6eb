"""Base class of estimators that give new rows scores: transformers of scikit-learn, fitted to a federation."""

from __future__ import annotations

from typing import ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import TransformerMixin

from dpcape.core.errors import InvalidParameter
from dpcape.estimators.estimator import FederatedEstimator
from dpcape.estimators.fitted import require_fitted


class ScoringEstimator(TransformerMixin, FederatedEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """Base class of estimators with ``transform``; ``set_output`` chooses arrays or tables as in scikit-learn."""

    # Name of a score, before its number, and the fitted array with one row per score.
    _score: ClassVar[str]
    _per_score: ClassVar[str]

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
        super().set_output(transform=transform)
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
