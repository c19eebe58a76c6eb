"""Figure 3.5: accuracy of a network classifier by epsilon per round and by number of records.

Your own method receives ``task.sites`` (site -> rows and labels 0 or 1) and the options ``n_rounds``, ``n_hidden`` and
``bound``. It returns a fitted model with a method ``score(X, y)``. Epsilon is per round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from dpcape.core.arrays import FloatArray, IntArray
from dpcape.core.noise import Replay
from dpcape.core.privacy.gaussian import epsilon_of, mu_of
from dpcape.core.protocols.cape import Cape
from dpcape.core.protocols.exact import Exact
from dpcape.core.protocols.independent import Independent
from dpcape.core.protocols.protocol import Protocol
from dpcape.estimators.networks.network_classifier import NetworkClassifier
from dpcape.federation.federation import Federation
from dpcape.records import labelled
from dpcape.site.in_process import in_process
from dpcape_papers.experiments.comparison import Measure, Method, MethodResult, Task, compare, load_method
from dpcape_papers.experiments.curves import Look, draw_curves, legend_below, true_epsilon_note
from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.experiment import Cell, RunSetting, Verdict, Work
from dpcape_papers.experiments.results import NON_PRIVATE, PUBLISHED, VERIFIED, Results, Row
from dpcape_papers.published.cape import true_kappa
from dpcape_papers.published.regression import classical_multiplier
from dpcape_papers.verdicts import Curve, Tally, Trend, Yardstick, compare_curves, privacy_claim, ratios, reached, trend
from dpcape_papers.verdicts.comparing import by_point

N_SITES, N_COLLUDING, WIDTH, N_HIDDEN, N_ROUNDS = 4, 1, 50, 5, 20
# The authors' results fit this distance: without noise nearly every record is classified correctly.
HALF_DISTANCE = 0.5
DELTA = 0.01  # per round, in the papers' noise
TRAIN, TEST = "train accuracy", "test accuracy"
BY_EPSILON, BY_RECORDS = "by epsilon per round", "by number of records"
EPSILON_OF_RECORDS = 0.5
ACCURACY = Yardstick("larger")
CAPE, CONVENTIONAL, FREE = "CAPE", "conventional", "non-private"
BEST = Curve(FREE, NON_PRIVATE)


def sample(n_records: int, half_distance: float, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
    """Return two unit Gaussians whose means differ by twice ``half_distance`` in every coordinate, and their labels."""
    labels = rng.integers(0, 2, n_records)
    return rng.standard_normal((n_records, WIDTH)) + half_distance * (2 * labels[:, None] - 1), labels


def make_task(n_records: int, half_distance: float, run: int) -> Task:
    """Return 70% of the records at four sites and the rest for testing, as in the authors' script."""
    rng = np.random.default_rng([run, n_records])  # protects nothing
    X, y = sample(n_records, half_distance, rng)
    cut = round(0.7 * n_records)
    sites = {f"site-{k}": (X[k:cut:N_SITES], y[k:cut:N_SITES]) for k in range(N_SITES)}
    options = {
        "n_rounds": N_ROUNDS,
        "n_hidden": N_HIDDEN,
        # Public: rows of this distribution hardly ever exceed it.
        "bound": 1.2 * math.sqrt(WIDTH * (1 + half_distance**2)),
        "train": (X[:cut], y[:cut]),
        "test": (X[cut:], y[cut:]),
    }
    return Task(sites, DELTA, options)


def method(curve: str, kind: str, protocol: Protocol, mu_of_round: Callable[[float], float]) -> Method:
    """Return a method that trains the network with this protocol, and with noise of this mu per round."""

    def fit(task: Task, epsilon: float, seed: int) -> MethodResult:
        mu = mu_of_round(epsilon)
        model = train(task, protocol, mu, seed)
        if kind == PUBLISHED:
            return MethodResult(model, epsilon_of(task.delta, mu))
        # The fit's guarantee is for all rounds; each round has an equal share of its mu.
        real = epsilon_of(task.delta, min(mu, model.guarantee_.mu / math.sqrt(task.options["n_rounds"])))
        return MethodResult(model, real, model.guarantee_)

    return Method(curve, kind, fit)


