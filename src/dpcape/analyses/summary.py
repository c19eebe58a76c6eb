"""Description of summaries: counts, shares, quantiles, means and standard deviations, by group (Table 1)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpcape.analyses.description import COMPONENTS, LAW, RADIUS, Analysis, AuditCase, Noise, Public, Variant
from dpcape.analyses.footprint import of_vectors
from dpcape.analyses.mean import CONFIDENCE
from dpcape.analyses.parameters import OTHER, WHOLE, Parameter, is_number, shown
from dpcape.analyses.release import Release, Steps
from dpcape.core.errors import InvalidParameter
from dpcape.core.facts import PublicColumn, PublicFacts
from dpcape.statistics.cells import CATEGORY
from dpcape.statistics.grouped_counts import MOST_BINS, n_groups_of, numbers_of, planned_numbers

QUARTILES = (0.25, 0.5, 0.75)
# (records times mu over the norm of the weights, bins): above the first number, ranges have this many bins.
_FINER = ((1000, 256), (400, 128), (200, 64))
_COARSE = 32


def names_of(value: object, name: str) -> tuple[str, ...]:
    """Return names of columns: one, several or none."""
    if value is None:
        return ()
    entries = (value,) if isinstance(value, str) else value
    if isinstance(entries, list | tuple | np.ndarray) and all(isinstance(entry, str) for entry in entries):
        names = tuple(str(entry) for entry in entries)
        if len(set(names)) == len(names):
            return names
    raise InvalidParameter(name, "be a list of different column names", shown(value))


def positions_of(facts: PublicFacts, value: object, parameter: str) -> list[int]:
    """Return the positions of the columns that a parameter names."""
    position_of = {column.name: at for at, column in enumerate(facts.columns)}
    names = names_of(value, parameter)
    for name in names:
        if name not in position_of:
            remedy = f"Choose from {', '.join(position_of)}."
            raise InvalidParameter(parameter, "name columns of the table", repr(name), remedy)
    return [position_of[name] for name in names]


def chosen_columns(facts: PublicFacts, by: object, columns: object) -> tuple[list[int], list[int]]:
    """Return the positions of the columns that are summarised, and of those that form groups."""
    groups = positions_of(facts, by, "by")
    for at in groups:
        if facts.columns[at].kind != CATEGORY:
            must, remedy = "name columns with public levels", "Declare levels for it."
            raise InvalidParameter("by", must, f"{facts.columns[at].name!r}, a {facts.columns[at].kind}", remedy)
    refuse_level_names(facts, groups)
    others = [at for at in range(len(facts.columns)) if at not in groups]
    chosen = positions_of(facts, columns, "columns") or others
    if not chosen or set(chosen) & set(groups):
        raise InvalidParameter(
            "columns", "name at least one column, and no column that is in by", shown(columns), "Choose others."
        )
    return chosen, groups


def refuse_level_names(facts: PublicFacts, groups: Sequence[int]) -> None:
    """Refuse levels with the names of entries that the table adds itself."""
    for at, column in enumerate(facts.columns):
        for taken in ("missing", "all") if at in groups else ("missing",):
            if taken in column.levels:
                must = f"not be called {taken!r}, which the table adds itself"
                remedy = "Rename the level, or leave it out: missing values are counted anyway."
                raise InvalidParameter(f"Levels of column {column.name!r}", must, list(column.levels), remedy)


def checked_quantiles(value: object) -> tuple[float, ...]:
    """Return different quantiles between 0 and 1, in order."""
    entries = list(value) if isinstance(value, list | tuple | np.ndarray) else [value]
    numbers = [float(entry) for entry in entries if is_number(entry)]
    if not entries or len(numbers) != len(entries) or not all(0 < q < 1 for q in numbers) or len(entries) > 99:
        remedy = "Try (0.25, 0.5, 0.75)."
        raise InvalidParameter("quantiles", "be numbers strictly between 0 and 1", shown(value), remedy)
    return tuple(sorted(set(numbers)))


def weights_of(value: object, n_columns: int) -> list[float]:
    """Return the weight of every summarised column."""
    if value is None:
        return [1.0] * n_columns
    entries = list(value) if isinstance(value, list | tuple | np.ndarray) else []
    if len(entries) != n_columns or not all(is_number(entry) and 1e-3 <= float(entry) <= 1e3 for entry in entries):
        must = f"be {n_columns} numbers from 0.001 to 1000, one per summarised column"
        raise InvalidParameter("weights", must, shown(value), "A column of twice the weight has half the noise.")
    return [float(entry) for entry in entries]


def n_bins_of(bins: float | None, n_records: float, mu: float, length: float) -> float:
    """Return the number of bins of a range: as given, or more the less noise there is."""
    if bins is not None:
        return bins
    return next((finer for least, finer in _FINER if n_records * mu > least * length), _COARSE)


def _schedule(p: Public) -> Steps:
    if p.facts is None or not p.facts.columns:
        length = math.sqrt(p.n_features)
        bins = n_bins_of(p.bins, p.n_records, p.mu, length)
        yield Release("grouped_counts", planned_numbers(p.n_features, p.n_groups, bins))
        return
    columns, groups = chosen_columns(p.facts, p.by, p.columns)
    weights = np.array(weights_of(p.weights, len(columns)))
    described: Sequence[PublicColumn] = p.facts.columns
    counted, by = [described[at] for at in columns], [described[at] for at in groups]
    bins = n_bins_of(p.bins, p.n_records, p.mu, math.hypot(*weights))
    yield Release("grouped_counts", numbers_of(by, counted, weights, int(bins)))


def _refuse_by(value: object, p: Public) -> None:
    names_of(value, "by")
    if p.facts is not None and p.facts.columns:
        chosen_columns(p.facts, value, p.columns)


def _refuse_weights(value: object, p: Public) -> None:
    if value is not None and p.facts is not None and p.facts.columns:
        weights_of(value, len(chosen_columns(p.facts, p.by, p.columns)[0]))


def _noise(p: Public, scales: Sequence[float]) -> float:
    """Return the noise of one count: a cell's row is 1/sqrt(2) long, so a count has sqrt(2) times the noise."""
    n_groups: float = p.n_groups
    if p.facts is not None and p.facts.columns:
        n_groups = n_groups_of([p.facts.columns[at] for at in chosen_columns(p.facts, p.by, None)[1]])
    return math.sqrt(2) * scales[0] * n_groups


