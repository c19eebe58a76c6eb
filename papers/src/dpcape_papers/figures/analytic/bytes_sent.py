"""Table 3.1: bytes sent by each scheme, counted in real runs."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TypedDict

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpcape.core.errors import UtilityWarning
from dpcape.core.messages import Submit, decode_to_site
from dpcape.core.noise import Replay
from dpcape.core.protocols.cape import Cape
from dpcape.core.protocols.dealer import Dealer
from dpcape.core.protocols.independent import Independent
from dpcape.core.protocols.protocol import Protocol
from dpcape.core.protocols.secure_sum import SecureSum
from dpcape.estimators.clusters.kmeans import KMeans
from dpcape.estimators.clusters.mixture_model import MixtureModel
from dpcape.estimators.estimator import FederatedEstimator
from dpcape.estimators.linear.linear_regression import LinearRegression
from dpcape.estimators.linear.logistic_regression import LogisticRegression
from dpcape.estimators.mean import Mean
from dpcape.estimators.networks.network_classifier import NetworkClassifier
from dpcape.estimators.pca import PCA
from dpcape.estimators.views.cca import CCA
from dpcape.federation.federation import Federation
from dpcape.records import labelled, rows, views
from dpcape.records.kinds import Records
from dpcape.site.in_process import in_process
from dpcape.statistics.moments import first_moments
from dpcape.transport.transport import Passing, Transport
from dpcape_papers.experiments.curves import Look, draw_curves, plain_ticks
from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.experiment import Cell, RunSetting, Verdict, Work
from dpcape_papers.experiments.results import EXACT, PUBLISHED, Results, Row, row
from dpcape_papers.verdicts import outcome_of

EPSILON, DELTA = 1.0, 1e-5
SITE, AGGREGATOR, RELEASES = "bytes of one site", "bytes of the aggregator", "bytes of the releases"
ANALYSES = "bytes of one site by analysis"
SCHEMES: dict[str, Callable[[], Protocol]] = {
    "conventional": Independent,
    "CAPE": lambda: Cape(n_colluding=1),
    "secure sum (Bonawitz et al.)": lambda: SecureSum(n_colluding=1),
    "dealer (capeCCA)": lambda: Dealer(n_colluding=1),
}
HEIKKILA, N_NODES = "Heikkilä et al. (formula, 5 nodes)", 5


class CountingLine(Passing):
    """A transport that counts the bytes of every message in both directions."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.n_bytes: dict[str, int] = {}
        self.of_releases = 0

    def ask(
        self, messages_by_site: Mapping[str, bytes], deadline: float | None
    ) -> tuple[dict[str, bytes], tuple[str, ...]]:
        replies, missing = super().ask(messages_by_site, deadline)
        for name, data in (*messages_by_site.items(), *replies.items()):
            self.n_bytes[name] = self.n_bytes.get(name, 0) + len(data)
        asked = [name for name in replies if isinstance(decode_to_site(messages_by_site[name])[1], Submit)]
        self.of_releases += sum(len(replies[name]) for name in asked)
        return replies, missing

    def of_a_site(self) -> int:
        """Return the bytes of the site that sends and receives most."""
        return max(self.n_bytes[name] for name in self.sites)

    def of_the_aggregator(self) -> int:
        """Return the bytes that pass through the aggregator, including the dealer's messages."""
        return sum(self.n_bytes.values())


