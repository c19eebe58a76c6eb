"""Designs of adjusted contrasts: columns of a table as numbers, and the site or scanner each record belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dpcape.core.arrays import BoolArray, FloatArray, IntArray
from dpcape.core.errors import InvalidParameter
from dpcape.core.facts import PublicColumn, PublicFacts
from dpcape.statistics.cells import CATEGORY, codes_of, taken

NO_SITE = -1
"""Position of the column of sites where there is none: all records are then one site."""

_LARGEST = 1e100


class DesignRows(NamedTuple):
    """The records of a tile; what is missing is not a number.

    Attributes
    ----------
    design : (N, width) array
        Contrast and covariates as numbers, stored column by column.
    sites : (N,) array of int
        Site of each record; the number of sites where it is missing.
    outcomes : (N, V) array
        Outcomes as places in their ranges, from -1 to 1, stored column by column.
    incomplete : (N,) array of bool
        Whether a value is missing.
    """

    design: FloatArray
    sites: IntArray
    outcomes: FloatArray
    incomplete: BoolArray


class TableDesign:
    r"""Public columns that a contrast, its covariates, the site and the outcomes are read from.

    A number is its place in its range, from -1 to 1. A category of two levels is -1 or 1; one of L levels is L - 1
    numbers, of which at most one is 1 and the others are 0. So each column of the design has a length of at most 1,
    and a row of the design is at most :math:`\sqrt{n}` long for n columns: everything is moved into its range here
    too, so this holds for any tile. A record with a missing value in one of these columns is incomplete.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of a table.
    outcomes : (V,) array of int
        Positions of the outcomes, all numbers or dates.
    design : array of int
        Positions of the contrast and the covariates.
    site : int
        Position of the column with the sites, a category; NO_SITE if there is none.
    """

    def __init__(self, facts: PublicFacts, outcomes: IntArray, design: IntArray, site: int) -> None:
        self._outcomes = checked_positions(facts, outcomes, "outcomes")
        self._design = checked_positions(facts, design, "design")
        named = [*self._outcomes, *self._design, *([] if site == NO_SITE else [site])]
        if isinstance(site, bool) or not isinstance(site, int | np.integer) or not NO_SITE <= site < len(facts.columns):
            raise InvalidParameter("site", f"be the position of a column, or {NO_SITE}", repr(site))
        if len(set(named)) != len(named):
            raise InvalidParameter("outcomes, design and site", "be different columns", f"positions {named}")
        self._site, self._columns = int(site), facts.columns
        if any(facts.columns[at].kind == CATEGORY for at in self._outcomes):
            raise InvalidParameter("outcomes", "be numbers or dates", "a category", "Choose other columns.")
        if site != NO_SITE and facts.columns[site].kind != CATEGORY:
            raise InvalidParameter("site", "be a category", "a number", "Declare levels for it.")
        self.width = design_width([facts.columns[at] for at in self._design])
        self.n_columns, self.n_outcomes = len(self._design), len(self._outcomes)
        self.n_sites = 1 if site == NO_SITE else len(facts.columns[site].levels)

    def rows(self, codes: FloatArray) -> DesignRows:
        """Return the records of a tile."""
        outcomes = np.clip(codes[:, taken(self._outcomes)], -1.0, 1.0)
        sites, incomplete = sites_in(codes, self._site, self.n_sites)
        incomplete |= np.isnan(outcomes).any(axis=1)
        design = np.empty((len(codes), self.width), order="F")
        end = 0
        for at in self._design:
            first, end = end, end + _n_numbers(self._columns[at])
            _fill(self._columns[at], codes[:, at], design[:, first:end])
            incomplete |= np.isnan(codes[:, at])
        return DesignRows(design, sites, outcomes, incomplete)


class SiteColumns:
    """Public columns of numbers that are read together with the site of a record.

    A record with a missing value in one of them is incomplete. Everything is moved into its range here too.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of a table.
    columns : (V,) array of int
        Positions of the columns, all numbers or dates.
    site : int
        Position of the column with the sites, a category; NO_SITE for all records together.
    """

    def __init__(self, facts: PublicFacts, columns: IntArray, site: int) -> None:
        self._columns = checked_positions(facts, columns, "columns")
        if isinstance(site, bool) or not isinstance(site, int | np.integer) or not NO_SITE <= site < len(facts.columns):
            raise InvalidParameter("site", f"be the position of a column, or {NO_SITE}", repr(site))
        wrong = any(facts.columns[at].kind == CATEGORY for at in self._columns)
        if wrong or len(set(self._columns)) != len(self._columns):
            raise InvalidParameter("columns", "be different numbers or dates", f"positions {self._columns}")
        if site != NO_SITE and facts.columns[site].kind != CATEGORY:
            raise InvalidParameter("site", "be a category", "a number", "Declare levels for it.")
        self._site = int(site)
        self.n_columns = len(self._columns)
        self.n_sites = 1 if site == NO_SITE else len(facts.columns[site].levels)

    def rows(self, codes: FloatArray) -> tuple[FloatArray, IntArray, BoolArray]:
        """Return the columns and the site of the records of a tile, and which of these are incomplete."""
        sites, incomplete = sites_in(codes, self._site, self.n_sites)
        rows = np.clip(codes[:, taken(self._columns)], -1.0, 1.0)
        incomplete |= np.isnan(rows).any(axis=1)
        return rows, sites, incomplete


class Standard:
    """Public numbers by which columns of numbers from -1 to 1 are standardised.

    Parameters
    ----------
    centre, scale : (K,) array
        Any finite numbers.
    """

    def __init__(self, centre: FloatArray, scale: FloatArray) -> None:
        self._centre, self._scale = centre, scale
        with np.errstate(all="ignore"):
            largest = (1 + np.abs(centre)) / np.abs(scale)
        # NaN compares false, so it counts as large. The factor of ten covers rounding.
        self._may_be_large = not bool(np.all(largest < _LARGEST / 10))

    def __call__(self, columns: FloatArray) -> FloatArray:
        """Return (columns - centre) / scale, in the same memory; what is infinite is large, and no number zero."""
        columns -= self._centre
        columns /= self._scale
        if self._may_be_large:
            np.clip(np.where(np.isnan(columns), 0.0, columns), -_LARGEST, _LARGEST, out=columns)
        return columns


def sites_in(codes: FloatArray, site: int, n_sites: int) -> tuple[IntArray, BoolArray]:
    """Return the site of every record of a tile, the number of sites where it is missing, and where that is."""
    if site == NO_SITE:
        return np.zeros(len(codes), dtype=np.intp), np.zeros(len(codes), dtype=np.bool_)
    sites = codes_of(codes[:, site], n_sites)
    return sites, sites == n_sites


def design_width(columns: Sequence[PublicColumn]) -> int:
    """Return how many numbers the columns of a design become."""
    return sum(_n_numbers(column) for column in columns)


def _n_numbers(column: PublicColumn) -> int:
    return max(len(column.levels) - 1, 1)


def _fill(column: PublicColumn, codes: FloatArray, out: FloatArray) -> None:
    """Write a column as numbers, of a length of at most 1 together."""
    if column.kind != CATEGORY:
        np.clip(codes, -1.0, 1.0, out=out[:, 0])
    elif len(column.levels) <= 2:
        # A single level carries no information: it is -1 for every record.
        out[:, 0] = np.where(codes >= 1, 1.0, -1.0)
    else:
        np.equal(codes[:, np.newaxis], np.arange(len(column.levels) - 1.0), out=out, casting="unsafe")


def checked_positions(facts: PublicFacts, positions: IntArray, name: str) -> list[int]:
    """Return positions of columns of a table; refuse anything else."""
    array = np.asarray(positions)
    checked = array.tolist() if array.ndim == 1 and array.size and array.dtype.kind in "iu" else [-1]
    if not all(0 <= at < len(facts.columns) for at in checked):
        must = f"be positions of the {len(facts.columns)} columns of a table, at least one"
        raise InvalidParameter(name, must, repr(positions))
    return [int(at) for at in checked]
