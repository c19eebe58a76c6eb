"""Public feature maps: fixed functions of one record, applied at the sites before gradients are taken.

A map is fixed in advance and known to everybody: it learns nothing from records. Sites find it by its name in their own
code. Whatever it returns, a gradient is clipped after it is applied, so a map does not change a diameter as long as it
treats each record by itself. Maps of dpcape do; a map that is defined elsewhere is given one record at a time, and
the guarantee lists that it keeps nothing from one record to the next.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from dpcape.core.arrays import BoolArray, FloatArray
from dpcape.core.errors import InvalidParameter
from dpcape.core.grid import PublicColumns, into_balls, lengths_of, on_grid
from dpcape.core.record_blocks import TiledRecords
from dpcape.core.statistic import is_own
from dpcape.core.tiles import Tile

_MOST_KEPT = 1 << 27
"""Most numbers that are kept from one round to the next: 1 GiB."""


class FeatureMap(ABC):
    """Fixed public function of single records.

    Attributes
    ----------
    name : str
        Name in messages and parameters, by which a site finds its own code.
    """

    name: ClassVar[str]

    @abstractmethod
    def width(self, n_features: int) -> int:
        """Return the number of features for rows of ``n_features`` columns, or raise if it cannot be applied."""

    @abstractmethod
    def features(self, rows: FloatArray) -> FloatArray:
        """Return the features of rows, one row each; each must depend on its own row only."""

    def mapped(self, rows: FloatArray) -> FloatArray:
        """Return features of length at most one; those of a row for which they are not finite are zero."""
        shape = (len(rows), self.width(rows.shape[1]))
        features = np.empty(shape)
        for chosen in self._parts(rows):
            values = np.asarray(self.features(rows[chosen]), dtype=np.float64)
            if values.shape != features[chosen].shape:
                must, remedy = f"return one row of {shape[1]} features per record", "Correct features() or width()."
                raise InvalidParameter(f"The feature map {self.name!r}", must, f"shape {values.shape}", remedy)
            features[chosen] = values
        lengths = lengths_of(features)
        lost = ~np.isfinite(lengths)
        features[lost], lengths[lost] = 0.0, 0.0
        features /= np.maximum(lengths, 1.0)[:, np.newaxis]
        return features

    def _parts(self, rows: FloatArray) -> Iterator[slice[int, int, None]]:
        """Yield all rows at once to a map of dpcape, and one at a time to any other."""
        if is_own(type(self)):
            yield slice(0, len(rows))
            return
        for position in range(len(rows)):
            yield slice(position, position + 1)

    @property
    def assumption(self) -> str:
        """Assumption of a guarantee about a map that is not part of dpcape, in words; empty for dpcape's own."""
        if is_own(type(self)):
            return ""
        return (
            f"the feature map {self.name!r}, which is not part of dpcape, treats each record by itself and keeps "
            "nothing of it"
        )


_MAPS: dict[str, FeatureMap] = {}
_M = TypeVar("_M", bound=type[FeatureMap])


def known_map(cls: _M) -> _M:
    """Register a feature map under its name (class decorator). Its module must be installed at every site."""
    if cls.mapped is not FeatureMap.mapped:
        must, remedy = "not override mapped(), which applies it to single records", "Override features() instead."
        raise InvalidParameter(f"The feature map {cls.name!r}", must, f"{cls.__name__}.mapped", remedy)
    if cls.name in _MAPS:
        subject = "The name of a feature map"
        raise InvalidParameter(subject, "be new", f"{cls.name!r}, which is registered", "Rename it.")
    _MAPS[cls.name] = cls()
    return cls


def own_maps() -> frozenset[str]:
    """Return the names of dpcape's own feature maps."""
    return frozenset(name for name, entry in _MAPS.items() if is_own(type(entry)))


def feature_map(name: str) -> FeatureMap:
    """Return the registered feature map of this name."""
    if name not in _MAPS:
        raise InvalidParameter(
            "features",
            f"be one of {sorted(_MAPS)}",
            repr(name),
            "In a run of your own, import the module that defines it; a study needs a package that declares it, "
            "allowed at every site (docs/packages.md).",
        )
    return _MAPS[name]


def n_inputs(features: str, n_features: int) -> int:
    """Return the number of inputs of a model after the map of this name; an empty name is no map."""
    return feature_map(features).width(n_features) if features else n_features


