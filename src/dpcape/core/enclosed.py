"""Statistics of other packages, enclosed so that a bound on their sensitivity holds whatever their code computes.

Clipping what such code returns for each record is not enough: code that sees a block of records can return one record
as everybody's contribution. :class:`Sampled` therefore takes one clipped contribution per block (sample and
aggregate; Nissim, Raskhodnikova and Smith 2007). :class:`RecordByRecord` takes one per record and rests on an
assumption that each site's steward must accept.

What is here runs in the sandboxed child of a site and, for the same sums, in the process of a researcher.
"""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Protocol, TypeAlias, cast, runtime_checkable

import msgspec
import numpy as np
from numpy.typing import NDArray

from dpcape.core.arrays import BoolArray, FloatArray
from dpcape.core.errors import InvalidParameter, UtilityWarning
from dpcape.core.extent import Extent, rounding_one_by_one
from dpcape.core.facts import LARGEST_BOUND, SMALLEST_BOUND, PublicFacts
from dpcape.core.grid import rows_of_views
from dpcape.core.statistic import AnyStatistic, PublicValue, Statistic, build, is_own, known
from dpcape.core.tiles import Tile, tile_of_rows, tile_rows

SAMPLED, RECORD_BY_RECORD = "sampled", "record_by_record"
WAYS = (SAMPLED, RECORD_BY_RECORD)
MAX_BLOCK, MAX_SIZE, MAX_ENTRIES = 2**20, 2**22, 2**26
LEAST_SECONDS, MOST_SECONDS = 0.02, 60.0
# Prefix of the enclosed statistic's public values in messages.
_PREFIX = "its_"

Block: TypeAlias = tuple[NDArray[Any], ...]  # type: ignore[explicit-any]  # numbers or codes
"""Clipped rows, followed by their targets where records have any."""


