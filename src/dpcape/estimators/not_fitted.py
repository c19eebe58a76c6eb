"""What a model raises before it is fitted; loaded when it is raised, because scikit-learn's exception is its base."""

from __future__ import annotations

from sklearn.exceptions import NotFittedError

from dpcape.core.errors import Failed


class NotFitted(Failed, NotFittedError):  # type: ignore[misc]  # scikit-learn has no types
    """Raised when a fitted model is needed."""
