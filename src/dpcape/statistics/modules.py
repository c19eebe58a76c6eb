"""Networks of other authors, known by name: clipped gradients of single records, summed.

Code is never sent to a site: a network is registered by name (a PyTorch module with
:func:`~dpcape.statistics.known_module`) in a Python module that is imported wherever it runs. A site that is served
imports it in sandboxed children alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from functools import lru_cache

import numpy as np

from dpcape.core.arrays import FloatArray, IntArray
from dpcape.core.enclosed import clipped
from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import BLOCK_ROWS, Extent, rounding_in_blocks
from dpcape.core.facts import PublicFacts
from dpcape.core.record_blocks import LabelledBlocks
from dpcape.core.statistic import Statistic, known
from dpcape.statistics.gradients import LARGEST_WEIGHT, check_classes, checked_number

MOST_WEIGHTS = 2**22
# Largest number of entries of the gradients of a block's single records: 16 MiB.
_BLOCK_ENTRIES = 2**21
# Products round differently in blocks of different length; relative to the largest gradient.
_TOLERANCE = 1e-6


class NetworkModule(ABC):
    """Classifier with weights in one vector, whose code is not part of dpcape.

    Attributes
    ----------
    name : str
        Name in messages and parameters.
    """

    name: str

    @abstractmethod
    def n_weights(self, n_features: int, n_classes: int) -> int:
        """Return the number of weights, or raise if there is no such network for these records."""

    @abstractmethod
    def start(self, n_features: int, n_classes: int, seed: int) -> FloatArray:
        """Return public initial weights."""

    @abstractmethod
    def outputs(self, weights: FloatArray, rows: FloatArray, n_classes: int) -> FloatArray:
        """Return one row per record and one column per class, before the softmax."""

    @abstractmethod
    def gradients(self, weights: FloatArray, rows: FloatArray, codes: IntArray, n_classes: int) -> FloatArray:
        """Return the gradient of each record's cross-entropy, one row each; each must depend on its own record only.

        The row of a record for which there is no gradient is not finite.
        """

    @property
    def assumption(self) -> str:
        """Assumption of a guarantee about this code, which is not part of dpcape, in words."""
        return (
            f"the module {self.name!r}, which is not part of dpcape, treats each record by itself, rounding included, "
            "and keeps nothing of it"
        )


_MODULES: dict[str, NetworkModule] = {}


def register_module(module: NetworkModule) -> None:
    """Make a network known under its name; the name must be new."""
    if not isinstance(module.name, str) or not module.name or module.name in _MODULES:
        raise InvalidParameter("The name of a module", "be a new text", repr(module.name), "Rename it.")
    _MODULES[module.name] = module


def module_of(name: str) -> NetworkModule:
    """Return the registered network of this name."""
    if name not in _MODULES:
        raise InvalidParameter(
            "module",
            f"be one of {sorted(_MODULES)}",
            repr(name),
            "In a run of your own, import the Python module that registers it; a study needs a package that declares "
            "it, allowed at every site (docs/packages.md).",
        )
    return _MODULES[name]


@lru_cache(maxsize=64)
def module_size(name: str, n_features: int, n_classes: int) -> int:
    """Return the number of weights of a network, after a search for records that change each other's gradients."""
    module = module_of(name)
    size = module.n_weights(n_features, n_classes)
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= MOST_WEIGHTS:
        remedy = "Use a smaller network."
        raise InvalidParameter(f"The module {name!r}", f"have from 1 to {MOST_WEIGHTS} weights", repr(size), remedy)
    _require_separate_records(module, n_features, n_classes, size)
    return size


def _require_separate_records(module: NetworkModule, n_features: int, n_classes: int, size: int) -> None:
    """Refuse a network if gradients of synthetic records depend on what else is in their block.

    Finding nothing proves nothing: the guarantee lists that records are treated by themselves.
    """
    rows, codes = np.cos(np.outer(np.arange(1, 6), np.arange(1, n_features + 1))), np.arange(5) % n_classes
    weights = module.start(n_features, n_classes, 0)
    together = module.gradients(weights, rows, codes, n_classes)
    if np.shape(weights) != (size,) or np.shape(together) != (5, size):
        subject = f"The module {module.name!r}"
        must = f"have one weight vector and one gradient per record, of {size} numbers"
        remedy = "Correct the module."
        raise InvalidParameter(subject, must, f"shapes {np.shape(weights)} and {np.shape(together)}", remedy)
    largest = float(np.nan_to_num(np.abs(together), posinf=0.0).max())
    for order in ([4, 3, 2, 1, 0], [2], [0, 0, 3], [1, 4]):
        others = module.gradients(weights, rows[order], codes[order], n_classes)
        if not np.allclose(others, together[order], rtol=0.0, atol=_TOLERANCE * largest, equal_nan=True):
            subject = f"The gradients of the module {module.name!r}"
            must = "depend on their own record only"
            remedy = "Compute each record from itself and the weights."
            raise InvalidParameter(subject, must, "gradients that changed with the records around them", remedy)


