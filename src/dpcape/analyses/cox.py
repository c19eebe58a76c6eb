"""Description of proportional hazards: Cox regression."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpcape.analyses.description import LAW, RADIUS, REGRESSIONS, Analysis, AuditCase, Noise, Public, Variant
from dpcape.analyses.footprint import directions_of_rounds
from dpcape.analyses.mean import CONFIDENCE
from dpcape.analyses.parameters import OTHER, REQUIRED, WHOLE, Parameter, shown
from dpcape.analyses.release import Release, Steps
from dpcape.analyses.summary import names_of
from dpcape.analyses.survival import EVENT, HORIZON, chosen_event, is_typed
from dpcape.core.errors import InvalidParameter
from dpcape.core.facts import PublicFacts
from dpcape.statistics.cells import CATEGORY
from dpcape.statistics.event_counts import numbers_of_events
from dpcape.statistics.table_designs import design_width

N_BINS, CROWDING = 256, 3.0
"""Bins of time in which events are counted first, and how they crowd towards the beginning, where hazards are steep."""
SHARES = (0.03, 0.07, 0.06, 0.11, 0.73)
"""Shares of mu^2: events over time, means of columns, and three rounds of scores, of which the last decides."""


def length_of_rows(width: float) -> float:
    """Return the length, in standard deviations, to which rows are shortened: a little less than they usually have."""
    return max(1.2, 0.9 * math.sqrt(width))


def chosen_covariates(facts: PublicFacts, event: int, columns: object) -> list[int]:
    """Return the positions of the columns whose hazard ratios are estimated."""
    taken = {facts.events[event].time, facts.events[event].event}
    usable = {
        column.name: at
        for at, column in enumerate(facts.columns)
        if column.name not in taken and (column.kind != CATEGORY or len(column.levels) > 1)
    }
    names = names_of(columns, "columns")
    if not names:
        raise InvalidParameter("columns", "name at least one column", shown(columns), "Write columns=['...'].")
    for name in names:
        if name not in usable:
            must = "name numbers, or categories of at least two levels, that are not part of the time to an event"
            raise InvalidParameter("columns", must, repr(name), f"Choose from {', '.join(usable) or 'none'}.")
    return [usable[name] for name in names]


def _numbers(p: Public) -> dict[str, float]:
    """Return how many columns there are, how many numbers they become, and how many of them are numbers."""
    if not is_typed(p):
        return dict.fromkeys(("n_columns", "width", "n_numbers"), p.n_covariates)
    chosen = chosen_covariates(p.facts, chosen_event(p.facts, p.event), p.columns)
    columns = [p.facts.columns[at] for at in chosen]
    n_numbers = sum(column.kind != CATEGORY for column in columns)
    return {"n_columns": len(columns), "width": design_width(columns), "n_numbers": n_numbers}


def _schedule(p: Public) -> Steps:
    numbers = _numbers(p)
    yield Release("event_counts", numbers_of_events([], N_BINS), share=SHARES[0])
    yield Release("followed_columns", numbers, share=SHARES[1])
    for share in SHARES[2:]:
        yield Release("hazard_scores", {"width": numbers["width"]}, share=share)


def _noise(p: Public, scales: Sequence[float]) -> float:
    """Return the noise of a slope where half of the records have their event: rows as long as usual."""
    return 2 * length_of_rows(_numbers(p)["width"]) * scales[-1]


def _refuse_columns(value: object, p: Public) -> None:
    if is_typed(p):
        chosen_covariates(p.facts, chosen_event(p.facts, p.event), value)


COX = Analysis(
    name="cox",
    estimator="dpcape.estimators.survival.cox:Cox",
    group=REGRESSIONS,
    place=12,
    kinds=frozenset({"table"}),
    records="table",
    labels="events",
    parameters=(Parameter("columns", OTHER, REQUIRED, refuse=_refuse_columns), EVENT, HORIZON, CONFIDENCE),
    facts=(Parameter("n_covariates", WHOLE, 1, 1, 1000, planned=4, title="Columns, levels counted one by one"),),
    # A plan knows how many columns there are, and not their names.
    derived=lambda parameters: {
        "n_covariates": parameters.get("n_covariates", 1),
        "columns": parameters.get("columns"),
    },
    schedule=_schedule,
    workspace=directions_of_rounds,
    variants=(Variant("cox", "Hazard ratios (Cox)", ("n_covariates",), yardstick=RADIUS),),
    measure=Noise("noise of a log hazard ratio per standard deviation (half of the records have their event)", _noise),
    audit=(AuditCase("cox", {"columns": ("other", "group")}, "followed", 4),),
    law=LAW,
    reason="the diameters are proved at EventCounts, FollowedColumns and HazardScores, for any public arrays",
    reference="docs/analyses/cox.md#privacy",
)
