"""Proposition 3.1: how much less noise CAPE needs than independent noise, measured in real runs."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from matplotlib.figure import Figure

from dpcape.core.privacy.gaussian import epsilon_of, mu_of
from dpcape.core.protocols.cape import Cape
from dpcape.core.protocols.independent import Independent
from dpcape_papers.experiments.curves import Look, draw_panels, plain_ticks, true_epsilon_note
from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.experiment import Cell, RunSetting, Verdict, Work
from dpcape_papers.experiments.results import EXACT, NON_PRIVATE, PUBLISHED, Results, Row, row
from dpcape_papers.figures.analytic.noise_measured import equal_sizes, noise_variance, standard_error
from dpcape_papers.published.cape import assumed_colluding, true_kappa
from dpcape_papers.published.regression import classical_multiplier
from dpcape_papers.verdicts import outcome_of

EPSILON, DELTA = 1.0, 1e-5
GAIN = "gain"
ALL, LOST = "all sites finish", "one site lost"
CLAIM = "G = S"
SAME_NOISE, UNCORRECTED = "same noise at each site", "left uncorrected"
BEFORE = "lost before the noise was agreed"
SAFE, COLLUDING, SPLIT = (
    "same guarantee, no site colludes",
    "same guarantee, ⌈S/3⌉ − 1 collude",
    "papers' split, none colludes",
)
CORRECTED = "same guarantee, corrected"


def gains(data: DataFolder, *, n_sites: int, run: int, width: int) -> list[Row]:
    """Return the gain of several forms of CAPE over independent noise, with and without a lost site."""
    sizes, mu = equal_sizes(n_sites), mu_of(EPSILON, DELTA)
    lost = next(iter(sizes))
    tau = classical_multiplier(EPSILON, DELTA)
    real_mu = math.sqrt(true_kappa(n_sites, 0)) / tau
    spread = math.sqrt(n_sites / (n_sites - 1))

    def variance(protocol: Cape | Independent, mu: float, lose: str | None = None) -> float:
        return noise_variance(protocol, sizes, mu=mu, seed=1000 * n_sites + run, width=width, lose=lose)

    conventional = variance(Independent(), mu)
    few = assumed_colluding(n_sites)
    found = [
        (ALL, SAME_NOISE, PUBLISHED, _same_noise(variance, tau, real_mu)),
        (ALL, SAFE, EXACT, conventional / variance(Cape(n_colluding=0), mu)),
        (ALL, COLLUDING, EXACT, conventional / variance(Cape(n_colluding=few), mu)),
        (ALL, SPLIT, EXACT, conventional / variance(Cape(n_colluding=0, cancelling_ratio=1.0), mu)),
        # The generators protect nothing.
        (LOST, UNCORRECTED, PUBLISHED, _uncorrected(n_sites, np.random.default_rng([run, n_sites]), width)),
        (LOST, BEFORE, PUBLISHED, _lost_before(n_sites, np.random.default_rng([run, n_sites, 1]), width)),
        (LOST, CORRECTED, EXACT, spread**2 * conventional / variance(
            Cape(n_colluding=0, minimum_sites=n_sites - 1), mu, lost)),
    ]  # fmt: skip
    rows = [
        row(
            panel=panel,
            curve=curve,
            calibration=kind,
            x=n_sites,
            measure=GAIN,
            value=gain,
            claimed_epsilon=EPSILON,
            verified_epsilon=epsilon_of(DELTA, real_mu) if kind == PUBLISHED else EPSILON,
            delta=DELTA,
            run=run,
            width=width,
        )
        for panel, curve, kind, gain in found
    ]
    claims = [
        row(panel=panel, curve=CLAIM, calibration=NON_PRIVATE, x=n_sites, measure=GAIN, value=n_sites, run=run)
        for panel in (ALL, LOST)
    ]
    return rows + claims


def _same_noise(variance: Callable[[Cape | Independent, float], float], tau: float, real_mu: float) -> float:
    """Return the gain if both schemes use the papers' tau at each site, and CAPE the papers' split of it."""
    split = Cape(n_colluding=0, cancelling_ratio=1.0)
    return variance(Independent(), 1 / tau) / variance(split, real_mu)


def _uncorrected(n_sites: int, rng: np.random.Generator, width: int) -> float:
    """Simulate the gain without one message, so that the noise it should have cancelled remains."""
    draws = rng.normal(size=(n_sites, width))
    own = rng.normal(size=(n_sites, width)) / math.sqrt(n_sites)
    messages = draws - draws.mean(axis=0) + own
    independent = rng.normal(size=(n_sites - 1, width))
    return float(np.mean(independent.mean(axis=0) ** 2) / np.mean(messages[1:].mean(axis=0) ** 2))


def _lost_before(n_sites: int, rng: np.random.Generator, width: int) -> float:
    """Simulate the gain if a site is lost before the others agree on zero-sum noise; own noise is sized for all."""
    draws = rng.normal(size=(n_sites - 1, width))
    own = rng.normal(size=(n_sites - 1, width)) / math.sqrt(n_sites)
    messages = draws - draws.mean(axis=0) + own
    independent = rng.normal(size=(n_sites - 1, width))
    return float(np.mean(independent.mean(axis=0) ** 2) / np.mean(messages.mean(axis=0) ** 2))


def cells(setting: RunSetting) -> list[Cell]:
    """Return one cell per number of sites and run."""
    counts = setting.choose((4, 7, 12), (4, 5, 7, 10, 16, 25, 40))
    width = setting.choose(6000, 10_000)
    return [Cell(gains, {"n_sites": n, "run": run, "width": width}) for n in counts for run in setting.run_numbers(3)]


def draw(results: Results) -> Figure:
    """Draw the gains against the number of sites."""
    look = Look("sites S", "gain over independent noise", log_y=True)
    figure = draw_panels(results, look, measure=GAIN)
    counts = sorted(set(results.numbers("x")))
    for axes in figure.axes:
        plain_ticks(axes, x=counts, y=(2, 4, 8, 16, 32)[: len(counts) + 1])
    true_epsilon_note(figure, results, GAIN)
    return figure


def judge(results: Results) -> list[Verdict]:
    """Judge proposition 3.1 and the remark after it on lost sites."""
    return [
        _verdict(results, "With the same noise at each site the gain is S.", "proposition 3.1", SAME_NOISE),
        _verdict(results, "With the same guarantee the gain is S if no site colludes.", "proposition 3.1", SAFE),
        _verdict(
            results,
            "With the same guarantee and the papers' split the gain is S if no site colludes.",
            "proposition 3.1, equation 3.2",
            SPLIT,
        ),
        _verdict(
            results,
            "With the same guarantee the gain is S if ⌈S/3⌉ − 1 sites collude.",
            "proposition 3.1, theorem 3.1",
            COLLUDING,
        ),
        _verdict(
            results,
            "The gain stays S however many sites drop out (one lost before the noise was agreed).",
            "remark after proposition 3.1",
            BEFORE,
        ),
        _verdict(
            results,
            "The gain stays S however many sites drop out (one lost, nothing corrected).",
            "remark after proposition 3.1",
            UNCORRECTED,
        ),
        _verdict(
            results,
            "The gain stays S however many sites drop out (one lost, its share corrected).",
            "remark after proposition 3.1",
            CORRECTED,
        ),
    ]


def _verdict(results: Results, claim: str, where: str, curve: str) -> Verdict:
    """Judge whether the gain is S, up to chance and the 1% that cancelling noise of finite size costs.

    Each run measures thousands of numbers, and the tolerance allows for their chance: one run decides.
    """
    rows = results.where(curve=curve)
    by_sites = {n: rows.mean(x=n) / n for n in dict.fromkeys(rows.numbers("x"))}
    tolerance = 0.012 + 3 * standard_error(int(rows.numbers("width")[0]), len(rows.values("run")))
    met = [abs(ratio - 1) <= tolerance for ratio in by_sites.values()]
    shown = ", ".join(f"{ratio:.2f} S at {n:g} sites" for n, ratio in by_sites.items())
    return Verdict(claim, where, outcome_of(sum(met), len(met)), f"measured {shown}", measured=False)


WORK = Work(cells, draw, judge)
