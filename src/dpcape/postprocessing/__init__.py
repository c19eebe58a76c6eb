"""Post-processing of released moments: pure functions that never read records."""

from dpcape.estimators.ica.bases import cosine_basis
from dpcape.estimators.ica.rotation import rotate, tensor_values

__all__ = ["cosine_basis", "rotate", "tensor_values"]