@known_map
class OrientedGradients(FeatureMap):
    """Histograms of oriented gradients of square grey images (Dalal and Triggs 2005), of length one.

    Differences of neighbouring pixels are counted by direction (8 unsigned ones, shared linearly) in cells of 4 x 4
    pixels. Each cell is divided by the length of its 3 x 3 neighbourhood. Of all counts the root is taken and the
    image's own mean subtracted, so that directions that are common to all images do not dominate.
    """

    name = "hog"
    _CELL, _BINS, _LEAST = 4, 8, 0.1

    def width(self, n_features: int) -> int:
        side = math.isqrt(n_features)
        if side * side != n_features or side < self._CELL:
            must = f"be of square images of at least {self._CELL} x {self._CELL} pixels"
            raise InvalidParameter("features 'hog'", must, f"{n_features} columns", "Leave features out.")
        return (side // self._CELL) ** 2 * self._BINS

    def features(self, rows: FloatArray) -> FloatArray:
        side = math.isqrt(rows.shape[1])
        cells = self._cells(rows.reshape(-1, side, side))
        n_cells = cells.shape[1]
        # One direction after the other, in the same order whatever the number of rows.
        energy = np.zeros((len(rows), n_cells + 2, n_cells + 2))
        for direction in range(self._BINS):
            energy[:, 1:-1, 1:-1] += cells[..., direction] ** 2
        around = sum(energy[:, i : i + n_cells, j : j + n_cells] for i in range(3) for j in range(3))
        cells /= np.sqrt(around + self._LEAST**2)[..., np.newaxis]
        features: FloatArray = np.sqrt(cells.reshape(len(rows), -1))
        width = features.shape[1]
        # Roots of shares are at most 1, and their mean is that of integers.
        features -= on_grid(features, math.sqrt(width)).products(_average(width))
        features /= np.maximum(lengths_of(features), 1e-9)[:, np.newaxis]
        return features

    def _cells(self, images: FloatArray) -> FloatArray:
        """Return the directions of each cell, (images, cells, cells, bins)."""
        across, down = np.zeros_like(images), np.zeros_like(images)
        across[:, :, 1:-1] = images[:, :, 2:] - images[:, :, :-2]
        down[:, 1:-1] = images[:, 2:] - images[:, :-2]
        strength = np.hypot(across, down)
        angle = np.mod(np.arctan2(down, across), np.pi) * (self._BINS / np.pi)
        lower = np.floor(angle)
        share, first = angle - lower, lower.astype(np.int64) % self._BINS
        side, n_cells = images.shape[1], images.shape[1] // self._CELL
        # Pixels beyond the last whole cell belong to it.
        cell_of_pixel = np.minimum(np.arange(side) // self._CELL, n_cells - 1)
        cell = (cell_of_pixel[:, np.newaxis] * n_cells + cell_of_pixel) * self._BINS
        start = np.arange(len(images))[:, np.newaxis, np.newaxis] * (n_cells**2 * self._BINS) + cell
        size = len(images) * n_cells**2 * self._BINS
        counts = np.zeros(size)
        counts += np.bincount((start + first).ravel(), (strength * (1 - share)).ravel(), minlength=size)
        counts += np.bincount((start + (first + 1) % self._BINS).ravel(), (strength * share).ravel(), minlength=size)
        return counts.reshape(len(images), n_cells, n_cells, self._BINS)


@functools.lru_cache(maxsize=8)
def _average(width: int) -> PublicColumns:
    """Return the public column whose product with a row is the row's mean."""
    return PublicColumns(np.full(width, 1 / width))


class MappedTile(Tile):
    """Tile whose rows are features."""


def mapped_tile(tile: Tile, features: str) -> MappedTile:
    """Return the features of the rows of a tile, on the grid, at most 1 long."""
    rows = feature_map(features).mapped(tile.rows.values)
    moved, _, _ = into_balls(rows, (rows.shape[1],), (1.0,))
    return MappedTile(moved, tile.factors, tile.targets, tile.codes)


_Tiles: TypeAlias = list[tuple[Tile, BoolArray | None]]
# Features of the records of a site, for the next round: (name of the map, tiles with their invalid records).
_KEPT: WeakKeyDictionary[object, tuple[str, _Tiles]] = WeakKeyDictionary()


class MappedRecords:
    """Records whose tiles have features; kept for the next round where they are not too many."""

    def __init__(self, records: TiledRecords, features: str) -> None:
        self._records, self._features = records, features

    def tiles(self) -> Iterator[tuple[Tile, BoolArray | None]]:
        """Return an iterator over tiles, and which of their records are dropped."""
        stored = _KEPT.get(self._records)
        if stored is not None and stored[0] == self._features:
            yield from stored[1]
            return
        tiles: _Tiles | None = []
        n_kept = 0
        for tile, gone in self._records.tiles():
            mapped = mapped_tile(tile, self._features)
            n_kept += mapped.rows.ints.size
            if n_kept > _MOST_KEPT:
                tiles = None
            if tiles is not None:
                tiles.append((mapped, gone))
            yield mapped, gone
        if tiles is not None:
            _KEPT[self._records] = (self._features, tiles)


def with_features(records: TiledRecords, features: str) -> MappedRecords:
    """Return records seen through the feature map of this name."""
    return MappedRecords(records, features)