@known
class ModuleGradient(Statistic[LabelledBlocks[IntArray], FloatArray]):
    """Mean of per-record gradients of the cross-entropy of a registered network, each clipped to a public length.

    Privacy
    -------
    A record contributes its gradient g times min(1, clip / |g|), or zero if g is not finite, so two contributions are
    at most 2 clip apart whatever weights were sent and whatever the network computes, if the gradient of a record
    depends on that record and the weights only. That is an assumption about code of others, which the guarantee
    lists. PyTorch modules are applied to single records (``vmap`` over calls with one record), gradients are computed
    in double precision, and blocks are filled up to the same length, so that which operations are carried out is
    public. Whether PyTorch rounds a record differently at another place of a block is part of the assumption.
    Clipping comes after everything that the network does, in double precision; its rounding and that of the sum are
    counted.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of the records.
    module : str
        Name of the network.
    weights : array
        All weights in one vector.
    clip : float
        Largest length of a record's contribution.
    """

    name = "module_gradient"
    kinds = frozenset({"labelled"})
    units = frozenset({"record"})

    def __init__(self, facts: PublicFacts, module: str, weights: FloatArray, clip: float) -> None:
        super().__init__(facts, module=module, weights=weights, clip=clip)
        check_classes(facts)
        self._module, self._n_classes = module_of(module), len(facts.classes or ())
        self._weights = _checked_weights(weights, module_size(module, facts.n_features, self._n_classes))
        self._clip = checked_number("clip", clip, largest=1e9)

    @staticmethod
    def extent(*, size: float, clip: float) -> Extent:
        """Return the extent for ``size`` weights and gradients of length at most ``clip``."""
        return Extent(size, 2 * clip, clip, rounding_in_blocks(0, clip))

    @property
    def numbers(self) -> Mapping[str, float]:
        return {"size": len(self._weights), "clip": self._clip}

    @property
    def assumption(self) -> str:
        return self._module.assumption

    def total(self, records: LabelledBlocks[IntArray]) -> FloatArray:
        result = np.zeros(len(self._weights))
        for gradients in self._block_gradients(records, records.n_records):
            result += self._clipped_sum(gradients)
        return result

    def contributions(self, records: LabelledBlocks[IntArray], n_rows: int) -> FloatArray:
        """Return each record's gradient, not yet clipped; what is computed depends on the public ``n_rows`` alone."""
        gradients = list(self._block_gradients(records, n_rows))
        return np.concatenate(gradients) if gradients else np.zeros((0, len(self._weights)))

    def _block_gradients(self, records: LabelledBlocks[IntArray], n_rows: int) -> Iterator[FloatArray]:
        """Yield the gradients of blocks that are filled up to the same length, of at most ``n_rows`` records."""
        block_rows = max(1, min(BLOCK_ROWS, _BLOCK_ENTRIES // len(self._weights), n_rows))
        for rows, codes in records.blocks(block_rows):
            yield self._gradients(rows, codes, block_rows)

    def _gradients(self, rows: FloatArray, codes: IntArray, block_rows: int) -> FloatArray:
        """Return what the network computes for the records of one block."""
        filled, labels = np.zeros((block_rows, rows.shape[1])), np.zeros(block_rows, dtype=np.int64)
        filled[: len(rows)], labels[: len(rows)] = rows, codes
        gradients = np.asarray(self._module.gradients(self._weights, filled, labels, self._n_classes), dtype=np.float64)
        if gradients.shape != (block_rows, len(self._weights)):
            must, remedy = "return one gradient per record", "Correct the module."
            raise InvalidParameter(f"The module {self._module.name!r}", must, f"shape {gradients.shape}", remedy)
        return gradients[: len(rows)]

    def _clipped_sum(self, gradients: FloatArray) -> FloatArray:
        """Return the sum of the gradients, each scaled to the clip; zero for those that are not finite.

        A length is computed to within (size / 2 + 8) roundings, and the target is 2 (size + 16) of them lower.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            lengths = np.sqrt(np.vecdot(gradients, gradients))
        if not np.isfinite(lengths).all():
            # Rare: some entries, or their squares, are not finite.
            some: FloatArray = clipped(gradients[np.isfinite(gradients).all(axis=1)], self._clip).sum(axis=0)
            return some
        target = self._clip * (1 - (gradients.shape[1] + 16) * 2.0**-52)
        summed: FloatArray = (target / np.maximum(lengths, target)) @ gradients
        return summed


def _checked_weights(weights: FloatArray, size: int) -> FloatArray:
    fits = isinstance(weights, np.ndarray) and weights.shape == (size,) and weights.dtype == np.float64
    if not fits or not bool((np.abs(weights) <= LARGEST_WEIGHT).all()):
        must = f"be {size} finite numbers of at most {LARGEST_WEIGHT:g} in absolute value"
        remedy = "Lower the learning rate, or use the same module everywhere."
        raise InvalidParameter("weights", must, f"an array of shape {np.shape(weights)} that is not", remedy)
    return weights


def module_gradient(facts: PublicFacts, *, module: str, weights: FloatArray, clip: float) -> ModuleGradient:
    """Mean of clipped gradients of a registered network at the given weights."""
    return ModuleGradient(facts, module=module, weights=weights, clip=clip)
