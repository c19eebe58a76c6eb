"""A small study of every analysis, as wide as is asked for: few records, many columns, words, levels or weights."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import dpcape
from dpcape import documents, labelled, rows, subjects, table, views

SITES = ("ava", "bob", "cid")
N_RECORDS = 60
BUDGET: dict[str, Any] = {"epsilon": 3.0, "delta": 1e-6}
_MODULES = Path(__file__).parents[2] / "tests" / "laws" / "own_modules.py"


@dataclass(frozen=True)
class WideStudy:
    """An analysis and its records at three sites, for a width.

    Attributes
    ----------
    make : callable
        Function from a width to the estimator.
    records : callable
        Function from a width and the number of a site to its records.
    widths : tuple of int
        Widths that are measured, growing; the first is for warming up.
    """

    make: Callable[[int], Any]
    records: Callable[[int, int], Any]
    widths: tuple[int, ...]

    def held(self, width: int) -> dict[str, Any]:
        """Return the records of all sites."""
        return {name: self.records(width, at) for at, name in enumerate(SITES)}


def _values(width: int, at: int, n_records: int = N_RECORDS) -> Any:
    return np.random.default_rng(at).standard_normal((n_records, width)) / np.sqrt(width)


def _rows(width: int, at: int) -> Any:
    return rows(_values(width, at), bound=1.0)


def _ranged(width: int, at: int) -> Any:
    return rows(_values(width, at), ranges=[(-5, 5)] * width)


def _views(count: int) -> Callable[[int, int], Any]:
    def made(width: int, at: int) -> Any:
        parts = np.array_split(_values(width, at), count, axis=1)
        return views(*parts, bounds=(1.0,) * count)

    return made


def _with_response(width: int, at: int) -> Any:
    x = _values(width, at)
    return labelled(x, x[:, 0], bound=1.0, response=(-1, 1))


def _with_counts(width: int, at: int) -> Any:
    x = _values(width, at)
    return labelled(x, np.rint(3 + np.tanh(x[:, 0])), bound=1.0, response=(0, 9))


def _with_classes(width: int, at: int) -> Any:
    x = _values(width, at)
    return labelled(x, (x[:, 0] > 0).astype(int), bound=1.0, classes=[0, 1])


def _with_three_classes(width: int, at: int) -> Any:
    x = _values(width, at)
    return labelled(x, np.digitize(x[:, 0], (-0.01, 0.01)), bound=1.0, classes=[0, 1, 2])


def _related_views(width: int, at: int) -> Any:
    """Return two views that share one strong direction, so that further pairs are tested."""
    values = _values(width, at, 4 * N_RECORDS)
    values[:, 0] = values[:, width // 2] = np.sign(values[:, 0]) / 2
    return views(*np.array_split(values, 2, axis=1), bounds=(1.0, 1.0))


def _documents(width: int, at: int) -> Any:
    return documents(np.random.default_rng(at).multinomial(9, np.full(width, 1 / width), size=N_RECORDS))


def _series(width: int, at: int) -> Any:
    return subjects([_values(width, at, 400)], bound=1.0, unit="record")


def _columns(width: int, at: int) -> Any:
    source = np.random.default_rng(at)
    values = {f"y{place}": column for place, column in enumerate(source.standard_normal((width, N_RECORDS)))}
    groups = {"where": np.full(N_RECORDS, at), "dx": source.integers(0, 2, N_RECORDS)}
    levels = {"where": {"levels": list(range(len(SITES)))}, "dx": {"levels": [0, 1]}}
    return table({**values, **groups}, columns={**dict.fromkeys(values, (-4, 4)), **levels})


def _followed(width: int, at: int) -> Any:
    source = np.random.default_rng(at)
    days = np.minimum(source.exponential(500, N_RECORDS), 1000)
    held = {"days": days, "died": (days < 1000).astype(int), "arm": source.integers(0, width, N_RECORDS)}
    survival = {"time": "days", "event": "died", "range": [0, 1000]}
    return table(held, columns={"survival": survival, "arm": {"levels": list(range(width))}})


def _followed_columns(width: int, at: int) -> Any:
    source = np.random.default_rng(at)
    days = np.minimum(source.exponential(500, N_RECORDS), 1000)
    values = {f"y{place}": column for place, column in enumerate(source.standard_normal((width, N_RECORDS)))}
    held = {"days": days, "died": (days < 1000).astype(int), **values}
    survival = {"time": "days", "event": "died", "range": [0, 1000]}
    return table(held, columns={"survival": survival, **dict.fromkeys(values, (-4, 4))})


def _names(width: int) -> list[str]:
    return [f"y{place}" for place in range(width)]


def _module() -> str:
    """Return the name of a network that is registered by the tests of laws."""
    spec = importlib.util.spec_from_file_location("dpcape_own_modules", _MODULES)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    name: str = module.Bent.name
    return name


def _torch(width: int) -> Any:
    return dpcape.TorchClassifier(_module(), **BUDGET, n_iter=2)


def _plain(name: str, *given: Any, **more: Any) -> Callable[[int], Any]:
    return lambda width: getattr(dpcape, name)(*given, **BUDGET, **more)


# The widest are refused at once; those before take seconds.
_SQUARES = (40, 600, 1200, 8000)
_LINES = (40, 100_000, 400_000)
_WEIGHTS = (40, 2000, 20_000, 60_000)
_CUBES = (10, 120, 200, 600)
_TABLE = (10, 300, 1000)

STUDIES: dict[str, WideStudy] = {
    "Mean": WideStudy(_plain("Mean"), _rows, _LINES),
    "PCA": WideStudy(_plain("PCA", 2), _rows, _SQUARES),
    "PCA-uncentred": WideStudy(_plain("PCA", 2, center=False), _rows, _SQUARES),
    "PCA-adjusted": WideStudy(_plain("PCA", 2, adjust="site"), _rows, _SQUARES),
    "PCA-wide": WideStudy(
        lambda width: dpcape.PCA(2, **BUDGET, basis=dpcape.Cosines(np.ones(width), [min(width // 4, 144)])),
        _rows,
        (40, 20_000, 100_000),
    ),
    "Correlation": WideStudy(_plain("Correlation"), _ranged, (40, 600, 1200, 4000)),
    "Correlation-clipped": WideStudy(_plain("Correlation"), _rows, (40, 600, 4000)),
    "CCA": WideStudy(_plain("CCA", 2), _views(2), _SQUARES),
    "CCA-found": WideStudy(
        lambda width: dpcape.CCA(2, epsilon=100.0, delta=1e-4, center=False), _related_views, (40, 200, 600, 1000, 6000)
    ),
    "MultiCCA": WideStudy(_plain("MultiCCA", 2), _views(3), (40, 200, 400, 8000)),
    "PLS": WideStudy(_plain("PLS", 2), _views(2), _SQUARES),
    "LinearRegression": WideStudy(_plain("LinearRegression"), _with_response, _SQUARES),
    "LogisticRegression": WideStudy(_plain("LogisticRegression"), _with_classes, _SQUARES),
    "GeneralizedLinearModel": WideStudy(_plain("GeneralizedLinearModel", "poisson"), _with_counts, _SQUARES),
    "GeneralizedLinearModel-multinomial": WideStudy(
        _plain("GeneralizedLinearModel", "multinomial"), _with_three_classes, (10, 100, 300, 3000)
    ),
    "PolynomialLoss": WideStudy(_plain("PolynomialLoss", "poisson"), _with_counts, (5, 10, 14)),
    "NetworkClassifier": WideStudy(
        _plain("NetworkClassifier", 20, n_iter=2), _with_classes, (40, 2000, 20_000, 60_000)
    ),
    "TorchClassifier": WideStudy(_torch, _with_classes, (40, 20_000, 100_000)),
    "KMeans": WideStudy(_plain("KMeans", 3, n_iter=2), _rows, _SQUARES),
    "MixtureModel": WideStudy(_plain("MixtureModel", 2, noise_variance=0.01, design="full"), _rows, _CUBES),
    "TopicModel": WideStudy(_plain("TopicModel", 2, design="full"), _documents, _CUBES[:3]),
    "JointICA": WideStudy(_plain("JointICA", 2), _series, (10, 600, 1200, 8000)),
    "JointICA-infomax": WideStudy(_plain("JointICA", 2, solver="infomax", n_iter=2), _series, (10, 600, 1200, 8000)),
    "Summary": WideStudy(_plain("Summary"), _columns, _TABLE),
    "GroupContrast": WideStudy(
        lambda width: dpcape.GroupContrast("dx", "y0", **BUDGET, covariates=_names(width)[1:]),
        _columns,
        (3, 100, 300, 1000),
    ),
    "MassUnivariate": WideStudy(_plain("MassUnivariate", "dx", site="where"), _columns, _TABLE),
    "Harmonise": WideStudy(_plain("Harmonise", "where"), _columns, _TABLE),
    "Heterogeneity": WideStudy(_plain("Heterogeneity", "where"), _columns, _TABLE),
    "KaplanMeier": WideStudy(_plain("KaplanMeier", by="arm", bins=64), _followed, (3, 300, 3000)),
    "LogRank": WideStudy(_plain("LogRank", "arm"), _followed, (3, 100, 300, 1000)),
    "Cox": WideStudy(lambda width: dpcape.Cox(_names(width), **BUDGET), _followed_columns, (3, 100, 300, 1000)),
}
