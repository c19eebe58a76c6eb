"""Public knowledge or assumptions about records, from which an expected error is computed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.errors import InvalidParameter

SHAPES = ("power", "geometric", "flat")


@dataclass(frozen=True)
class Declared:
    """Public knowledge or assumptions about the records; never computed from them.

    Attributes
    ----------
    shape : str
        Shape of the spectrum: "power" (eigenvalue j proportional to j^-decay), "geometric" (to decay^(j-1)) or "flat".
    decay : float
        Exponent for "power", ratio for "geometric".
    energy : float
        Mean squared norm of a record, divided by the squared bound.
    values : tuple of float
        Eigenvalues divided by the squared bound, instead of shape, decay and energy; padded with zeros.
    explained : float
        For regressions, the share of the response's variance that the features explain.

    Examples
    --------
    >>> Declared(shape="geometric", decay=0.5, energy=0.75).spectrum(2).tolist()
    [0.5, 0.25]
    """

    shape: str = "power"
    decay: float = 1.0
    energy: float = 0.5
    values: tuple[float, ...] = ()
    explained: float = 0.5

    def spectrum(self, size: int) -> FloatArray:
        """Return ``size`` eigenvalues in descending order, for a bound of one."""
        if self.values:
            return self._own(size)
        self._check()
        ranks = np.arange(1.0, size + 1)
        if self.shape == "flat":
            raw = np.ones(size)
        else:
            raw = ranks**-self.decay if self.shape == "power" else self.decay ** (ranks - 1)
        spectrum: FloatArray = raw * (self.energy / raw.sum())
        return spectrum

    def _own(self, size: int) -> FloatArray:
        own = np.array(self.values, dtype=np.float64)
        if own.size > size or not (own >= 0).all() or (np.diff(own) > 0).any() or not 0 < own.sum() <= 1 + 1e-9:
            must = (
                f"be at most {size} nonnegative numbers in descending order, adding up to at most 1 (the squared bound)"
            )
            raise InvalidParameter("eigenvalues", must, f"{own.size} numbers", "Check their order and sum.")
        return np.concatenate([own, np.zeros(size - own.size)])

    def _check(self) -> None:
        if self.shape not in SHAPES:
            raise InvalidParameter("shape", f"be one of {', '.join(SHAPES)}", repr(self.shape))
        if not 0 < self.energy <= 1:
            raise InvalidParameter("energy", "be above 0 and at most 1", repr(self.energy))
        largest = 1.0 if self.shape == "geometric" else 10.0
        if self.shape != "flat" and not 0 < self.decay <= largest:
            raise InvalidParameter("decay", f"be above 0 and at most {largest:g} here", repr(self.decay))