def train(task: Task, protocol: Protocol, mu: float, seed: int) -> NetworkClassifier:
    """Train the network in a federation; ``mu`` is that of one round against the aggregator and the colluding sites."""
    records = {name: labelled(X, y, bound=task.options["bound"], classes=[0, 1]) for name, (X, y) in task.sites.items()}
    total = mu * math.sqrt(task.options["n_rounds"])
    # All (epsilon, delta) pairs of this mu describe the same noise; tiny epsilons need a small delta.
    delta = 1e-2 if epsilon_of(1e-2, total) > 0.1 else 1e-6
    model = NetworkClassifier(
        task.options["n_hidden"],
        epsilon=epsilon_of(delta, total),
        delta=delta,
        n_iter=task.options["n_rounds"],
        random_state=seed,
    )
    return model.fit(Federation(in_process(records, noise=Replay(seed)), protocol=protocol, accept_large_delta=True))


def methods() -> list[Method]:
    """Return the figure's methods, each with published and with verified noise."""
    exposure = math.sqrt(true_kappa(N_SITES, N_COLLUDING))
    split, cape = Cape(n_colluding=N_COLLUDING, cancelling_ratio=1.0), Cape(n_colluding=N_COLLUDING)
    return [
        method(CAPE, PUBLISHED, split, lambda epsilon: exposure / classical_multiplier(epsilon, DELTA)),
        method(CONVENTIONAL, PUBLISHED, Independent(), lambda epsilon: 1 / classical_multiplier(epsilon, DELTA)),
        method(CAPE, VERIFIED, cape, lambda epsilon: mu_of(epsilon, DELTA)),
        method(CONVENTIONAL, VERIFIED, Independent(), lambda epsilon: mu_of(epsilon, DELTA)),
    ]


def _free(task: Task, epsilon: float, seed: int) -> MethodResult:
    return MethodResult(train(task, Exact(), 1.0, seed), None)


MEASURES: dict[str, Measure] = {
    TRAIN: lambda model, task: model.score(*task.options["train"]),
    TEST: lambda model, task: model.score(*task.options["test"]),
}


def by_epsilon(
    data: DataFolder, *, epsilons: Sequence[float], n_records: int, run: int, methods: Sequence[str] = ()
) -> list[Row]:
    """Train every method at every epsilon per round."""
    task = make_task(n_records, HALF_DISTANCE, run)
    rows = compare(task, _all(methods), panel=BY_EPSILON, epsilons=epsilons, run=run, seed=run, measures=MEASURES)
    free = compare(
        task, [Method(FREE, NON_PRIVATE, _free)], panel=BY_EPSILON, epsilons=[1.0], run=run, seed=run, measures=MEASURES
    )
    drawn = rows + [{**r, "x": epsilon} for r in free for epsilon in epsilons]
    return [{**r, "n_records": n_records} for r in drawn]


def by_records(
    data: DataFolder, *, sizes: Sequence[int], epsilon: float, run: int, methods: Sequence[str] = ()
) -> list[Row]:
    """Train every method with every number of records."""
    rows: list[Row] = []
    for n_records in sizes:
        task = make_task(n_records, HALF_DISTANCE, run)
        everybody = [Method(FREE, NON_PRIVATE, _free), *_all(methods)]
        rows += compare(
            task, everybody, panel=BY_RECORDS, epsilons=[epsilon], run=run, seed=run, measures=MEASURES, x=n_records
        )
    return rows


def _all(names: Sequence[str]) -> list[Method]:
    return [*methods(), *(load_method(name) for name in names)]


def cells(setting: RunSetting) -> list[Cell]:
    """Return one cell per run and row of the figure."""
    epsilons = setting.choose((1e-3, 1e-2, 1e-1, 5.0), (1e-3, 5e-3, 1e-2, 5e-2, 1e-1, 5e-1, 1.0, 5.0))
    sizes = setting.choose((1000, 4000), (1000, 2000, 3000, 4000, 5000, 7000, 8000, 10_000))
    runs = setting.run_numbers(3)
    first = [
        Cell(by_epsilon, {"epsilons": list(epsilons), "n_records": setting.choose(5000, 10_000), "run": run})
        for run in runs
    ]
    second = [Cell(by_records, {"sizes": list(sizes), "epsilon": EPSILON_OF_RECORDS, "run": run}) for run in runs]
    return first + second


def draw(results: Results) -> Figure:
    """Draw the four panels: epsilon and records, train and test."""
    figure, grid = plt.subplots(1, 4, figsize=(15, 4.9), layout="constrained", sharey=True)
    panels = [(panel, measure) for panel in (BY_EPSILON, BY_RECORDS) for measure in (TRAIN, TEST)]
    for axes, (panel, measure) in zip(grid, panels, strict=True):
        look = Look("ε per round" if panel == BY_EPSILON else "N", measure)
        draw_curves(axes, results.series(panel=panel, measure=measure), look)
        axes.set_title(
            f"synthetic, {_fixed(results.where(panel=panel), panel)}, {measure.split()[0]}", fontsize="medium"
        )
    legend_below(figure)
    true_epsilon_note(figure, results, TEST)
    return figure


