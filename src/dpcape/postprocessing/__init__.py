"""Post-processing of released moments: pure functions that never read records."""

from dpcape.postprocessing.ica_bases import cosine_basis
from dpcape.postprocessing.ica_rotation import rotate, tensor_values

__all__ = ["cosine_basis", "rotate", "tensor_values"]
