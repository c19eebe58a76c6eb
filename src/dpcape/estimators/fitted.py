"""What a model says before it is fitted."""

from __future__ import annotations

from sklearn.exceptions import NotFittedError

from dpcape.core.errors import Failed


class NotFitted(Failed, NotFittedError):  # type: ignore[misc]  # scikit-learn has no types
    """Raised when a fitted model is needed."""


def require_fitted(model: object, attribute: str = "guarantee_") -> None:
    """Refuse a model that is not fitted."""
    if not hasattr(model, attribute):
        raise NotFitted(f"The {type(model).__name__} is not fitted", remedy="Call fit() first.")
