"""Post-processing of released moments: pure functions that never read records."""

from typing import TYPE_CHECKING

from dpcape.core.lazy import names_of

if TYPE_CHECKING:
    from dpcape.postprocessing.ica_bases import cosine_basis
    from dpcape.postprocessing.ica_rotation import rotate, tensor_values

__all__ = ["cosine_basis", "rotate", "tensor_values"]
__getattr__ = names_of(
    __name__,
    {
        "dpcape.postprocessing.ica_bases": "cosine_basis",
        "dpcape.postprocessing.ica_rotation": "rotate tensor_values",
    },
)
