"""Designs of adjusted contrasts: columns of a table as numbers, and the site or scanner each record belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dpcape.core.arrays import FloatArray, IntArray
from dpcape.core.errors import InvalidParameter
from dpcape.core.facts import PublicColumn, PublicFacts
from dpcape.statistics.cells import CATEGORY

NO_SITE = -1
"""Position of the column of sites where there is none: all records are then one site."""


class DesignRows(NamedTuple):
    """The complete records of a block.

    Attributes
    ----------
    design : (n, width) array
        Contrast and covariates as numbers.
    sites : (n,) array of int
        Site of each record.
    outcomes : (n, V) array
        Outcomes as places in their ranges, from -1 to 1.
    """

    design: FloatArray
    sites: IntArray
    outcomes: FloatArray


class TableDesign:
    r"""Public columns that a contrast, its covariates, the site and the outcomes are read from.

    A number is its place in its range, from -1 to 1. A category of two levels is -1 or 1; one of L levels is L - 1
    numbers, of which at most one is 1 and the others are 0. So each column of the design has a length of at most 1,
    and a row of the design is at most :math:`\sqrt{n}` long for n columns: everything is moved into its range here
    too, so this holds for any block. A record with a missing value in one of these columns is left out.

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

    def rows(self, block: FloatArray) -> DesignRows:
        """Return the complete records of a block."""
        used = [*self._outcomes, *self._design, *([] if self._site == NO_SITE else [self._site])]
        complete = complete_records(block, used)
        design = np.column_stack([_numbers(self._columns[at], complete[:, at]) for at in self._design])
        sites = np.zeros(len(complete), dtype=np.intp)
        if self._site != NO_SITE:
            sites = np.clip(complete[:, self._site], 0, self.n_sites - 1).astype(np.intp)
        return DesignRows(design, sites, np.clip(complete[:, self._outcomes], -1.0, 1.0))


class SiteColumns:
    """Public columns of numbers that are read together with the site of a record.

    A record with a missing value in one of them is left out. Everything is moved into its range here too.

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
        first, after = self._columns[0], self._columns[-1] + 1
        # A slice of neighbouring columns is not copied.
        self._taken = slice(first, after) if self._columns == list(range(first, after)) else self._columns
        self._site = int(site)
        self.n_columns = len(self._columns)
        self.n_sites = 1 if site == NO_SITE else len(facts.columns[site].levels)

    def rows(self, block: FloatArray) -> tuple[FloatArray, IntArray]:
        """Return the columns and the site of the complete records of a block."""
        used = [*self._columns, *([] if self._site == NO_SITE else [self._site])]
        complete = complete_records(block, used)
        sites = np.zeros(len(complete), dtype=np.intp)
        if self._site != NO_SITE:
            sites = np.clip(complete[:, self._site], 0, self.n_sites - 1).astype(np.intp)
        return np.clip(complete[:, self._taken], -1.0, 1.0), sites


def complete_records(block: FloatArray, used: Sequence[int]) -> FloatArray:
    """Return the records of a block that have a value in each of the columns that are used; the block if all do."""
    # If most columns are used, checking all of them is faster than selecting some.
    if not np.isnan(block if 2 * len(used) >= block.shape[1] else block[:, used]).any():
        return block
    incomplete = np.isnan(block[:, used]).any(axis=1)
    return block[~incomplete] if incomplete.any() else block


def design_width(columns: Sequence[PublicColumn]) -> int:
    """Return how many numbers the columns of a design become."""
    return sum(max(len(column.levels) - 1, 1) for column in columns)


def _numbers(column: PublicColumn, codes: FloatArray) -> FloatArray:
    """Return a column as numbers, of a length of at most 1 together."""
    if column.kind != CATEGORY:
        return np.clip(codes, -1.0, 1.0)[:, np.newaxis]
    if len(column.levels) <= 2:
        # A single level carries no information: it is -1 for every record.
        return np.where(codes >= 1, 1.0, -1.0)[:, np.newaxis]
    levels = np.clip(codes, 0, len(column.levels) - 1).astype(np.intp)
    indicators: FloatArray = np.eye(len(column.levels))[levels][:, :-1]
    return indicators


def checked_positions(facts: PublicFacts, positions: IntArray, name: str) -> list[int]:
    """Return positions of columns of a table; refuse anything else."""
    array = np.asarray(positions)
    checked = array.tolist() if array.ndim == 1 and array.size and array.dtype.kind in "iu" else [-1]
    if not all(0 <= at < len(facts.columns) for at in checked):
        must = f"be positions of the {len(facts.columns)} columns of a table, at least one"
        raise InvalidParameter(name, must, repr(positions))
    return [int(at) for at in checked]
