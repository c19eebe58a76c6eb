"""Cases of analyses of tables; of the form of ``estimators_core.py``."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpcape import (
    Correlation,
    Cox,
    GroupContrast,
    Harmonise,
    Heterogeneity,
    KaplanMeier,
    LogRank,
    MassUnivariate,
    Summary,
    table,
)

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


PATIENT_COLUMNS = {
    **{name: (-4, 4) for name in ("volume", "area", "depth")},
    "age": (20, 80),
    "sex": ["F", "M"],
    "dx": ["control", "case"],
    "scanner": ["ava", "bob", "cid", "dot"],
}


def patients(n_rows: int, seed: int, scanner: str) -> dict[str, Any]:
    """Return raw columns of a comparison of cases with controls, with some values missing."""
    generator = np.random.default_rng(100 + seed)
    found = people(n_rows, seed)
    dx = generator.choice(np.array(["control", "case"], dtype=object), n_rows)
    outcomes = generator.normal(0.2 * seed, 1, (3, n_rows))
    outcomes[0] -= 0.5 * (dx == "case")
    outcomes[2] += 0.03 * (np.nan_to_num(found["age"], nan=48) - 48)
    named = dict(zip(("volume", "area", "depth"), outcomes, strict=True))
    where = np.full(n_rows, scanner, dtype=object)
    return {**named, "age": found["age"], "sex": found["sex"], "dx": dx, "scanner": where}


def _patients() -> dict[str, Any]:
    return {site: table(patients(500 + 10 * at, at, site), columns=PATIENT_COLUMNS) for at, site in enumerate(SITES)}


FOLLOWED = {"survival": {"time": "days", "event": "died", "range": [0, 1000]}, "arm": ["new", "old"]}


def followed(n_rows: int, seed: int) -> dict[str, Any]:
    """Return times to an event, with some values missing."""
    generator = np.random.default_rng(seed)
    arm = generator.choice(np.array(["new", "old", None], dtype=object), n_rows, p=[0.5, 0.45, 0.05])
    time = generator.exponential(np.where(arm == "old", 500, 800))
    end = generator.uniform(300, 1500, n_rows)
    days = np.minimum(time, end)
    days[::17] = np.nan
    return {"days": days, "died": (time <= end).astype(int), "arm": arm}


def _followed() -> dict[str, Any]:
    return {site: table(followed(300 + 10 * at, at), columns=FOLLOWED) for at, site in enumerate(SITES)}


COVARIATES = {"age": (20, 80), "stage": ["i", "ii", "iii"]}


def _followed_with_covariates() -> dict[str, Any]:
    made = {}
    for at, site in enumerate(SITES):
        n_rows, generator = 2000 + 10 * at, np.random.default_rng(40 + at)
        age = people(n_rows, at)["age"]
        stage = generator.choice(np.array(["i", "ii", "iii"], dtype=object), n_rows)
        relative = np.exp(0.03 * (np.nan_to_num(age, nan=48) - 48) + 0.5 * (stage == "iii"))
        time, end = generator.exponential(700 / relative), generator.uniform(300, 1500, n_rows)
        held = {"days": np.minimum(time, end), "died": (time <= end).astype(int), "age": age, "stage": stage}
        made[site] = table(held, columns={"survival": FOLLOWED["survival"], **COVARIATES})
    return made


CASES: dict[str, tuple[Any, Any, dict[str, float]]] = {
    "Summary": (lambda e, d: Summary(epsilon=e, delta=d), _tables, {"table_": 1e-2}),
    "Summary-by-group": (
        lambda e, d: Summary(epsilon=e, delta=d, by=["arm"], bins=16),
        _tables,
        {},
    ),
    "GroupContrast": (
        lambda e, d: GroupContrast("dx", "volume", epsilon=e, delta=d, covariates=["age", "sex"], site="scanner"),
        _patients,
        {"d_": 2e-2, "effect_": 2e-2},
    ),
    "Harmonise": (
        lambda e, d: Harmonise("scanner", epsilon=e, delta=d, columns=["volume", "area", "depth"]),
        _patients,
        {"location_": 2e-2, "scale_": 2e-2},
    ),
    "Heterogeneity": (
        lambda e, d: Heterogeneity("scanner", epsilon=e, delta=d, columns=["volume", "area"]),
        _patients,
        {"mean_": 2e-2, "pooled_": 2e-2, "site_means_": 2e-2},
    ),
    "Correlation-of-columns": (
        lambda e, d: Correlation(epsilon=e, delta=d, columns=["volume", "depth", "age", "dx", "scanner"]),
        _patients,
        {"correlations_": 5e-2, "mean_": 5e-2, "complete_share_": 1e-2},
    ),
    "MassUnivariate": (
        lambda e, d: MassUnivariate("age", epsilon=e, delta=d, site="scanner", outcomes=["volume", "area", "depth"]),
        _patients,
        {"d_": 2e-2},
    ),
    "Cox": (
        lambda e, d: Cox(["age", "stage"], epsilon=e, delta=d),
        _followed_with_covariates,
        {"coef_": 2e-2},
    ),
    "KaplanMeier": (lambda e, d: KaplanMeier(epsilon=e, delta=d, bins=16), _followed, {"survival_": 1e-2}),
    "KaplanMeier-by-group": (
        lambda e, d: KaplanMeier(epsilon=e, delta=d, by=["arm"], bins=16, horizon=800),
        _followed,
        {"survival_": 1e-2},
    ),
    "LogRank": (lambda e, d: LogRank(by="arm", epsilon=e, delta=d), _followed, {"statistic_": 1.0}),
}
