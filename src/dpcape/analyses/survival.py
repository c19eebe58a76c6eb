"""Descriptions of survival curves and of the test of their difference."""

from __future__ import annotations

from dpcape.analyses.description import LAW, RADIUS, REGRESSIONS, Analysis, AuditCase, Public, Variant
from dpcape.analyses.footprint import of_vectors
from dpcape.analyses.mean import CONFIDENCE
from dpcape.analyses.parameters import OTHER, REQUIRED, WHOLE, Parameter, is_number, shown
from dpcape.analyses.release import Release, Steps
from dpcape.analyses.summary import NOISE_OF_COUNTS, names_of, refuse_level_names
from dpcape.core.errors import InvalidParameter
from dpcape.core.facts import PublicFacts
from dpcape.statistics.cells import CATEGORY
from dpcape.statistics.event_counts import MOST_TIMES, numbers_of_events

# (records times mu, bins): above the first number, time has this many bins. More bins locate the end of follow-up more
# exactly and add a little noise.
_FINER = ((100_000, 256), (4000, 128), (1000, 64), (400, 32), (120, 16))
_COARSE = 8


def n_times_of(bins: float | None, n_records: float, mu: float) -> float:
    """Return the number of bins of time: as given, or more the less noise there is."""
    if bins is not None:
        return bins
    return next((finer for least, finer in _FINER if n_records * mu > least), _COARSE)


def chosen_event(facts: PublicFacts, event: object) -> int:
    """Return the position of the time to an event: the one that is named, or the only one."""
    names = [entry.name for entry in facts.events]
    if event is None and len(names) == 1:
        return 0
    if not isinstance(event, str) or event not in names:
        must = f"name a time to an event of the table, of which there are: {', '.join(names) or 'none'}"
        remedy = "Declare one as {'time': ..., 'event': ..., 'range': [0, ...]}."
        raise InvalidParameter("event", must, shown(event), remedy)
    return names.index(event)


def chosen_groups(facts: PublicFacts, event: int, by: object) -> list[int]:
    """Return the positions of the columns that form groups."""
    taken = {facts.events[event].time, facts.events[event].event}
    described = enumerate(facts.columns)
    usable = {column.name: at for at, column in described if column.kind == CATEGORY and column.name not in taken}
    names = names_of(by, "by")
    for name in names:
        if name not in usable:
            must = "name columns with public levels that are not part of the time to an event"
            raise InvalidParameter("by", must, repr(name), f"Choose from {', '.join(sorted(usable)) or 'none'}.")
    groups = [usable[name] for name in names]
    refuse_level_names(facts, groups)
    return groups


def horizon_of(facts: PublicFacts, event: int, horizon: object) -> float:
    """Return the end of the last bin: as given, or the end of the public range of time."""
    time = next(column for column in facts.columns if column.name == facts.events[event].time)
    if horizon is None:
        return time.high
    if not is_number(horizon) or not 1e-9 * time.high <= float(horizon) <= time.high:
        must = f"be a positive number up to {time.high:g}, the end of the public range of time, or None"
        raise InvalidParameter("horizon", must, shown(horizon))
    return float(horizon)


def _schedule(p: Public) -> Steps:
    bins = n_times_of(p.bins, p.n_records, p.mu)
    if not is_typed(p):
        yield Release("event_counts", {"n_groups": p.n_groups, "n_bins": bins})
        return
    by = [p.facts.columns[at] for at in chosen_groups(p.facts, chosen_event(p.facts, p.event), p.by)]
    yield Release("event_counts", numbers_of_events(by, int(bins)))


def is_typed(p: Public) -> bool:
    """Tell whether columns are known: a plan knows how many there are, and not their names."""
    return p.facts is not None and bool(p.facts.columns)


def _refuse_event(value: object, p: Public) -> None:
    if is_typed(p):
        chosen_event(p.facts, value)


def _refuse_by(value: object, p: Public) -> None:
    names_of(value, "by")
    if is_typed(p):
        chosen_groups(p.facts, chosen_event(p.facts, p.event), value)


def _refuse_one_group(value: object, p: Public) -> None:
    _refuse_by(value, p)
    if is_typed(p) and not names_of(value, "by"):
        raise InvalidParameter("by", "name at least one column whose levels are compared", shown(value))


def _refuse_horizon(value: object, p: Public) -> None:
    if is_typed(p):
        horizon_of(p.facts, chosen_event(p.facts, p.event), value)


EVENT = Parameter("event", OTHER, None, optional=True, refuse=_refuse_event)
_BINS = Parameter("bins", WHOLE, None, 2, MOST_TIMES, optional=True, title="Bins of time", left_out="by size and noise")
HORIZON = Parameter("horizon", OTHER, None, optional=True, refuse=_refuse_horizon)
_TITLE = "Groups, missing included"
_REASON = "the diameter of counts of events and other ends by group and bin is proved at EventCounts"

KAPLAN_MEIER = Analysis(
    name="kaplan_meier",
    estimator="dpcape.estimators.survival.kaplan_meier:KaplanMeier",
    group=REGRESSIONS,
    place=10,
    kinds=frozenset({"table"}),
    records="table",
    labels="events",
    parameters=(EVENT, Parameter("by", OTHER, None, optional=True, refuse=_refuse_by), _BINS, HORIZON, CONFIDENCE),
    facts=(Parameter("n_groups", WHOLE, 1, 1, 10_000, planned=3, title=_TITLE),),
    derived=lambda parameters: {"n_groups": parameters.get("n_groups", 1)},
    schedule=_schedule,
    results=of_vectors(16),
    variants=(Variant("kaplan-meier", "Survival curves (Kaplan-Meier)", ("n_groups",), yardstick=RADIUS),),
    measure=NOISE_OF_COUNTS,
    audit=(AuditCase("kaplan-meier", {"by": ("group",), "bins": 4}, "followed", 4),),
    law=LAW,
    reason=_REASON,
    reference="docs/analyses/survival.md#privacy",
)

LOG_RANK = Analysis(
    name="log_rank",
    estimator="dpcape.estimators.survival.log_rank:LogRank",
    group=REGRESSIONS,
    place=11,
    kinds=frozenset({"table"}),
    records="table",
    labels="events",
    parameters=(Parameter("by", OTHER, REQUIRED, refuse=_refuse_one_group), EVENT, _BINS, HORIZON),
    facts=(Parameter("n_groups", WHOLE, 3, 3, 10_000, title=_TITLE),),
    # A plan knows how many groups there are, and no columns.
    derived=lambda parameters: {"n_groups": parameters.get("n_groups", 3), "by": parameters.get("by")},
    schedule=_schedule,
    variants=(Variant("log-rank", "Log-rank test", ("n_groups",), yardstick=RADIUS),),
    measure=NOISE_OF_COUNTS,
    audit=(AuditCase("log-rank", {"by": ("group",), "bins": 4}, "followed", 4),),
    law=LAW,
    reason=_REASON,
    reference="docs/analyses/survival.md#privacy",
)