def schemes(data: DataFolder, *, panel: str, n_sites: int, widths: Sequence[int], varies: str) -> list[Row]:
    """Return the bytes of one release under every protocol, for several numbers of values released."""
    result: list[Row] = []
    for width in widths:
        for curve, make in SCHEMES.items():
            held = {f"site-{index:03}": rows(np.zeros((2, width // 2)), bound=1.0) for index in range(n_sites)}
            line = CountingLine(in_process(held, noise=Replay(0)))
            federation = Federation(line, protocol=make())
            federation.allow(EPSILON, DELTA).mean(first_moments(federation.facts))
            counts = {SITE: line.of_a_site(), AGGREGATOR: line.of_the_aggregator(), RELEASES: line.of_releases}
            result += _rows(panel, curve, n_sites, width, varies, counts)
        formula = {SITE: 8 * width * N_NODES, AGGREGATOR: 8 * (n_sites + 1) * width * N_NODES}
        result += _rows(panel, HEIKKILA, n_sites, width, varies, formula)
    return result


def _rows(panel: str, curve: str, n_sites: int, width: int, varies: str, counts: Mapping[str, int]) -> list[Row]:
    return [
        row(
            panel=panel,
            curve=curve,
            calibration=PUBLISHED if curve == HEIKKILA else EXACT,
            x=n_sites if varies == "sites" else width,
            measure=measure,
            value=value,
            n_sites=n_sites,
            n_numbers=width,
        )
        for measure, value in counts.items()
    ]


def analyses(data: DataFolder, *, n_sites: int) -> list[Row]:
    """Return the bytes that one site sends and receives in complete analyses under CAPE with 20 features."""
    rng = np.random.default_rng(0)  # protects nothing
    result = []
    for name, (make_records, estimator) in _analyses(rng).items():
        line = CountingLine(in_process({f"site-{k}": make_records() for k in range(n_sites)}, noise=Replay(0)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UtilityWarning)  # only bytes matter here
            model = estimator.fit(Federation(line, protocol=Cape(n_colluding=1)))
        result.append(
            row(
                panel=ANALYSES,
                curve=name,
                calibration=EXACT,
                x=len(model.releases_),
                measure=SITE,
                value=line.of_a_site(),
                n_sites=n_sites,
            )
        )
    return result


class Budget(TypedDict):
    """The epsilon and delta of an estimator."""

    epsilon: float
    delta: float


def _analyses(rng: np.random.Generator) -> dict[str, tuple[Callable[[], Records], FederatedEstimator]]:
    X, y = rng.normal(size=(400, 20)) / 5, rng.integers(0, 2, 400)
    budget: Budget = {"epsilon": 10.0, "delta": DELTA}

    def plain() -> Records:
        return rows(X, bound=1.0)

    def classes() -> Records:
        return labelled(X, y, bound=1.0, classes=[0, 1])

    return {
        "Mean": (plain, Mean(**budget)),
        "PCA": (plain, PCA(3, **budget, center=False)),
        "CCA": (lambda: views(X[:, :10], X[:, 10:], bounds=(1.0, 1.0)), CCA(2, **budget, center=False)),
        "LinearRegression": (lambda: labelled(X, y, bound=1.0, response=(0, 1)), LinearRegression(**budget)),
        "LogisticRegression": (classes, LogisticRegression(**budget)),
        "MixtureModel": (plain, MixtureModel(2, noise_variance=0.04, **budget)),
        "KMeans": (plain, KMeans(3, **budget)),
        "NetworkClassifier": (classes, NetworkClassifier(20, **budget)),
    }


def cells(setting: RunSetting) -> list[Cell]:
    """Return cells by number of values released, by number of sites, and for complete analyses."""
    widths = setting.choose((10, 100, 1000, 10_000), (10, 100, 1000, 10_000, 100_000))
    counts = setting.choose((3, 5, 10, 20), (3, 5, 10, 20, 40, 80))
    by_width = [
        Cell(schemes, {"panel": "5 sites", "n_sites": 5, "widths": list(widths), "varies": "numbers"}),
    ]
    by_sites = [
        Cell(schemes, {"panel": "100 numbers", "n_sites": n, "widths": [100], "varies": "sites"}) for n in counts
    ]
    return [*by_width, *by_sites, Cell(analyses, {"n_sites": 5})]


def draw(results: Results) -> Figure:
    """Draw bytes by number of values and of sites, and bytes of complete analyses."""
    figure = plt.figure(figsize=(14, 8), layout="constrained")
    grid = figure.subplots(2, 3)
    for line, measure in enumerate((SITE, AGGREGATOR)):
        for column, (panel, label) in enumerate((("5 sites", "numbers released"), ("100 numbers", "sites"))):
            series = results.series(panel=panel, measure=measure)
            draw_curves(grid[line][column], series, Look(label, measure, log_y=True))
            grid[line][column].set_title(panel, fontsize="medium")
        plain_ticks(grid[line][1], x=sorted({float(x) for x in series[0].x}))
    _bars(grid[0][2], results.where(panel=ANALYSES))
    handles, labels = grid[0][0].get_legend_handles_labels()
    grid[1][2].axis("off")
    grid[1][2].legend(handles, [label.split(" (verified)")[0] for label in labels], loc="center", frameon=False)
    return figure


def _bars(axes: Axes, results: Results) -> None:
    names = [f"{r['curve']} ({r['x']:g})" for r in results]
    values = [value / 1000 for value in results.numbers("value")]
    bars = axes.barh(names, values, color="#009E73")
    axes.bar_label(bars, [f" {value:,.0f}" for value in values], fontsize="small")
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(1, max(values) * 6)
    axes.set_xlabel("kilobytes of one site under CAPE, 5 sites, 20 features")
    axes.set_title("whole analyses (releases)", fontsize="medium")


def judge(results: Results) -> list[Verdict]:
    """Judge the orders of growth of table 3.1."""
    verdicts = [
        _growth(results, "CAPE", SITE, "100 numbers", 1.0, "A site of CAPE sends O(S + D): linear in the sites."),
        _growth(results, "CAPE", SITE, "5 sites", 1.0, "A site of CAPE sends O(S + D): linear in the values."),
        _growth(
            results, "CAPE", AGGREGATOR, "100 numbers", 2.0,
            "CAPE's aggregator handles O(S² + S D): at most quadratic in the number of sites.",
        ),
        _growth(
            results, "CAPE", AGGREGATOR, "5 sites", 1.0,
            "CAPE's aggregator handles O(S² + S D): at most linear in the number of values.",
        ),
        _growth(
            results, "conventional", RELEASES, "100 numbers", 1.0,
            "Conventional averaging sends S D numbers: its releases are linear in the number of sites.",
        ),
    ]  # fmt: skip
    return [*verdicts, _cheaper(results)]


def _growth(results: Results, curve: str, measure: str, panel: str, order: float, claim: str) -> Verdict:
    """Judge whether the steepest step between neighbouring points grows no faster than the claimed order."""
    found = results.where(curve=curve, measure=measure, panel=panel)
    points = sorted(zip(found.numbers("x"), found.numbers("value"), strict=True))
    slopes = [math.log(after[1] / before[1]) / math.log(after[0] / before[0]) for before, after in pairwise(points)]
    steepest = max(slopes)
    ends = f"{points[0][1]:,.0f} bytes at {points[0][0]:g}, {points[-1][1]:,.0f} at {points[-1][0]:g}"
    return Verdict(
        claim,
        "table 3.1, section 3.3.5",
        "holds" if steepest <= order + 0.05 else "fails",
        f"steepest growth x^{steepest:.2f}, at the end x^{slopes[-1]:.2f}; {ends}",
        measured=False,
    )


def _cheaper(results: Results) -> Verdict:
    """Compare what the table counts, numbers; the bytes of a real run, with keys and signatures, are stated beside it.

    CAPE: S^2 + S D for the secure sum, S D for the releases. Heikkilä et al.: (S + 1) D M.
    """
    found = results.where(measure=AGGREGATOR, panel="5 sites")
    widths = sorted(set(found.numbers("x")))
    n_sites = int(found.numbers("n_sites")[0])
    fewer = [n_sites**2 + 2 * n_sites * n < (n_sites + 1) * n * N_NODES for n in widths]
    in_bytes = {n: found.mean(curve="CAPE", x=n) / found.mean(curve=HEIKKILA, x=n) for n in widths}
    return Verdict(
        "CAPE sends less than the scheme of Heikkilä et al. (5 compute nodes).",
        "table 3.1",
        outcome_of(sum(fewer), len(fewer)),
        f"fewer numbers, as the table counts them, at {sum(fewer)} of {len(fewer)} sizes; in bytes of a real run, with "
        "keys and signatures: "
        + ", ".join(f"{ratio:.2g} times as much at {n:g} numbers" for n, ratio in in_bytes.items()),
        measured=False,
    )


WORK = Work(cells, draw, judge)
