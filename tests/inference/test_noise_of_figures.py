"""The noise that results state is the noise that figures have: records stay, noise is drawn again.

Squared deviations over their stated variances have a mean of 1. With at least 60 degrees of freedom it is outside of
0.5 to 1.7 with a probability below 1e-3, for normal noise.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import dpcape
from dpcape import Exact, Federation, Independent, LinearRegression, Replay, in_process, labelled, rows, table
from dpcape.results import Row

N = 6000
N_DRAWS = 31
BUDGET: dict[str, Any] = {"epsilon": 3.0, "delta": 1e-6}
RANDOM = np.random.default_rng(5)
X = RANDOM.uniform(-0.5, 0.5, (N, 3))
LINE = 1 + X[:, 0] - X[:, 1]
TURNED = RANDOM.normal(size=(N, 4)) * [0.5, 0.3, 0.15, 0.05] + [0.3, 0.0, 0.0, 0.1]
ARM = RANDOM.choice(np.array(["old", "new"], dtype=object), N)
SITE = RANDOM.choice(np.array(["a", "b", "c"], dtype=object), N)
AGE = RANDOM.normal(50, 12, N)
DAYS = RANDOM.exponential(900 * np.exp(0.5 * (ARM == "new") - 0.02 * (AGE - 50)))
PEOPLE = {"arm": ARM, "site": SITE, "age": AGE}
COLUMNS: dict[str, Any] = {"arm": ["old", "new"], "site": ["a", "b", "c"], "age": (10, 100)}
FOLLOWED = {**PEOPLE, "days": np.minimum(DAYS, 1000), "died": (DAYS < 1000).astype(int)}
SURVIVAL = {**COLUMNS, "survival": {"time": "days", "event": "died", "range": [0, 1000]}}


def _regression(name: str, y: Any, *args: Any, **public: Any) -> Callable[[], tuple[Any, Any]]:
    return lambda: (getattr(dpcape, name)(*args, **BUDGET), labelled(X, y, bound=1.0, **public))


CASES: dict[str, tuple[Callable[[], tuple[Any, Any]], tuple[str, ...]]] = {
    "linear": (
        _regression("LinearRegression", LINE + RANDOM.normal(0, 0.3, N), response=(-2, 4)),
        ("coefficient", "intercept"),
    ),
    "logistic": (
        _regression("LogisticRegression", (RANDOM.random(N) < 1 / (1 + np.exp(-LINE))).astype(int), classes=[0, 1]),
        ("coefficient", "intercept"),
    ),
    "poisson": (
        _regression("GeneralizedLinearModel", RANDOM.poisson(np.exp(LINE)), "poisson", response=(0, 30)),
        ("coefficient", "intercept"),
    ),
    "gamma": (
        _regression("GeneralizedLinearModel", RANDOM.gamma(4, np.exp(LINE) / 4), "gamma", response=(0, 30)),
        ("coefficient",),
    ),
    "multinomial": (
        _regression("GeneralizedLinearModel", RANDOM.integers(0, 3, N), "multinomial", classes=[0, 1, 2]),
        ("coefficient", "intercept"),
    ),
    "mean": (lambda: (dpcape.Mean(**BUDGET), rows(X, bound=1.0)), ("mean",)),
    "pca": (lambda: (dpcape.PCA(2, **BUDGET, center=False), rows(TURNED, bound=1.0)), ("eigenvalue", "loading")),
    "centred pca": (
        lambda: (dpcape.PCA(2, **BUDGET, center=True), rows(TURNED, bound=1.0)),
        ("eigenvalue", "loading"),
    ),
    "correlation": (lambda: (dpcape.Correlation(**BUDGET), rows(TURNED, bound=1.5)), ("correlation",)),
    "summary": (
        lambda: (dpcape.Summary(by="arm", **BUDGET), table(PEOPLE, columns=COLUMNS)),
        ("records", "count", "share", "mean", "sd"),
    ),
    "contrast": (
        lambda: (
            dpcape.GroupContrast("arm", ["age"], site="site", assumed_effect=0.1, **BUDGET),
            table(PEOPLE, columns=COLUMNS),
        ),
        ("difference", "d"),
    ),
    "kaplan-meier": (
        lambda: (dpcape.KaplanMeier(by="arm", bins=6, **BUDGET), table(FOLLOWED, columns=SURVIVAL)),
        ("survival", "at risk"),
    ),
    "heterogeneity": (
        lambda: (dpcape.Heterogeneity("site", columns=["age"], **BUDGET), table(PEOPLE, columns=COLUMNS)),
        ("mean",),
    ),
}


def _stated(figures: Sequence[Row]) -> bool:
    """Tell whether all draws of a figure state noise, and none was moved to an end of its range."""
    return all(figure.noise_sd > 0 and figure.group != "missing" and figure.part != "missing" for figure in figures)


@pytest.mark.parametrize("name", CASES)
def test_figures_have_the_noise_that_results_state(name: str) -> None:
    make, quantities = CASES[name]
    model, records = make()
    drawn = [
        model.fit(Federation(in_process({"lyon": records}, noise=Replay(seed)), protocol=Independent())).result().rows
        for seed in range(N_DRAWS)
    ]
    for quantity in quantities:
        same = [figures for figures in zip(*drawn, strict=True) if figures[0].quantity == quantity]
        kept = [figures for figures in same if _stated(figures) and not _is_public(figures)]
        assert kept, f"no {quantity} states its noise"
        squares = []
        for figures in kept:
            values = np.array([float(figure.estimate) for figure in figures])
            stated = np.mean([figure.noise_sd**2 for figure in figures])
            squares.append(values.var(ddof=1) / stated)
        # One figure has 30 degrees of freedom: its bounds are wider by the square root of two.
        room = 1.0 if len(kept) > 1 else math.sqrt(2)
        assert 1 - 0.5 * room < np.mean(squares) < 1 + 0.7 * room, quantity


def _is_public(figures: Sequence[Row]) -> bool:
    """Tell whether a figure follows from the public number of records: it is cut off there."""
    return figures[0].quantity == "at risk" and (figures[0].group, figures[0].part) == ("all", "0")


def test_no_noise_is_stated_where_noise_hides_the_figure() -> None:
    few = labelled(X[:60], LINE[:60], bound=1.0, response=(-2, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LinearRegression(epsilon=0.1, delta=1e-6).fit(
            Federation(in_process({"lyon": few}, noise=Replay(1)), protocol=Independent())
        )
        flat = dpcape.PCA(2, epsilon=0.1, delta=1e-6, center=False).fit(
            Federation(in_process({"lyon": rows(X[:60], bound=1.0)}, noise=Replay(1)), protocol=Independent())
        )
    assert np.isinf(model.interval_).all()
    assert np.isnan(model.coef_noise_scale_).all()
    assert np.isnan(flat.component_noise_scale_).all()


@pytest.mark.filterwarnings("ignore::dpcape.core.errors.DpcapeWarning")
def test_without_noise_and_residuals_the_interval_is_the_coefficient() -> None:
    exact = Federation(in_process({"lyon": labelled(X, LINE, bound=1.0, response=(-2, 4))}), protocol=Exact())
    for options in ({}, {"scale": "private"}):
        model = LinearRegression(**BUDGET, **options).fit(exact)
        # A step of the grid is 1e-6.
        assert np.allclose(model.coef_, [1, -1, 0], rtol=0, atol=1e-6)
        assert (model.interval_[0] <= model.coef_ + 1e-9).all()
        assert np.ptp(model.interval_, axis=0).max() < 1e-6
        assert not model.coef_noise_scale_.any()