class Enclosure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the statistics of another package are computed at the sites; public, and part of a study.

    Attributes
    ----------
    package : str
        Distribution whose code runs.
    way : str
        "sampled" or "record_by_record".
    block : int
        Records per block.
    seconds : float
        Time after which the answer for a block counts, whatever happens.
    """

    package: str
    way: str = SAMPLED
    block: int = 1
    seconds: float = 0.25


class Contributor(Protocol):
    """Interface of what runs a statistic of another package on one block."""

    def contributions(self, statistic: Enclosed, facts: PublicFacts, block: Block) -> FloatArray | None:
        """Return one row per contribution, not yet checked or clipped; None if there is no answer."""


@runtime_checkable
class OneByOne(Protocol):
    """Interface of a statistic that applies code of others to one record at a time, faster than one call each."""

    def contributions(self, records: Any, n_rows: int) -> FloatArray:  # type: ignore[explicit-any]  # known when it runs
        """Return one row per record, NaN where there is none; ``n_rows`` is the public length of a full block."""


class HeldBlock:
    """One block of records, as a statistic of another package sees it: the interface of all records of a site."""

    def __init__(self, facts: PublicFacts, block: Block) -> None:
        self._facts = msgspec.structs.replace(facts, n_records=len(block[0]))
        self._block = block
        self.n_records, self.n_features = len(block[0]), facts.n_features
        self.kind, self.unit, self.n_invalid = facts.kind, facts.unit, 0

    def facts(self) -> PublicFacts:
        """Return the public facts, with the number of records of this block."""
        return self._facts

    def blocks(self, size: int = 1024) -> Iterator[Any]:  # type: ignore[explicit-any]  # rows, or a pair
        """Return an iterator over at most ``size`` records at a time: rows, or pairs of rows and targets."""
        for start in range(0, self.n_records, size):
            arrays = tuple(array[start : start + size] for array in self._block)
            yield arrays[0] if len(arrays) == 1 else arrays

    def tiles(self) -> Iterator[tuple[Tile, BoolArray]]:
        """Return an iterator over tiles, and which of their records are beyond the last."""
        size = tile_rows(self.n_features, self.n_records)
        for start in range(0, self.n_records, size):
            some = [array[start : start + size] for array in self._block]
            rows, targets = np.zeros((size, self.n_features)), np.zeros(size)
            rows[: len(some[0])] = some[0]
            if len(some) > 1:
                targets[: len(some[1])] = some[1]
            moved, factors, _ = rows_of_views(rows, self._facts.widths, self._facts.bounds)
            yield tile_of_rows(moved, factors, targets), np.arange(size) >= len(some[0])

    def feature_blocks(self, size: int = 1024) -> Iterator[FloatArray]:
        """Return an iterator over rows without targets."""
        return (self._block[0][start : start + size] for start in range(0, self.n_records, size))


class Enclosed(Statistic[Any, FloatArray]):  # type: ignore[explicit-any]  # records are known when it runs
    """Statistic of another package, by name; its code is not needed to build, plan or count this one."""

    kinds: ClassVar = frozenset({"rows", "views", "labelled", "subjects"})
    units: ClassVar = frozenset({"record"})

    def __init__(
        self,
        facts: PublicFacts,
        *,
        inner: str,
        package: str,
        size: int,
        radius: float,
        block: int,
        seconds: float,
        **public: PublicValue,
    ) -> None:
        _check(inner, package, size, radius, block, seconds, public)
        own: dict[str, PublicValue] = {"inner": inner, "package": package, "size": size, "radius": radius}
        super().__init__(facts, **own, block=block, seconds=seconds, **public)
        self.enclosure = Enclosure(package=package, way=self.name, block=block, seconds=float(seconds))
        self.inner = inner
        self.inner_public = {name.removeprefix(_PREFIX): value for name, value in public.items()}

    @property
    def numbers(self) -> Mapping[str, float]:
        """Length of the vector, radius to which contributions are clipped, and records per block."""
        return {name: cast(float, self.public[name]) for name in ("size", "radius", "block")}

    @property
    def assumption(self) -> str:
        """Unproved assumptions behind the guarantee, in words."""
        return assumption_of(self.enclosure, self.inner)

    @abstractmethod
    def computed_by(self, code: AnyStatistic, facts: PublicFacts, block: Block) -> FloatArray:
        """Return what the code of the other package computes for a block, one row per contribution."""

    @abstractmethod
    def n_answers(self, n_records: int) -> int:
        """Return how many contributions a block of ``n_records`` records has."""

    def total(self, records: Any) -> FloatArray:  # type: ignore[explicit-any]  # known when it runs
        """Return the packed sum, computed by code that is loaded in this process."""
        return self.counted_total(records, IN_THIS_PROCESS)[0]

    def counted_total(self, records: Any, contributor: Contributor) -> tuple[FloatArray, int]:  # type: ignore[explicit-any]  # known when it runs
        """Return the packed sum, and how many records are in it: valid ones for which there was an answer.

        Blocks follow from positions, so that replacing a record changes one block, and each takes its fixed time even
        if none of its records is valid.
        """
        total, n_counted = np.zeros(self.size), 0
        for arrays in records.all_blocks(self.enclosure.block):
            block = tuple(array.copy() for array in (arrays if isinstance(arrays, tuple) else (arrays,)))
            answers = contributor.contributions(self, records.facts(), block)
            contribution, n_answered = self._contribution(answers, len(block[0]))
            total += contribution
            n_counted += n_answered
        return total, n_counted

    def _contribution(self, answers: FloatArray | None, n_records: int) -> tuple[FloatArray, int]:
        """Return what a block adds to the total, and the number of records it counts."""
        n_answers = self.n_answers(n_records)
        if answers is None or n_records == 0 or answers.shape != (n_answers, self.size):
            return np.zeros(self.size), 0
        finite = np.isfinite(answers).all(axis=1)
        weight = n_records // n_answers
        contribution: FloatArray = weight * clipped(answers[finite], self.radius).sum(axis=0)
        return contribution, weight * int(finite.sum())


@known
class Sampled(Enclosed):
    """Mean over blocks of one clipped vector per block, whatever the code that computes it does.

    Privacy
    -------
    Let the records be divided by position into blocks of at most m, and v_b be the number of valid records of block b.
    A block contributes v_b (g_b, w), where g_b is what the code returned, clipped to length c, and w the weight with
    which valid records are counted; it contributes zero if there is no answer or one that is not finite. The code saw
    block b alone: it ran in a child that was started for it, and ended before the next. So replacing one record
    changes the contribution of one block, from v (g, w) to v' (g', w') with |g|, |g'| <= c and v, v' <= m. Three cases:

    * both answered and v = v': the distance is at most v |g - g'| <= 2 c m;
    * both answered and v' = v - 1 (one record became invalid): at most sqrt((c (2 v - 1))^2 + w^2), which is at most
      2 c m if w^2 <= c^2 (4 m - 1), in particular if w <= sqrt(3) c;
    * one did not answer: at most v sqrt(c^2 + w^2) <= 2 c m if w <= sqrt(3) c.

    ``Extent.count_weight`` is at most the radius, which is c here. The diameter is thus 2 c m, for any code and any
    state it may have, timing aside. With an honest statistic whose contributions have length at most c, block means are
    never clipped, and the total is the sum over records.
    """

    name: ClassVar = SAMPLED

    @staticmethod
    def extent(*, size: float, radius: float, block: float) -> Extent:
        """Return the extent for vectors of this size and blocks of ``block`` records."""
        return Extent(size, 2 * radius * block, radius, rounding_one_by_one(radius))

    def n_answers(self, n_records: int) -> int:
        """Return 1: one contribution per block."""
        return 1

    def computed_by(self, code: AnyStatistic, facts: PublicFacts, block: Block) -> FloatArray:
        """Return the mean over the block, as the code computes it."""
        return _total_of(code, facts, block, self.size)[np.newaxis] / len(block[0])


@known
class RecordByRecord(Enclosed):
    """Mean over records of what the code of another package returns for each of them, clipped.

    Privacy
    -------
    A record contributes (g, w) with |g| <= c, or zero if the code returned nothing finite for it. If the code treats
    each record by itself, and no record makes it crash or exceed the time of its block, replacing one record changes
    one contribution: by at most 2 c, or sqrt(c^2 + w^2) <= 2 c where one of the two is zero, since w <= c. Neither the
    author's diameter nor the author's radius is relied on. The assumption is not enforced: each site's steward must
    accept it, and the guarantee is conditional on it.
    """

    name: ClassVar = RECORD_BY_RECORD

    @staticmethod
    def extent(*, size: float, radius: float, block: float) -> Extent:
        """Return the extent for vectors of this size; it does not depend on the blocks."""
        return Extent(size, 2 * radius, radius, rounding_one_by_one(radius))

    def n_answers(self, n_records: int) -> int:
        """Return the number of records: one contribution each."""
        return n_records

    def computed_by(self, code: AnyStatistic, facts: PublicFacts, block: Block) -> FloatArray:
        """Return each record's contribution, as the code computes it; NaN where it fails.

        A statistic of dpcape that applies code of others to single records by itself is given all of them together.
        """
        if isinstance(code, OneByOne) and is_own(type(code)):
            return code.contributions(HeldBlock(facts, block), self.enclosure.block)
        rows = np.full((len(block[0]), self.size), np.nan)
        for at in range(len(rows)):
            try:
                rows[at] = _total_of(code, facts, tuple(array[at : at + 1] for array in block), self.size)
            except Exception:  # one record's failure must not change what others contribute
                continue
        return rows


class InThisProcess:
    """Runs code that this process has loaded: for researchers on their own machine, rehearsals and tests."""

    def contributions(self, statistic: Enclosed, facts: PublicFacts, block: Block) -> FloatArray | None:
        """Return one row per contribution; a failure is a warning, and no answer."""
        code = build(statistic.inner, facts.shape_facts(), statistic.inner_public)
        if not len(block[0]):
            return None
        try:
            return statistic.computed_by(code, facts, block)
        except Exception as error:
            warnings.warn(
                f"The statistic {statistic.inner!r} failed on a block of records ({type(error).__name__}: {error}); "
                "the block contributes zero. At a site this text would not be shown.",
                UtilityWarning,
                stacklevel=2,
            )
            return None


IN_THIS_PROCESS = InThisProcess()


def enclosed_statistic(statistic: AnyStatistic, enclosure: Enclosure) -> Enclosed:
    """Return a statistic of another package in its enclosure; contributions are clipped to the radius it states."""
    kind = Sampled if enclosure.way == SAMPLED else RecordByRecord
    public = {f"{_PREFIX}{name}": value for name, value in statistic.public.items()}
    return kind(
        statistic.facts,
        inner=statistic.name,
        package=enclosure.package,
        size=statistic.size,
        radius=statistic.radius,
        block=enclosure.block,
        seconds=enclosure.seconds,
        **public,
    )


def assumption_of(enclosure: Enclosure, inner: str) -> str:
    """Return what a guarantee rests on if a statistic of another package is computed in this way, in words."""
    whose = f"the code of the package {enclosure.package!r} that computes the statistic {inner!r}"
    if enclosure.way == RECORD_BY_RECORD:
        return (
            f"{whose} treats each record by itself, and no record makes it crash or exceed the time of its block "
            f"({enclosure.block} records, {enclosure.seconds:g} s)"
        )
    return (
        f"{whose} is given one block of {enclosure.block} records at a time ({enclosure.seconds:g} s each) and learns "
        "nothing of other blocks: a site behind a vault enforces this, timing aside; a run in one process does not"
    )


def clipped(rows: FloatArray, radius: float) -> FloatArray:
    """Return finite rows, scaled down where longer than ``radius``; no exact length exceeds it.

    Entries are divided by the largest first, so that nothing overflows. Lengths are computed to within
    (size / 2 + 8) units of roundoff, of which the target leaves out 2 (size + 16).
    """
    if not rows.size:
        return rows
    target = radius * (1 - (rows.shape[1] + 16) * 2.0**-52)
    largest = np.abs(rows).max(axis=1, keepdims=True)
    scaled = rows / np.where(largest > 0, largest, 1.0)
    norms = np.linalg.norm(scaled, axis=1, keepdims=True)
    with np.errstate(over="ignore"):
        is_long = largest * norms > target
    shortened = scaled * (target / np.where(norms > 0, norms, 1.0))
    return np.where(is_long, shortened, rows)


def _total_of(code: AnyStatistic, facts: PublicFacts, block: Block, size: int) -> FloatArray:
    total = np.asarray(code.total(HeldBlock(facts, block)), dtype=np.float64)
    if total.shape != (size,):
        raise InvalidParameter("a total", f"be a vector of {size} numbers", f"shape {total.shape}")
    return total


def _check(
    inner: object,
    package: object,
    size: object,
    radius: object,
    block: object,
    seconds: object,
    public: Mapping[str, PublicValue],
) -> None:
    """Refuse values that no enclosure has: they come from a message."""
    if not all(isinstance(name, str) and 0 < len(name) <= 200 for name in (inner, package)):
        must = "be names of 1 to 200 characters"
        remedy = "Use the same dpcape everywhere."
        raise InvalidParameter("an enclosed statistic and its package", must, "others", remedy)
    for name, value, most in (("size", size, MAX_SIZE), ("block", block, MAX_BLOCK)):
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise InvalidParameter(name, f"be a whole number from 1 to {most}", repr(value))
    if cast(int, size) * cast(int, block) > MAX_ENTRIES:
        raise InvalidParameter("block times size", f"be at most {MAX_ENTRIES}", "more", "Use smaller blocks.")
    if not isinstance(radius, float | int) or not SMALLEST_BOUND <= radius <= LARGEST_BOUND:
        raise InvalidParameter("radius", f"be from {SMALLEST_BOUND:g} to {LARGEST_BOUND:g}", repr(radius))
    is_number = isinstance(seconds, float | int) and math.isfinite(seconds)
    if not is_number or not LEAST_SECONDS <= cast(float, seconds) <= MOST_SECONDS:
        raise InvalidParameter("seconds", f"be from {LEAST_SECONDS:g} to {MOST_SECONDS:g}", repr(seconds))
    if not all(name.startswith(_PREFIX) for name in public):
        raise InvalidParameter("Public values of an enclosed statistic", f"start with {_PREFIX!r}", sorted(public))
