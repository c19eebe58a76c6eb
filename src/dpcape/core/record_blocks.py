"""Interfaces of records, with only the methods that statistics call.

``dpcape.records`` implements them. Statistics do not import it: they read tiles, and code of other packages
and PyTorch modules read clipped blocks. The buffer of a block is reused for the next one, so use or copy a block before
reading the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from dpcape.core.arrays import BoolArray, FloatArray, IntArray
from dpcape.core.facts import PublicFacts

if TYPE_CHECKING:
    from dpcape.core.tiles import Tile

Targets: TypeAlias = FloatArray | IntArray
"""Responses in [-1, 1], or class codes: positions in the public list of classes."""

TargetsT_co = TypeVar("TargetsT_co", bound=Targets, covariant=True)
T = TypeVar("T")


class TiledRecords(Protocol):
    """Records that are read in tiles."""

    def tiles(self) -> Iterator[tuple[Tile, BoolArray | None]]:
        """Return tiles, and which of their records are to be dropped; None for none."""


class LabelledBlocks(Protocol[TargetsT_co]):
    """Rows of bounded length, each with a response or a class, read in blocks."""

    @property
    def n_records(self) -> int:
        """Number of rows."""

    def blocks(self, size: int) -> Iterator[tuple[FloatArray, TargetsT_co]]:
        """Return blocks of at most ``size`` clipped rows, and the targets of these rows."""


class HeldRecords(TiledRecords, Protocol):
    """What a site holds, as the trusted part sees it."""

    @property
    def n_records(self) -> int:
        """Number of protected units."""

    @property
    def n_invalid(self) -> int:
        """Number of them that contribute nothing; known only to the site."""

    @property
    def computed_on(self) -> str:
        """Cluster inside the site on which totals are computed; empty for this process."""

    def facts(self) -> PublicFacts:
        """Return everything about these records that is public."""

    def check_unchanged(self) -> None:
        """Raise an error if the source no longer holds what was read first."""

    def each_alone(self) -> Iterator[HeldRecords]:
        """Return an iterator over protected units, each as records of its own: for code of other packages."""

    def each_part(self, function: Callable[[HeldRecords], T]) -> Iterator[T] | None:
        """Apply a function to each part of records on a cluster and return the results; None without a cluster."""
