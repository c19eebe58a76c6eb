"""Cases for audits: small instances of every analysis, with records, documents or subjects made from plain numbers.

Any numbers are allowed, also beyond the public bound. They are clipped as at a site, so a search over the numbers
covers every possible unit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from dpcape.analyses.description import Analysis, AuditCase
from dpcape.analyses.registry import own_analyses
from dpcape.audit.adversaries import SITES, VICTIM
from dpcape.core.arrays import FloatArray
from dpcape.core.enclosed import Enclosure
from dpcape.core.protocols.protocol import Protocol
from dpcape.federation.federation import Federation
from dpcape.planning.estimator import Estimator
from dpcape.records import labelled, rows, views
from dpcape.records.kinds import Records
from dpcape.records.typed_table import table
from dpcape.records.words_and_series import documents, subjects
from dpcape.transport.transport import Transport

_TIME_POINTS = 8


# Compared by identity: weights need no hash.
@dataclass(frozen=True, eq=False)
class Case:
    """Small instance of an analysis.

    Attributes
    ----------
    name : str
        Name for ``dpcape audit``.
    make : callable
        ``make(epsilon, delta)`` returns the estimator.
    records : callable
        Makes a site's records from numbers, one row per unit.
    n_numbers : int
        How many plain numbers make one unit.
    n_units : int
        Units per site.
    weights : mapping or None
        Of the sites; None for weights proportional to records.
    victim : str
        The site whose unit is attacked.
    enclosure : Enclosure or None
        How sites compute statistics of another package.
    """

    name: str
    make: Callable[[float, float], Estimator]
    records: Callable[[FloatArray], Records]
    n_numbers: int
    n_units: int = 60
    sites: tuple[str, ...] = SITES
    weights: Mapping[str, float] | None = None
    victim: str = VICTIM
    enclosure: Enclosure | None = None

    def federation(self, transport: Transport, protocol: Protocol) -> Federation:
        """Return the federation that the analysis is fitted to."""
        # Few records and a large delta make attacks informative; the records are synthetic.
        return Federation(
            transport, protocol=protocol, weights=self.weights, enclosure=self.enclosure, accept_large_delta=True
        )

    def numbers(self, seed: int) -> dict[str, FloatArray]:
        """Return synthetic numbers for each site."""
        generator = np.random.default_rng(seed)  # protects nothing
        return {site: 0.5 * generator.standard_normal((self.n_units, self.n_numbers)) for site in self.sites}


def _counts(numbers: FloatArray) -> Records:
    """Return documents: about ten words for ordinary numbers, more for extreme numbers."""
    return documents(np.floor(8 * np.abs(numbers)).astype(np.int64))


def _three_classes(numbers: FloatArray) -> Records:
    codes = np.digitize(numbers[:, -1], (-0.3, 0.3))
    return labelled(numbers[:, :-1], codes, bound=1.0, classes=[0, 1, 2])


def _positive_response(numbers: FloatArray) -> Records:
    """Return responses around 1, in a range that goes far beyond them."""
    return labelled(numbers[:, :-1], np.exp(np.clip(numbers[:, -1], -2, 2)), bound=1.0, response=(0, 10))


def _people(numbers: FloatArray) -> Records:
    series = list(numbers.reshape(len(numbers), _TIME_POINTS, 2))
    return subjects(series, bound=3.0, unit="subject", rows_per_subject=_TIME_POINTS, n_features=2)


def _typed(numbers: FloatArray) -> Records:
    """Return a table of two numbers, a category and a group; large numbers are missing values."""
    columns = {"first": (-1, 1), "second": (-1, 1), "third": ["a", "b", "c"], "group": ["x", "y"]}
    values = np.where(np.abs(numbers) < 20, numbers, np.nan)
    levels = np.clip(np.nan_to_num(values[:, 2:]) + 1, 0, 1.99)
    third = np.array(["a", "b", "c"], dtype=object)[(levels[:, 0] * 1.5).astype(int)]
    group = np.array(["x", "y"], dtype=object)[levels[:, 1].astype(int)]
    return table({"first": values[:, 0], "second": values[:, 1], "third": third, "group": group}, columns=columns)


def _followed(numbers: FloatArray) -> Records:
    """Return a table of a time to an event, a number and a group; large numbers are missing values."""
    columns = {"survival": {"time": "days", "event": "died", "range": [0, 2]}, "other": (-1, 1), "group": ["x", "y"]}
    values = np.where(np.abs(numbers) < 20, numbers, np.nan)
    died = np.where(np.isnan(values[:, 1]), np.nan, (values[:, 1] > 0).astype(float))
    group = np.array(["x", "y"], dtype=object)[(np.nan_to_num(values[:, 3]) > 0).astype(int)]
    return table({"days": values[:, 0] + 1, "died": died, "other": values[:, 2], "group": group}, columns=columns)


_MAKERS: dict[str, Callable[[FloatArray], Records]] = {
    "rows": lambda x: rows(x, bound=1.0),
    "views": lambda x: views(x[:, :2], x[:, 2:], bounds=(1.0, 1.0)),
    "three_views": lambda x: views(x[:, :2], x[:, 2:4], x[:, 4:], bounds=(1.0, 1.0, 1.0)),
    "documents": _counts,
    "two_classes": lambda x: labelled(x[:, :-1], (x[:, -1] > 0).astype(int), bound=1.0, classes=[0, 1]),
    "three_classes": _three_classes,
    "response": lambda x: labelled(x[:, :-1], x[:, -1], bound=1.0, response=(-1, 1)),
    "counts": lambda x: labelled(x[:, :-1], 5 + 5 * x[:, -1], bound=1.0, response=(0, 10)),
    "positive": _positive_response,
    "time_points": lambda x: subjects([x], bound=3.0, unit="record"),
    "people": _people,
    "table": _typed,
    "followed": _followed,
}


def _case(analysis: Analysis, case: AuditCase) -> Case:
    def make(epsilon: float, delta: float) -> Estimator:
        estimator: Estimator = analysis.load()(**case.parameters, epsilon=epsilon, delta=delta)
        return estimator

    return Case(case.name, make, _MAKERS[case.records], case.n_numbers)


CASES = {case.name: _case(analysis, case) for analysis in own_analyses().values() for case in analysis.audit}
