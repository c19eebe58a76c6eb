"""The kernel: it reads tiles of records, asks a statistic what each record contributes, and adds exactly.

What a record contributes is a function of that record and of public numbers. The shape of a tile is public, records
keep their places, an invalid one is a row of zeros until its contribution is dropped, and everything in between acts on
one record by itself. So totals of neighbouring data sets differ by the contributions of the record that was replaced,
and by nothing else (docs/noise.md, section 4).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpcape.core.arrays import BoolArray, FloatArray
from dpcape.core.contributions import Count, ExactSum, Form
from dpcape.core.facts import PublicFacts
from dpcape.core.record_blocks import HeldRecords, TiledRecords
from dpcape.core.statistic import MeanT_co, PublicValue, Statistic, build
from dpcape.core.tiles import Tile, empty_tile, parts_of


class Summed(Statistic[TiledRecords, MeanT_co]):
    """Statistic that says what each record contributes; the kernel adds up.

    A subclass implements ``terms`` and ``packed`` instead of ``total``.

    Attributes
    ----------
    with_factors : bool
        Whether a row that was shortened stands for a record that was shortened as a whole, with its constant and its
        response.
    """

    with_factors: ClassVar[bool] = False

    @abstractmethod
    def terms(self, tile: Tile) -> Sequence[Form]:
        """Return what the records of a tile contribute, in forms whose number and shapes are public.

        Every operation acts on one record by itself: arithmetic on entries, comparisons within a row, and the products
        of :mod:`dpcape.core.grid`. There are no sums over entries or records, no matrix products, and no branches on
        values (tests/laws/test_terms.py).
        """

    @property
    def n_entries(self) -> int:
        """Numbers that ``terms`` computes per record, where they may be many more than a row has."""
        return 0

    def contributed(self, records: TiledRecords) -> Iterator[tuple[Sequence[Form], int, BoolArray | None]]:
        """Yield the terms of all tiles, how many records they are of, and which of these are to be dropped."""
        for tile, gone in records.tiles():
            for part, dropped in parts_of(tile, gone, self.n_entries):
                yield self.terms(part), part.n_records, dropped

    @abstractmethod
    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        """Return the sums of all forms, in their own units, as the packed vector."""

    def total(self, records: TiledRecords) -> FloatArray:
        """Return the packed sum of contributions over ``records`` (runs at the site)."""
        *sums, _ = exact_sums_of(self, records)
        return self.packed([entry.values() for entry in sums])


def exact_sums_of(statistic: Summed[MeanT_co], records: TiledRecords) -> list[ExactSum]:
    """Return the exact sums of all forms of a statistic and, last, the number of records that were not dropped.

    Both come from one reading, so that a record counts if and only if it contributes.
    """
    sums: list[ExactSum] = []
    with np.errstate(all="ignore"):
        for terms, n_records, gone in statistic.contributed(records):
            forms = [*terms, Count(n_records)]
            sums = sums or [ExactSum(form) for form in forms]
            for form, total in zip(forms, sums, strict=True):
                if gone is not None:
                    form.drop(gone)
                total.add(form, n_records)
    if not sums:
        with np.errstate(all="ignore"):
            terms = statistic.terms(empty_tile(statistic.facts))
        sums = [ExactSum(form) for form in (*terms, Count(0))]
    return sums


def joined(parts: Iterable[Sequence[ExactSum]]) -> list[ExactSum]:
    """Return the exact sums over all parts of the records."""
    sums: list[ExactSum] = []
    for part in parts:
        if not sums:
            sums = list(part)
            continue
        for total, other in zip(sums, part, strict=True):
            total.join(other)
    return sums


@dataclass(frozen=True)
class PartSums:
    """The exact sums of a statistic over one part of a site's records; runs on the site's cluster.

    A statistic is sent as its name, its public arrays and the place of its site, and built there from installed code.
    """

    name: str
    facts: PublicFacts
    public: Mapping[str, PublicValue]
    place: int

    @classmethod
    def of(cls, statistic: Summed[MeanT_co]) -> PartSums:
        """Return what is sent for a statistic."""
        return cls(statistic.name, statistic.facts, statistic.public, statistic.place)

    def __call__(self, records: HeldRecords) -> list[ExactSum]:
        statistic = build(self.name, self.facts, self.public).at(self.place)
        if not isinstance(statistic, Summed):
            raise TypeError(f"{self.name!r} is computed by itself")
        return exact_sums_of(statistic, records)
