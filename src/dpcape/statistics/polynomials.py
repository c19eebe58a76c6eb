"""The mean coefficients of a registered polynomial loss, released jointly over all degrees."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcape.errors import InvalidParameter
from dpcape.facts import Facts
from dpcape.statistics.losses import LinearPredictorLoss, loss_of
from dpcape.statistics.monomials import monomial_count
from dpcape.statistics.statistic import BLOCK_ROWS, Statistic, known

Vector = NDArray[np.float64]
LARGEST_SIZE = 200_000


@known
class PolynomialCoefficients(Statistic):
    """Mean over records of the coefficients of a registered loss, all degrees jointly."""

    name = "polynomial_coefficients"
    kinds = frozenset({"rows", "labelled"})
    units = frozenset({"record"})

    def __init__(self, facts: Facts, loss: str) -> None:
        super().__init__(facts, loss=loss)
        self.loss = loss_of(loss)
        self._weights = self.loss.weights(self.facts)
        width = self.loss.n_parameters(self.facts)
        self._sizes = [monomial_count(width, degree) if weight else 0 for degree, weight in enumerate(self._weights)]
        if not 1 <= self.size <= LARGEST_SIZE:
            raise InvalidParameter(
                f"a loss must have between 1 and {LARGEST_SIZE} coefficients; got {self.size}. "
                "Use fewer features or a smaller degree."
            )
        self._diameter = checked_diameter(loss, self.facts)

    @property
    def size(self) -> int:
        return sum(self._sizes)

    @property
    def proved(self) -> bool:
        """Whether the diameter is enforced or computed, rather than stated by the loss's author."""
        if self.loss.stated_diameter(self.facts) is None:
            return True
        base: Any = LinearPredictorLoss
        names = ("stated_diameter", "block_diameters", "coefficients", "_checked_intervals")
        return all(getattr(type(self.loss), name, None) is getattr(base, name) for name in names)

    @property
    def assumption(self) -> str:
        return (
            ""
            if self.proved
            else f"the author's diameter of the loss {self.loss.name!r} is true (searched, not proved)"
        )

    @property
    def diameter(self) -> float:
        return self._diameter

    @property
    def radius(self) -> float:
        return self.loss.bound(self.facts)

    def rounding(self, n_records: int) -> float:
        # A monomial passes through as many products as its degree has factors.
        return super().rounding(n_records) * (2 + self.loss.degree)

    def total(self, records: Any) -> Vector:
        result = np.zeros(self.size)
        for block in records.blocks(BLOCK_ROWS):
            rows, targets = block if isinstance(block, tuple) else (block, None)
            with np.errstate(all="ignore"):
                contributions = self.loss.packed(rows, targets, self.facts)
            # A site must answer whatever its records are: a refusal would tell that there is such a record. Zero is
            # within the diameter of every contribution (checked_diameter).
            contributions[~np.isfinite(contributions).all(axis=1)] = 0.0
            result += contributions.sum(axis=0)
        return result

    def unpack(self, packed: Vector) -> list[Vector]:
        """Return one packed symmetric tensor per degree, weights removed; empty for degrees left out."""
        blocks = np.split(packed, np.cumsum(self._sizes)[:-1])
        return [block / (weight or 1.0) for block, weight in zip(blocks, self._weights, strict=True)]


@lru_cache(maxsize=64)
def checked_diameter(loss: str, facts: Facts) -> float:
    """Return the diameter of a loss after a search has tried to break it; raises if it succeeds."""
    from dpcape.statistics.diameter_search import largest_distance

    chosen = loss_of(loss)
    stated, bound = chosen.stated_diameter(facts), chosen.bound(facts)
    for subject, value in (("bound", bound), ("stated diameter", 1.0 if stated is None else stated)):
        if not 1e-100 <= value <= 1e100:
            raise InvalidParameter(f"the {subject} of the loss {loss!r} must be a positive number; got {value!r}.")
    # A record for which the loss has no numbers contributes zero, which is up to the bound away from the others.
    diameter = 2 * bound if stated is None else min(max(stated, bound), 2 * bound)
    found = largest_distance(lambda rows, targets: chosen.packed(rows, targets, facts), facts)
    # Written so that NaN is refused too.
    if not found <= diameter * (1 + 1e-9):
        raise InvalidParameter(
            f"the stated diameter of the loss {loss!r} must hold for every pair of records; got {diameter:.6g} where "
            f"two possible records are {found:.6g} apart. State a larger one, or none."
        )
    return diameter


def polynomial_coefficients(facts: Facts, *, loss: str) -> PolynomialCoefficients:
    """Mean coefficients of a registered loss."""
    return PolynomialCoefficients(facts, loss=loss)
