"""Synthetic records of the declared shape, for rehearsals; no data file is opened."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpcape.core.arrays import AnyArray, FloatArray
from dpcape.records.data_plan import Columns, DataPlan
from dpcape.schema.column import Column
from dpcape.schema.schema import Schema

# One fixed seed: rehearsals are repeatable, and all sites share one latent structure.
_SEED = 20260101
_RANK = 6
_TIME_POINTS = 40
_WORDS = 60


class MadeUp:
    """Synthetic raw values of one site, with a few strong directions that all sites share."""

    def __init__(self, plan: DataPlan, n_records: int, site: int) -> None:
        self._plan, self._n = plan, n_records
        self._own = np.random.default_rng([_SEED, 1, site])
        # Heavy tails, so that independent components are identifiable.
        self._latent = self._own.laplace(size=(n_records, _RANK)) * 0.8 ** np.arange(_RANK)

    def table(self, columns: Columns) -> AnyArray | dict[str, AnyArray]:
        """Return the raw columns: an array, or a mapping if some are text."""
        which = self._plan.tables.index(columns)
        return self._of_values(self._mixed(self._latent, columns.n_columns, which), columns, which)

    def _of_values(self, values: FloatArray, columns: Columns, which: int) -> AnyArray | dict[str, AnyArray]:
        if not isinstance(columns.ranges, Schema):
            return self._scaled(values, columns, which)
        raw = {column.name: self._raw(column, values[:, at]) for at, column in enumerate(columns.ranges.columns)}
        return raw if columns.ranges.categorical else np.column_stack(list(raw.values()))

    def _mixed(self, latent: FloatArray, width: int, which: int) -> FloatArray:
        shared = np.random.default_rng([_SEED, 2, which])
        mixing = shared.standard_normal((_RANK, width)) / math.sqrt(_RANK)
        return latent @ mixing + 0.2 * self._own.standard_normal((len(latent), width))

    def _scaled(self, values: FloatArray, columns: Columns, which: int) -> FloatArray:
        """Scale columns with ranges to their range, and the others to a norm below the bound."""
        if columns.ranges is not None:
            low, high = np.array(columns.ranges).T
            return np.asarray((low + high) / 2 + (high - low) / 2 * np.tanh(values / 2))
        bound = self._plan.bounds[which] if self._plan.bounds else 1.0
        return values * (0.5 * bound / math.sqrt(values.shape[1]))

    def _raw(self, column: Column, values: FloatArray) -> AnyArray:
        if column.levels is not None:
            codes = np.clip(np.floor((np.tanh(values) + 1) / 2 * len(column.levels)), 0, len(column.levels) - 1)
            kind = object if isinstance(column.levels[0], str) else float
            return np.asarray(np.array(column.levels, dtype=kind)[codes.astype(int)])
        if column.range is None:
            return values
        low, high = column.range
        numbers = np.asarray(low / 2 + high / 2 + (high / 2 - low / 2) * np.tanh(values / 2))
        if not column.dates:
            return numbers
        # Days since 1970 become text in ISO form, as dates are read from files.
        return np.floor(numbers).astype("datetime64[D]").astype(str).astype(object)

    def vector(self, name: str, *, text: bool) -> AnyArray:
        """Return a response or labels that follow the first directions."""
        return self._of_signal(np.tanh(self._latent[:, 0] + 0.5 * self._latent[:, 1]), text=text)

    def _of_signal(self, signal: FloatArray, *, text: bool) -> AnyArray:
        """Return a response or labels from numbers between -1 and 1."""
        if self._plan.response is not None:
            low, high = self._plan.response
            return np.asarray(low / 2 + high / 2 + (high / 2 - low / 2) * signal)
        classes = np.array(self._plan.classes, dtype=object if text else None)
        codes = np.clip(np.floor((signal + 1) / 2 * len(classes)), 0, len(classes) - 1).astype(int)
        return np.asarray(classes[codes])

    def counts(self, columns: Columns) -> object:
        """Return word counts of documents with one topic each."""
        from scipy.sparse import csr_array

        shared = np.random.default_rng([_SEED, 3])
        topics = shared.dirichlet(np.full(columns.n_columns, 0.1), size=_RANK)
        which = self._own.integers(_RANK, size=self._n)
        return csr_array(np.array([self._own.multinomial(_WORDS, topics[topic]) for topic in which]))

    def series(self, columns: Columns, subject: str | None) -> Sequence[FloatArray]:
        """Return one series per subject; in unit "record" as many subjects as the time points fill."""
        length = min(_TIME_POINTS, self._plan.rows_per_subject or _TIME_POINTS)
        n_subjects = self._n if self._plan.unit == "subject" else max(1, -(-self._n // length))
        series = []
        for _ in range(n_subjects):
            latent = self._own.laplace(size=(length, _RANK)) * 0.8 ** np.arange(_RANK)
            series.append(self._scaled(self._mixed(latent, columns.n_columns, 0), columns, 0))
        return series
