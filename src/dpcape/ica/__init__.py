"""Independent components from released moments: pure post-processing, nothing here touches records."""

from dpcape.ica.bases import cosine_basis
from dpcape.ica.rotation import rotate, tensor_values

__all__ = ["cosine_basis", "rotate", "tensor_values"]
