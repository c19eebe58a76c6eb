"""Description of the matrix of correlations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from dpcape.analyses.cca import centred_moments_of_views
from dpcape.analyses.description import COMPONENTS, LAW, Analysis, AuditCase, Noise, Public, Variant, public_facts
from dpcape.analyses.footprint import OBJECT_BYTES
from dpcape.analyses.mean import CONFIDENCE
from dpcape.analyses.parameters import CHOICE, OTHER, Parameter, shown
from dpcape.analyses.pca import ANALYZE_GAUSS
from dpcape.analyses.release import Release, Steps
from dpcape.analyses.summary import names_of
from dpcape.core.errors import InvalidParameter
from dpcape.core.facts import PublicFacts
from dpcape.statistics.cells import CATEGORY
from dpcape.statistics.complete_rows import PREFIX, RowColumns
from dpcape.statistics.scaling import USUAL_LENGTH

TABLE = "table"


def correlated_columns(facts: PublicFacts, columns: object) -> list[int]:
    """Return the positions of the columns of a table that are correlated: those that are named, or all numbers."""
    known = {column.name: at for at, column in enumerate(facts.columns)}
    names = names_of(columns, "columns")
    for name in names:
        if name not in known or (
            facts.columns[known[name]].kind == CATEGORY and len(facts.columns[known[name]].levels) < 2
        ):
            remedy = f"Choose from {', '.join(known)}."
            raise InvalidParameter("columns", "name numbers, or categories of at least two levels", repr(name), remedy)
    # Times to an event may be censored, so they are correlated only if they are named.
    censored = {event.time for event in facts.events}
    numbers = [at for name, at in known.items() if facts.columns[at].kind != CATEGORY and name not in censored]
    chosen = [known[name] for name in names] if columns is not None else numbers
    if len(chosen) < 2:
        must = "name at least two columns, or be None for a table with two of numbers"
        raise InvalidParameter("columns", must, shown(columns), "Name others.")
    return chosen


def public_rows(p: Public) -> Public:
    """Return the public numbers of the rows that are correlated; columns of a table become rows."""
    if p.kind != TABLE:
        return p
    rows = RowColumns(p.facts, correlated_columns(p.facts, p.columns)).facts
    return Public({"scale": p.scale, **public_facts(rows, p.n_records, p.n_participants)}, mu=lambda: p.mu)


def _schedule(p: Public) -> Steps:
    for step in centred_moments_of_views(public_rows(p)):
        if p.kind == TABLE and isinstance(step, Release):
            yield replace(step, statistic=f"{PREFIX}{step.statistic}")
        else:
            yield step


def _noise(p: Public, scales: Sequence[float]) -> float:
    """Return the noise of a correlation, for columns of equal variance and rows of the usual lengths."""
    n_columns: float = p.n_features
    if p.kind == TABLE:
        n_columns = RowColumns(p.facts, correlated_columns(p.facts, p.columns)).facts.n_features
    return scales[-1] / math.sqrt(2) * n_columns * USUAL_LENGTH**2


def _refuse_columns(value: object, p: Public) -> None:
    if p.kind == TABLE:
        correlated_columns(p.facts, value)
    elif value is not None:
        remedy = "Leave columns out when the records are built."
        raise InvalidParameter("columns", "be None for records that are not a table", shown(value), remedy)


CORRELATION = Analysis(
    name="correlation",
    estimator="dpcape.estimators.views.correlation:Correlation",
    group=COMPONENTS,
    place=2,
    kinds=frozenset({"rows", "labelled", "views", "subjects", TABLE}),
    records="rows",
    parameters=(
        Parameter("columns", OTHER, None, optional=True, refuse=_refuse_columns),
        CONFIDENCE,
        Parameter("scale", CHOICE, "private", words=("private", "none")),
    ),
    schedule=_schedule,
    results=lambda p, sizes: OBJECT_BYTES * max(sizes),
    variants=(
        Variant("correlation", "Correlations", fixed={"scale": "private"}),
        Variant("correlation-as-given", "Correlations of columns as given", fixed={"scale": "none"}),
    ),
    measure=Noise("noise of each correlation", _noise, "share"),
    audit=(
        AuditCase("correlation", {}, "rows", 3),
        AuditCase("correlation-as-given", {"scale": "none"}, "rows", 3),
        AuditCase("correlation-of-columns", {"columns": ("first", "third", "group")}, TABLE, 4),
    ),
    law=LAW,
    reason="mean, scale and radius first, then mean and second moment of the standardised rows jointly",
    reference=f"docs/analyses/correlation.md#privacy; {ANALYZE_GAUSS}",
)
