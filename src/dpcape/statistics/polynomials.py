"""The mean coefficients of a registered polynomial loss, released jointly over all degrees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.contributions import Form, Plain
from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import Extent, exact_sums, plain_error
from dpcape.core.facts import PublicFacts
from dpcape.core.kernel import Summed
from dpcape.core.record_blocks import Targets
from dpcape.core.statistic import is_own, known
from dpcape.core.tiles import Tile
from dpcape.statistics.losses import LinearPredictorLoss, RecordLoss, loss_of
from dpcape.statistics.monomials import monomial_count

LARGEST_SIZE = 200_000


@known
class PolynomialCoefficients(Summed[list[FloatArray]]):
    """Mean over records of the coefficients of a registered loss, all degrees jointly; the diameter is the loss's.

    That holds for rows within the bound. Rounding to the grid may make a row a little longer: such a row is shortened
    to the bound before a loss is given it. Coefficients, at most the loss's bound long, are put on 2^40 steps.
    """

    name = "polynomial_coefficients"
    kinds = frozenset({"rows", "labelled"})
    units = frozenset({"record"})

    def __init__(self, facts: PublicFacts, loss: str) -> None:
        super().__init__(facts, loss=loss)
        self.loss = loss_of(loss)
        self._weights = self.loss.weights(self.facts)
        self._sizes = _sizes(self.loss, self.facts)

    @staticmethod
    def extent(*, n_features: float, size: float, diameter: float, radius: float, degree: float) -> Extent:
        """Return the extent from the numbers of a loss, which :func:`loss_numbers` computes.

        A loss is code: the distance between two records' coefficients follows from its intervals and bound, not from a
        formula. A monomial of degree d is a product of d factors, which the rounding counts.
        """
        return exact_sums(size, diameter, radius, error=plain_error(size, radius, roundings=64 * (2 + degree)))

    @cached_property
    def numbers(self) -> Mapping[str, float]:
        """Numbers of the loss, after searches have tried to refute what its author states.

        Computed when an extent is first needed, which is before anything is released; a child that only adds up
        coefficients, clipped elsewhere, has no time for it.
        """
        return loss_numbers(self.facts, loss=self.loss.name)

    @property
    def proved(self) -> bool:
        """Whether the diameter is enforced or computed, rather than stated by the loss's author."""
        if self.loss.stated_diameter(self.facts) is None:
            return True
        names = ("stated_diameter", "block_diameters", "coefficients", "_checked_intervals")
        return all(getattr(type(self.loss), name, None) is getattr(LinearPredictorLoss, name) for name in names)

    @property
    def assumption(self) -> str:
        texts = []
        if not self.proved:
            texts.append(f"the author's diameter of the loss {self.loss.name!r} is true (searched, not proved)")
        if not is_own(type(self.loss)):
            texts.append(
                f"the loss {self.loss.name!r}, which is not part of dpcape, computes the coefficients of a record from "
                "that record only (searched, not proved)"
            )
        return "; ".join(texts)

    @property
    def n_entries(self) -> int:
        return sum(self._sizes)

    def terms(self, tile: Tile) -> Sequence[Form]:
        bound = self.facts.bounds[0] * (1 - 2.0**-40)
        factors = np.minimum(1.0, bound / np.sqrt(tile.rows.squared_lengths())) / tile.rows.steps
        rows = tile.rows.ints * factors[:, np.newaxis]
        # A site must answer whatever its records are: a refusal would reveal that such a record exists. What is not
        # finite counts as zero, which is within the diameter of every contribution (checked_diameter).
        return [Plain(self.loss.packed(rows, self._targets(tile), self.facts), self.loss.bound(self.facts))]

    def _targets(self, tile: Tile) -> Targets | None:
        if self.facts.kind != "labelled":
            return None
        return tile.targets if self.facts.classes is None else tile.classes

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        return sums[0]

    def unpack(self, packed: FloatArray) -> list[FloatArray]:
        """Return one packed symmetric tensor per degree, weights removed; empty for degrees left out."""
        blocks = np.split(packed, np.cumsum(self._sizes)[:-1])
        return [block / (weight or 1.0) for block, weight in zip(blocks, self._weights, strict=True)]


def loss_numbers(facts: PublicFacts, *, loss: str) -> dict[str, float]:
    """Return the numbers that determine the extent of a registered loss, or raise if it cannot be released.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of the records.
    loss : str
        Name of the loss.
    """
    facts = facts.shape_facts()
    chosen = loss_of(loss)
    size = sum(_sizes(chosen, facts))
    if not 1 <= size <= LARGEST_SIZE:
        remedy = "Use fewer features or a smaller degree."
        raise InvalidParameter("The loss", f"have between 1 and {LARGEST_SIZE} coefficients", size, remedy)
    return {
        "n_features": facts.n_features,
        "size": size,
        "diameter": checked_diameter(loss, facts),
        "radius": chosen.bound(facts),
        "degree": chosen.degree,
    }


def _sizes(loss: RecordLoss, facts: PublicFacts) -> list[int]:
    """Return the number of released coefficients of each degree; 0 for degrees left out."""
    width = loss.n_parameters(facts)
    return [monomial_count(width, degree) if weight else 0 for degree, weight in enumerate(loss.weights(facts))]


@lru_cache(maxsize=64)
def checked_diameter(loss: str, facts: PublicFacts) -> float:
    """Return the diameter of a loss after searches have tried to break it; raises if one succeeds.

    Another author's loss is also searched for records whose coefficients depend on other records.
    """
    from dpcape.statistics.block_search import require_separate_records
    from dpcape.statistics.diameter_search import largest_distance

    chosen = loss_of(loss)
    stated, bound = chosen.stated_diameter(facts), chosen.bound(facts)
    for subject, value in (("bound", bound), ("stated diameter", 1.0 if stated is None else stated)):
        if not 1e-100 <= value <= 1e100:
            raise InvalidParameter(f"the {subject} of the loss {loss!r}", "be a positive number", repr(value))
    if not is_own(type(chosen)):
        require_separate_records(chosen, facts)
    # A record whose coefficients are not finite contributes zero, which is up to the bound away from the others.
    diameter = 2 * bound if stated is None else min(max(stated, bound), 2 * bound)
    distance = largest_distance(lambda rows, targets: chosen.packed(rows, targets, facts), facts)
    # Written so that NaN is refused too.
    if not distance <= diameter * (1 + 1e-9):
        raise InvalidParameter(
            f"The stated diameter of the loss {loss!r}",
            "hold for every pair of records",
            f"{diameter:.6g}, but two possible records are {distance:.6g} apart",
            "State a larger diameter, or return None.",
        )
    return diameter


def polynomial_coefficients(facts: PublicFacts, *, loss: str) -> PolynomialCoefficients:
    """Mean coefficients of a registered loss; refused if a search refutes what its author states."""
    # The searches run here, before any site receives a request.
    loss_numbers(facts, loss=loss)
    return PolynomialCoefficients(facts, loss=loss)
