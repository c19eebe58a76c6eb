"""The law of the kernel: what a record contributes is the same integers wherever it stands, and sums are exact.

*Integers*: totals alone, in pairs, in blocks, permuted, in parts and beside invalid records are sums of what records
are alone. *Raw*: what ``terms`` gives for one record is the same bits in tiles of 1 to 257 records, at several places,
beside others and beside zeros. Both are tried at ties, found by bisection: only there does a last bit matter.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpcape.core.contributions import Form, WordSum
from dpcape.core.errors import DpcapeError
from dpcape.core.grid import GridRows, PublicColumns
from dpcape.core.kernel import PartSums, Summed, exact_sums_of, joined
from dpcape.core.statistic import build
from dpcape.core.tiles import Tile
from dpcape.core.word_counts import WordCounts
from dpcape.statistics.word_moments import PublicTriples

from .statistic_case import Case
from .wide import MISSING

Vector = NDArray[np.float64]
Integers = NDArray[np.object_]

CONTEXTS = ((1, 0), (2, 0), (2, 1), (3, 1), (8, 0), (8, 7), (40, 21), (257, 256))
"""Sizes of tiles, and places in them."""


def is_summed(case: Case) -> bool:
    return isinstance(case.statistic(), Summed) and case.statistic().facts.unit == "record"


def integers(case: Case, units: Vector) -> Integers:
    """Return the exact sums of all forms."""
    return flat(exact_sums_of(case._built, case.records(np.atleast_2d(units))))


def flat(sums: Any) -> Integers:
    """Return exact sums as Python integers, one after another."""
    return np.array([whole for entry in sums for whole in entry.integers()], dtype=object)


def in_parts(case: Case, parts: list[Vector]) -> Integers:
    """Return the exact sums that a cluster computes, each part in the hands of another worker."""
    task = pickle.dumps(PartSums.of(case._built))
    return flat(joined(pickle.loads(pickle.dumps(pickle.loads(task)(case.records(part)))) for part in parts))


# Raw ------------------------------------------------------------------------------------------------------------------


def tile_of(case: Case, units: Vector) -> Tile:
    """Return all units in one tile, without what it is filled up with."""
    tile, _ = next(iter(case.records(np.atleast_2d(units)).tiles()))
    return _chosen(tile, np.arange(len(np.atleast_2d(units))))


def raw(statistic: Summed, tile: Tile, at: int) -> bytes:
    """Return the bits of what one record of a tile contributes, and of what was computed before it was on a grid."""
    with _noted() as floats, np.errstate(all="ignore"):
        forms = statistic.terms(tile)
    arrays = [array for form in forms for array in _arrays(form)]
    # Some arrays have records in their second dimension; what is of some records only is among the others.
    by_record = [array if len(array) == tile.n_records else array.T for array in (*floats, *arrays) if array.ndim]
    by_record = [array for array in by_record if len(array) == tile.n_records]
    return b"".join(np.ascontiguousarray(array[at]).tobytes() for array in by_record)


@contextmanager
def _noted() -> Iterator[list[Vector]]:
    """Note numbers before they are rounded to integers: after it, a last bit shows once in 10^10 records."""
    noted: list[Vector] = []
    rint = np.rint

    def noting(values: Any, *arguments: Any, **options: Any) -> Any:
        # Which rows are shortened together depends on the tile; what they were before is noted.
        # What words of documents have is noted with their forms, and public numbers are the same for all.
        caller = sys._getframe(1)
        of_others = isinstance(caller.f_locals.get("self"), WordSum | WordCounts | PublicTriples | PublicColumns)
        if not of_others and caller.f_code.co_name not in ("_shorten", "lengths_of", "_close_lengths_of"):
            noted.append(np.array(values, dtype=np.float64))
        return rint(values, *arguments, **options)

    np.rint = noting  # type: ignore[assignment]  # for a moment
    try:
        yield noted
    finally:
        np.rint = rint


def raw_differs(case: Case, units: Vector, mates: Vector, statistic: Summed | None = None) -> list[str]:
    """Return where the bits of what units contribute depend on the tile."""
    found = []
    statistic = case._built if statistic is None else statistic
    alone, others = tile_of(case, units), tile_of(case, mates)
    zeros = _chosen(others, np.zeros(0, dtype=np.intp))
    for unit in range(len(units)):
        seen = {
            raw(statistic, _tile(alone, unit, beside, size, at), at)
            for size, at in CONTEXTS
            for beside in (others, zeros)
        }
        if len(seen) > 1:
            found.append(f"unit {unit}: {len(seen)} different contributions")
    return found


def _arrays(form: Form) -> Iterator[NDArray[Any]]:
    for value in vars(form).values():
        if isinstance(value, GridRows):
            yield value.ints
        elif isinstance(value, np.ndarray):
            # A number for each word of a document is written into a row for it.
            yield form.of.filled(value) if isinstance(form, WordSum) else value
        elif hasattr(value, "added"):
            yield from _arrays(value)


def _tile(alone: Tile, unit: int, mates: Tile, size: int, at: int) -> Tile:
    """Return a tile of this size with a unit at a place and others, or zeros, around it."""
    n_mates = mates.n_records
    order = np.resize(np.arange(max(1, n_mates)), size)

    def placed(of_unit: Vector, of_mates: Vector, empty: float) -> Vector:
        body = np.full((size, *of_unit.shape[1:]), empty, order="F" if alone.codes.shape[1] else "C")
        if n_mates:
            body[:] = of_mates[order]
        body[at] = of_unit[unit]
        return body

    return Tile(
        alone.rows.alike(placed(alone.rows.finest[0], mates.rows.finest[0], 0.0)),
        placed(alone.factors, mates.factors, 1.0),
        placed(alone.targets, mates.targets, 0.0),
        placed(alone.codes, mates.codes, 0.0),
        counts=WordCounts(csr_array(placed(alone.counts.matrix.toarray(), mates.counts.matrix.toarray(), 0.0)))
        if len(alone.counts)
        else alone.counts,
    )


def _chosen(tile: Tile, which: NDArray[np.intp]) -> Tile:
    rows = tile.rows.alike(tile.rows.finest[0][which])
    counts = tile.counts.chosen(which) if len(tile.counts) else tile.counts
    return Tile(rows, tile.factors[which], tile.targets[which], tile.codes[which], counts=counts)


# Ties -----------------------------------------------------------------------------------------------------------------


def ties(case: Case, n_tries: int) -> Vector:
    """Return units on both sides of jumps, as near to each other as numbers are; none where nothing jumps."""
    draw = np.random.default_rng(7)
    found: list[Vector] = []
    least = 1e-3 * case.statistic().diameter
    for at in range(n_tries):
        start, end = draw.normal(scale=(0.1, 0.4, 1.5)[at % 3], size=(2, case.n_parameters))

        def unit(part: float, start: Vector = start, end: Vector = end) -> Vector:
            return start + part * (end - start)

        parts = list(np.linspace(0, 1, 9))
        totals = [case.total(unit(part)) for part in parts]
        moves = np.linalg.norm(np.diff(totals, axis=0), axis=1)
        farthest = int(np.argmax(moves))
        (low, high), (left, right) = parts[farthest : farthest + 2], totals[farthest : farthest + 2]
        while np.linalg.norm(right - left) > least:
            middle = (low + high) / 2
            if not low < middle < high:
                found += [unit(low), unit(high)]
                break
            total = case.total(unit(middle))
            if np.linalg.norm(total - left) > np.linalg.norm(right - total):
                high, right = middle, total
            else:
                low, left = middle, total
    return np.array(found).reshape(-1, case.n_parameters)


def public_ties(case: Case, n_tries: int) -> Iterator[tuple[Summed, Vector]]:
    """Yield statistics, and units that jump between two of them whose public numbers are neighbours.

    Rows are on a grid, so a record cannot come as near to a jump as public numbers can.
    """
    draw = np.random.default_rng(11)
    names = [name for name, value in case.public.items() if isinstance(value, np.ndarray) and value.dtype.kind == "f"]
    least = 1e-3 * case.statistic().diameter
    for at in range(n_tries * len(names)):
        name, unit = names[at % len(names)], draw.normal(scale=(0.1, 0.4, 1.5)[at % 3], size=(1, case.n_parameters))
        records, start = case.records(unit), np.asarray(case.public[name])
        end = start * np.exp(draw.normal(scale=0.5, size=start.shape)) + draw.normal(scale=0.1) * (at % 2)

        def made(part: float, name: str = name, start: Vector = start, end: Vector = end) -> Summed:
            changed = {**case.public, name: start + part * (end - start)}
            return build(case.name, case._built.facts, changed)  # type: ignore[return-value]  # summed, as the case is

        try:
            parts = list(np.linspace(0, 1, 9))
            totals = [made(part).total(records) for part in parts]
        except DpcapeError:
            continue
        farthest = int(np.argmax(np.linalg.norm(np.diff(totals, axis=0), axis=1)))
        (low, high), (left, right) = parts[farthest : farthest + 2], totals[farthest : farthest + 2]
        while np.linalg.norm(right - left) > least:
            middle = (low + high) / 2
            if not low < middle < high:
                yield made(low), unit
                yield made(high), unit
                break
            total = made(middle).total(records)
            if np.linalg.norm(total - left) > np.linalg.norm(right - total):
                high, right = middle, total
            else:
                low, left = middle, total


def spoiled(case: Case, units: Vector, places: slice | int) -> Vector:
    """Return units of which some contribute nothing."""
    left_out = units.copy()
    left_out[places] = MISSING if case.statistic().facts.kind == "table" else np.nan
    return left_out


def compositions(case: Case, units: Vector) -> Iterator[tuple[str, Vector, NDArray[np.intp]]]:
    """Yield blocks, and the positions among ``units`` of those in them that are not left out."""
    every = np.arange(len(units))
    for at in range(0, len(units), 3):
        yield "pairs", units[[at, at - 1]], np.array([at, at - 1])
    for size in (3, 8, 9, len(units)):
        yield "blocks", units[:size], every[:size]
    yield "permuted", units[::-1], every[::-1]
    for first in (0, 1):
        yield "invalid", spoiled(case, units, slice(first, None, 2)), every[1 - first :: 2]
    for at in range(1, len(units), 3):
        yield "invalid", spoiled(case, units[[at, at - 1]], 1), np.array([at])
    full = np.resize(every, 1026)
    yield "many", units[full], full
    yield "many", spoiled(case, units[full], 1024), np.delete(full, 1024)


def broken(case: Case, n_tries: int) -> tuple[int, list[str]]:
    """Return the number of jumps that were found, and where the law does not hold."""
    at_jumps = ties(case, n_tries)
    others = np.random.default_rng(5).normal(scale=0.4, size=(9, case.n_parameters))
    units = np.vstack([at_jumps, others])
    alone = np.array([integers(case, unit) for unit in units])
    # Where missing values are counted, what is left out contributes too.
    left_out = integers(case, spoiled(case, units[:1], 0))
    found = []
    for what, block, kept in compositions(case, units):
        expected = alone[kept].sum(axis=0) + (len(block) - len(kept)) * left_out
        if (integers(case, block) != expected).any():
            found.append(f"{what} of {len(block)}")
    if (in_parts(case, np.array_split(units, (1, 4, 5))) != alone.sum(axis=0)).any():
        found.append("parts")
    found += raw_differs(case, units[: min(len(units), 24)], others)
    n_jumps = len(at_jumps)
    for statistic, unit in public_ties(case, n_tries):
        n_jumps += 1
        found += raw_differs(case, unit, others, statistic)
    return n_jumps // 2, found