NOISE_OF_COUNTS = Noise(
    "noise of the count of a level, against the records of a group (groups of equal size)", _noise, "share"
)


SUMMARY = Analysis(
    name="summary",
    estimator="dpcape.estimators.summary:Summary",
    group=COMPONENTS,
    place=0,
    kinds=frozenset({"table"}),
    records="table",
    parameters=(
        Parameter("by", OTHER, None, optional=True, refuse=_refuse_by),
        Parameter("columns", OTHER, None, optional=True, refuse=lambda value, public: names_of(value, "columns")),
        Parameter("quantiles", OTHER, QUARTILES, refuse=lambda value, public: checked_quantiles(value)),
        Parameter(
            "bins", WHOLE, None, 2, MOST_BINS, optional=True, title="Bins of a range", left_out="by size and noise"
        ),
        Parameter("weights", OTHER, None, optional=True, refuse=_refuse_weights),
        CONFIDENCE,
    ),
    facts=(Parameter("n_groups", WHOLE, 1, 1, 10_000, planned=3, title="Groups, missing included"),),
    derived=lambda parameters: {"n_groups": parameters.get("n_groups", 1)},
    schedule=_schedule,
    results=of_vectors(80),
    variants=(Variant("summary", "Summary (Table 1)", ("n_groups",), yardstick=RADIUS),),
    measure=NOISE_OF_COUNTS,
    audit=(
        AuditCase("summary", {"by": ("group",), "bins": 4}, "table", 4),
        AuditCase("summary-without-groups", {"bins": 8, "columns": ("first", "third")}, "table", 4),
    ),
    law=LAW,
    reason="the diameter of counts by group and cell is proved at GroupedCounts",
    reference="docs/analyses/summary.md#privacy",
)
