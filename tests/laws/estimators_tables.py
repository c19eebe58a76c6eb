"""Cases of analyses of tables; of the form of ``estimators_core.py``."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpcape import Summary, table

SITES = ("ava", "bob", "cid", "dot")
COLUMNS = {"age": (20, 80), "sex": ["F", "M"], "seen": {"range": ["2020-01-01", "2024-12-31"]}, "arm": ["new", "old"]}


def people(n_rows: int, seed: int) -> dict[str, Any]:
    """Return raw columns, with some values missing."""
    generator = np.random.default_rng(seed)
    age = generator.normal(48, 12, n_rows)
    age[::19] = np.nan
    sex = generator.choice(np.array(["F", "M", None], dtype=object), n_rows, p=[0.55, 0.4, 0.05])
    seen = np.datetime64("2020-01-01") + generator.integers(0, 1800, n_rows)
    arm = generator.choice(np.array(["new", "old"], dtype=object), n_rows)
    return {"age": age, "sex": sex, "seen": seen, "arm": arm}


def _tables() -> dict[str, Any]:
    return {site: table(people(300 + 10 * at, at), columns=COLUMNS) for at, site in enumerate(SITES)}


CASES: dict[str, tuple[Any, Any, dict[str, float]]] = {
    "Summary": (lambda e, d: Summary(epsilon=e, delta=d), _tables, {"table_": 1e-2}),
    "Summary-by-group": (
        lambda e, d: Summary(epsilon=e, delta=d, by=["arm"], bins=16),
        _tables,
        {},
    ),
}