def _fixed(results: Results, panel: str) -> str:
    """Return the fixed setting of a panel in words."""
    if panel == BY_EPSILON:
        return f"N = {results[0]['n_records']:,}"
    return f"ε per round {results.where(curve=CAPE)[0]['claimed_epsilon']:g}"


def judge(results: Results) -> list[Verdict]:
    """Judge the claims of section 3.4."""
    test = results.where(measure=TEST)
    verdicts = []
    for kind in (PUBLISHED, VERIFIED):
        cape, conventional = Curve(CAPE, kind), Curve(CONVENTIONAL, kind)
        here = f"noise {kind}"
        epsilon, records = test.where(panel=BY_EPSILON), test.where(panel=BY_RECORDS)
        verdicts += [
            _counted(
                f"CAPE is more accurate than conventional ({here}).", compare_curves(test, cape, conventional, ACCURACY)
            ),
            _counted(
                f"CAPE and conventional get better with epsilon ({here}).",
                trend(epsilon, cape, ACCURACY, BEST) + trend(epsilon, conventional, ACCURACY, BEST),
            ),
            _counted(
                f"CAPE and conventional get better with N ({here}).",
                trend(records, cape, ACCURACY, BEST) + trend(records, conventional, ACCURACY, BEST),
            ),
            _reaches(epsilon, cape, here),
            _gap(records, kind, here),
        ]
    return [*verdicts, _private(test)]


def _counted(claim: str, found: Tally | Trend) -> Verdict:
    return Verdict(claim, "section 3.4", found.outcome, str(found))


def _reaches(test: Results, cape: Curve, here: str) -> Verdict:
    found = ratios(test, cape, BEST)[BY_EPSILON]
    near = [epsilon for epsilon, ratio in found.items() if ratio > 0.99]
    text = f"within 1% from epsilon {min(near):g}" if near else f"at best {max(found.values()):.3f} of it"
    return Verdict(
        f"CAPE reaches the non-private accuracy at moderate epsilon ({here}).",
        "section 3.4",
        reached([bool(near)]),
        text,
    )


def _gap(records: Results, kind: str, here: str) -> Verdict:
    """Compare CAPE's largest lead over conventional with its lead at the smallest N, run by run."""
    ours, theirs = (by_point(records, Curve(name, kind))[BY_RECORDS] for name in (CAPE, CONVENTIONAL))
    leads = {n: {run: value - theirs[n][run] for run, value in runs.items()} for n, runs in ours.items()}
    means = {n: float(np.mean(list(lead.values()))) for n, lead in leads.items()}
    least, widest = min(means), max(means, key=lambda n: means[n])
    full = _at_the_ceiling(records, kind, least)
    found = ACCURACY.compare(leads[widest], leads[least]) if widest > least else Tally(worse=int(not full))
    return Verdict(
        f"CAPE's lead over conventional is smaller when N is quite small ({here}).",
        "section 3.4",
        found.outcome,
        "CAPE's lead in accuracy: "
        + ", ".join(f"{lead:+.3f} at N = {n:g}" for n, lead in means.items())
        + ("; at larger N both are as accurate as without noise, so that no lead can grow" if full else ""),
    )


def _at_the_ceiling(records: Results, kind: str, least: float) -> bool:
    """Return whether conventional is within 1% of the non-private accuracy at every N above the least."""
    found = ratios(records, Curve(CONVENTIONAL, kind), BEST).get(BY_RECORDS, {})
    return all(ratio >= 0.99 for n, ratio in found.items() if n > least)


def _private(test: Results) -> Verdict:
    outcome, numbers = privacy_claim(test, CAPE)
    total = epsilon_of(1e-5, math.sqrt(N_ROUNDS * true_kappa(N_SITES, N_COLLUDING)) / classical_multiplier(1.0, DELTA))
    numbers += (
        f", per round; {N_ROUNDS} rounds with a claimed epsilon of 1 each have {total:.3g} in total at delta 1e-5"
    )
    claim = "Each round is (epsilon, 0.01)-private for every site."
    return Verdict(claim, "section 3.4, theorem 3.1", outcome, numbers, measured=False)


WORK = Work(cells, draw, judge)
