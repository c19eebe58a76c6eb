"""Joint independent components: private PCA, rotation and refinement, and public bases for maps."""

from dpcape.estimators.ica.bases import cosine_basis

__all__ = ["cosine_basis"]
