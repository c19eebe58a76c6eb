"""Base class of estimators that give new rows scores: transformers of scikit-learn, fitted to a federation."""

from __future__ import annotations

from typing import NoReturn, Self

from sklearn.base import TransformerMixin

from dpcape.core.errors import InvalidParameter
from dpcape.estimators.estimator import FederatedEstimator


class ScoringEstimator(TransformerMixin, FederatedEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """Base class of estimators with ``transform``; ``set_output`` chooses arrays or tables as in scikit-learn."""

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
        raise InvalidParameter(
            f"{type(self).__name__}.fit_transform",
            "not be used, because the sites' records are not here",
            type(X).__name__,
            "Write fit(federation), then transform(new_rows).",
        )
