"""What a model says before it is fitted."""

from __future__ import annotations


def require_fitted(model: object, attribute: str = "guarantee_") -> None:
    """Refuse a model that is not fitted."""
    if not hasattr(model, attribute):
        from dpcape.estimators.not_fitted import NotFitted

        raise NotFitted(f"The {type(model).__name__} is not fitted", remedy="Call fit() first.")
