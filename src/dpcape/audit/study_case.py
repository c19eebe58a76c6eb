"""A study as a case of an audit: its analysis, its sites, and synthetic records of the declared shape."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpcape.audit.cases import Case
from dpcape.core.arrays import AnyArray, FloatArray
from dpcape.core.errors import InvalidParameter
from dpcape.records.data_plan import Columns, DataPlan
from dpcape.study.made_up import MadeUp
from dpcape.study.study import Study

# Records of a synthetic site whose size the study does not say, and most records of any.
_RECORDS, _MOST_RECORDS = 500, 2000
_TIME_POINTS = 8
_WORDS = 8


class NumbersHeld(MadeUp):
    """Raw values of one site made from given numbers, one row per protected unit."""

    def __init__(self, plan: DataPlan, numbers: FloatArray) -> None:
        self._plan, self._numbers = plan, numbers

    def _mixed(self, latent: FloatArray, width: int, which: int) -> FloatArray:
        raise AssertionError("values come from numbers")

    def table(self, columns: Columns) -> AnyArray | dict[str, AnyArray]:
        """Return the raw columns, in the ranges and levels the study declares."""
        which = self._plan.tables.index(columns)
        begin = sum(table.n_columns for table in self._plan.tables[:which])
        # One is about half the public bound, or a third of the range, as in a rehearsal.
        values = 2 * self._numbers[:, begin : begin + columns.n_columns]
        return self._of_values(values, columns, which)

    def vector(self, name: str, *, text: bool) -> AnyArray:
        """Return responses or labels: the last number, from -1 to 1."""
        return self._of_signal(np.clip(self._numbers[:, -1], -1.0, 1.0), text=text)

    def counts(self, columns: Columns) -> object:
        """Return word counts: about ten words for ordinary numbers."""
        return np.floor(_WORDS * np.abs(np.clip(self._numbers, -1e6, 1e6))).astype(np.int64)

    def series(self, columns: Columns, subject: str | None) -> Sequence[FloatArray]:
        """Return one series per subject; in unit "record" all time points are one person's."""
        values = 2 * self._numbers.reshape(len(self._numbers), -1, columns.n_columns)
        if self._plan.unit == "record":
            length = _series_length(self._plan)
            return np.split(self._scaled(values[:, 0], columns, 0), range(length, len(values), length))
        return [self._scaled(each, columns, 0) for each in values]


def study_case(study: Study, *, site: str | None = None) -> Case:
    """Return a study as a case; the unit that is attacked is at ``site``, or at the first one."""
    victim = study.sites[0] if site is None else site
    if victim not in study.sites:
        raise InvalidParameter("site", f"be one of {', '.join(study.sites)}", repr(victim))
    plan = study.data
    sizes = [member.records or _RECORDS for member in study.members.values()]
    return Case(
        name=study.name,
        make=lambda epsilon, delta: study.estimator(),
        records=lambda numbers: plan.records(NumbersHeld(plan, numbers)),
        n_numbers=numbers_per_unit(plan),
        n_units=min(_MOST_RECORDS, max(sizes)),
        sites=study.sites,
        weights=study.weights or None,
        victim=victim,
        enclosure=study.enclosure,
    )


def replaced(case: Case, numbers: dict[str, FloatArray], unit: FloatArray) -> dict[str, FloatArray]:
    """Return what the sites hold with the victim's first unit replaced."""
    return {**numbers, case.victim: np.vstack([unit, numbers[case.victim][1:]])}


def numbers_per_unit(plan: DataPlan) -> int:
    """Return how many numbers make one protected unit of the declared records."""
    width = sum(table.n_columns for table in plan.tables)
    if plan.kind == "labelled":
        return width + 1
    return width * _series_length(plan) if plan.unit == "subject" else width


def _series_length(plan: DataPlan) -> int:
    return min(_TIME_POINTS, plan.rows_per_subject or _TIME_POINTS)
