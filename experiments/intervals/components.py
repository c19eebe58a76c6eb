"""How often intervals of means and eigenvalues cover, and tests of components and correlations reject: the full grid.

Run: python experiments/intervals/components.py [--runs 200] [--only mean pca cca] [--out FILE]

Every cell is a synthetic population, a bound (right or wrong), an epsilon and a protocol. For each, the script prints
coverage (or the share of rejections where there is nothing to find), its exact one-sided binomial p-value, and the
median width (or the power). ``components.json`` in this folder has the figures of
docs/analyses/intervals_components.md.
``tests/inference/test_components.py`` runs a few cells with fewer repetitions.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from dpcape import CCA, PCA, Cape, Federation, Independent, Mean, Replay, in_process, rows, views
from dpcape.core.errors import DpcapeWarning
from dpcape.estimators.scaling import private_scaling
from dpcape.postprocessing.scaling import Scaling

Matrix = NDArray[np.float64]
DELTA, LEVEL = 1e-5, 0.05
FAMILY = 0.01
"""Probability with which a grid of true 95% intervals and 5% tests may have one cell that is called false."""
SIZES = (0.48, 0.08, 0.24, 0.2)


@dataclass(frozen=True)
class Cell:
    """One setting.

    Attributes
    ----------
    analysis : what is computed: "mean", "pca" or "cca".
    shape : distribution of the entries: "uniform", "normal", "laplace" or "skewed" (exponential).
    width : columns; of each view for two.
    n_records : records, all sites together.
    epsilon : privacy parameter.
    bound : times the length that 95% of the rows stay below; None for no bound but public ranges.
    mean : mean of the entries, in standard deviations.
    options : parameters of the analysis.
    strong : strengths of the components or correlations that are there; the next one is none.
    sites : 1, or 4 under CAPE with one colluding; with "lost" one of them never answers.
    """

    analysis: str
    shape: str
    width: int
    n_records: int
    epsilon: float
    bound: float | None = 1.0
    mean: float = 0.0
    options: tuple[tuple[str, Any], ...] = ()
    strong: tuple[float, ...] = ()
    sites: str = "one"

    @property
    def label(self) -> str:
        """Return the cell in words."""
        parts = [self.shape, f"D{self.width}", f"N{self.n_records:g}", f"eps {self.epsilon:g}"]
        parts.append("ranges" if self.bound is None else f"bound x{self.bound:g}")
        parts += [f"mean {self.mean:g} sd"] if self.mean else []
        parts += [f"{name}={value}" for name, value in self.options]
        parts += ["behind " + ", ".join(f"{value:g}" for value in self.strong)] if self.strong else []
        return f"{self.analysis}: " + ", ".join(parts) + ("" if self.sites == "one" else f", {self.sites}")


@dataclass(frozen=True)
class Found:
    """What runs of a cell gave.

    Attributes
    ----------
    hits : covered entries, or rejections where there is nothing to find.
    trials : how many were counted.
    size : median width relative to the true spread, or the share of runs in which what is there was found.
    share_of_noise : for correlations, the share of runs of unrelated views above ``noise_level_``.
    """

    hits: int
    trials: int
    size: float
    share_of_noise: float = 0.0


class Losing:
    """In-process sites of which one never answers after the study began."""

    def __new__(cls, held: dict[str, Any], noise: Replay) -> Any:
        line = in_process(held, noise=noise)

        class Line(type(line)):  # type: ignore[misc]
            def ask(self, messages_by_site: Any, deadline: float | None) -> Any:
                replies, missing = super().ask(messages_by_site, deadline)
                lost = [site for site, data in messages_by_site.items() if site == "site1" and b"Submit" in data]
                return {site: reply for site, reply in replies.items() if site not in lost}, (*missing, *lost)

        return Line(line._sites, line._dealer)


def entries(cell: Cell, generator: np.random.Generator, width: int) -> Matrix:
    """Return independent entries of mean 0 and standard deviation 1."""
    shape = (cell.n_records, width)
    if cell.shape == "uniform":
        return generator.uniform(-np.sqrt(3), np.sqrt(3), size=shape)
    if cell.shape == "laplace":
        return generator.laplace(size=shape) / np.sqrt(2)
    if cell.shape == "skewed":
        return generator.exponential(size=shape) - 1
    return generator.standard_normal(shape)


def federation(cell: Cell, parts: Callable[[slice], Any], seed: int) -> Federation:
    """Return one site, or four of unequal sizes under CAPE."""
    if cell.sites == "one":
        return Federation(
            in_process({"here": parts(slice(None))}, noise=Replay(seed)),
            protocol=Independent(),
            accept_large_delta=True,
        )
    ends = np.concatenate([[0], np.cumsum(np.round(np.array(SIZES) * cell.n_records).astype(int))])
    held = {f"site{at}": parts(slice(ends[at], ends[at + 1])) for at in range(4)}
    protocol = Cape(n_colluding=1, minimum_sites=3)
    line = Losing(held, Replay(seed)) if cell.sites == "lost" else in_process(held, noise=Replay(seed))
    return Federation(line, protocol=protocol, accept_large_delta=True)


def usual_length(cell: Cell, width: int) -> float:
    """Return the length that 95% of the rows stay below, from a sample nobody else uses."""
    sample = entries(replace(cell, n_records=20_000), np.random.default_rng(99), width) + cell.mean
    return float(np.quantile(np.linalg.norm(sample, axis=1), 0.95))


def run_mean(cell: Cell, n_runs: int, seed: int) -> Found:
    """Count how often the intervals contain the population mean; of clipped rows if there are no ranges."""
    generator = np.random.default_rng([seed, cell.width, cell.n_records])
    wide = 12.0
    # A bound without ranges is about clipped rows: their mean is found from many of them.
    bound = None if cell.bound is None else cell.bound * usual_length(cell, cell.width)
    ranged = cell.bound is None or dict(cell.options).get("ranges", False)
    truth = np.full(cell.width, cell.mean)
    if not ranged:
        truth = clipped_mean(cell, bound)
    hits, widths = 0, []
    for run in range(n_runs):
        X = np.clip(entries(cell, generator, cell.width) + cell.mean, -wide, wide)
        ranges = [(-wide, wide)] * cell.width if ranged else None
        inner = None if bound is None else (bound / wide if ranged else bound)
        made = federation(cell, lambda part: rows(X[part], bound=inner, ranges=ranges), seed * 10**5 + run)  # noqa: B023
        model = Mean(epsilon=cell.epsilon, delta=DELTA).fit(made)
        low, high = model.original_interval_
        hits += int(np.sum((low <= truth) & (truth <= high)))
        widths.append(float(np.median(high - low)))
    return Found(hits, n_runs * cell.width, float(np.median(widths)))


def clipped_mean(cell: Cell, bound: float) -> Matrix:
    """Return the mean of clipped rows, from a hundred times as many as a study has: its own error does not count."""
    generator, parts = np.random.default_rng(7), []
    for _ in range(100):
        many = entries(replace(cell, n_records=max(cell.n_records, 4000)), generator, cell.width) + cell.mean
        many *= np.minimum(1, bound / np.linalg.norm(many, axis=1))[:, np.newaxis]
        parts.append(many.mean(axis=0))
    return np.asarray(np.mean(parts, axis=0))


def run_pca(cell: Cell, n_runs: int, seed: int) -> Found:
    """Count how often the component after the strong ones is called determined, and how often the strong ones are."""
    generator = np.random.default_rng([seed, cell.width, cell.n_records])
    k = len(cell.strong)
    bound = None if cell.bound is None else cell.bound * usual_length(cell, cell.width)
    turn = np.linalg.qr(np.random.default_rng(5).normal(size=(cell.width, cell.width)))[0]
    options = {"center": True, **dict(cell.options)}
    false, found = 0, 0
    for run in range(n_runs):
        X = entries(cell, generator, cell.width)
        X[:, :k] *= cell.strong
        X = (X @ turn if cell.shape == "normal" else X) + cell.mean
        ranges = [(-40.0, 40.0)] * cell.width if bound is None else None
        made = federation(cell, lambda part: rows(X[part], bound=bound, ranges=ranges), seed * 10**5 + run)  # noqa: B023
        p_values = PCA(k + 1, epsilon=cell.epsilon, delta=DELTA, **options).fit(made).p_values_
        false += int(p_values[k] <= LEVEL)
        found += int(np.all(p_values[:k] <= LEVEL))
    return Found(false, n_runs, found / n_runs if k else float("nan"))


def clipped_around(model: PCA, made: Federation) -> Matrix:
    """Fit, and return the mean around which rows were clipped: the one that is released first, not ``mean_``."""
    kept = [Scaling(np.zeros(made.n_features), np.ones(made.n_features), np.ones(1), made.facts.widths)]

    def keeping(*given: Any, **options: Any) -> Scaling:
        kept.append(private_scaling(*given, **options))
        return kept[-1]

    with patch("dpcape.estimators.pca.private_scaling", keeping):
        model.fit(made)
    return kept[-1].centre


def run_eigenvalues(cell: Cell, n_runs: int, seed: int) -> Found:
    """Count runs in which all intervals contain the eigenvalues of the sample's clipped rows."""
    generator = np.random.default_rng([seed, cell.width, cell.n_records])
    bound = cell.bound * usual_length(cell, cell.width) if cell.bound is not None else 1.0
    options = {"center": True, **dict(cell.options)}
    hits, widths = 0, []
    for run in range(n_runs):
        X = (entries(cell, generator, cell.width)) * np.linspace(2, 1, cell.width) + cell.mean
        made = federation(cell, lambda part: rows(X[part], bound=bound), seed * 10**5 + run)  # noqa: B023
        model = PCA(cell.width, epsilon=cell.epsilon, delta=DELTA, **options)
        centre = clipped_around(model, made)
        clipped = X * np.minimum(1, bound / np.linalg.norm(X, axis=1))[:, np.newaxis]
        if options["center"]:
            clipped = clipped - centre
            clipped *= np.minimum(1, model.radius_ / np.linalg.norm(clipped, axis=1))[:, np.newaxis]
            truth = np.linalg.eigvalsh(np.cov(clipped.T, bias=True))[::-1]
        else:
            truth = np.linalg.eigvalsh(clipped.T @ clipped / len(X))[::-1]
        low, high = model.interval_
        hits += int(np.all((low <= truth * (1 + 1e-3)) & (truth * (1 - 1e-3) <= high)))
        widths.append(float((high[0] - low[0]) / truth[0]))
    return Found(hits, n_runs, float(np.median(widths)))


def run_cca(cell: Cell, n_runs: int, seed: int) -> Found:
    """Count how often the pair after the related ones is called determined, and how often the related ones are."""
    generator = np.random.default_rng([seed, cell.width, cell.n_records])
    k = len(cell.strong)
    bounds = None if cell.bound is None else (cell.bound * usual_length(cell, cell.width),) * 2
    options = {"center": True, **dict(cell.options)}
    false, found, above = 0, 0, 0
    for run in range(n_runs):
        X, Y = entries(cell, generator, cell.width), entries(cell, generator, cell.width)
        for at, related in enumerate(cell.strong):
            Y[:, at] = related * X[:, at] + np.sqrt(1 - related**2) * Y[:, at]
        # The second view is in other units.
        X, Y = X + cell.mean, 1e3 * (Y + cell.mean)
        spec = None if bounds is not None else ([(-40.0, 40.0)] * cell.width, [(-4e4, 4e4)] * cell.width)
        lengths = (None, None) if bounds is None else (bounds[0], 1e3 * bounds[1])
        made = federation(cell, lambda part: views(X[part], Y[part], bounds=lengths, ranges=spec), seed * 10**5 + run)  # noqa: B023
        model = CCA(k + 1, epsilon=cell.epsilon, delta=DELTA, **options).fit(made)
        false += int(model.p_values_[k] <= LEVEL)
        found += int(np.all(model.p_values_[:k] <= LEVEL))
        above += int(model.correlations_[0] > model.noise_level_)
    return Found(false, n_runs, found / n_runs if k else float("nan"), above / n_runs)


RUNNERS: dict[str, Callable[[Cell, int, int], Found]] = {
    "mean": run_mean,
    "pca": run_pca,
    "eigenvalues": run_eigenvalues,
    "cca": run_cca,
}
COVERS = ("mean", "eigenvalues")


def p_value(cell: Cell, found: Found) -> float:
    """Return the exact one-sided p-value of "covers at least 95%", or of "rejects at most 5%"."""
    if cell.analysis in COVERS:
        return float(binom.cdf(found.hits, found.trials, 1 - LEVEL))
    return float(binom.sf(found.hits - 1, found.trials, LEVEL))


def run(cell: Cell, n_runs: int, seed: int = 1) -> Found:
    """Run a cell."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DpcapeWarning)
        return RUNNERS[cell.analysis](cell, n_runs, seed)


def grid() -> list[Cell]:
    """Return all cells."""
    ranged = (("ranges", True),)
    cells = [
        Cell("mean", shape, width, n, epsilon, bound, mean, options)
        for shape, width, n, epsilon, mean in (
            ("uniform", 3, 400, 1.0, 0.0),
            ("uniform", 3, 400, 0.1, 2.0),
            ("skewed", 3, 400, 10.0, 1.0),
            ("skewed", 3, 2000, 1.0, 3.0),
            ("laplace", 10, 20_000, 1.0, 1.0),
            ("skewed", 50, 20_000, 3.0, 1.0),
            ("normal", 5, 200_000, 0.1, 2.0),
        )
        for bound, options in ((None, ()), (0.5, ranged), (1.0, ranged), (20.0, ranged), (1.0, ()), (200.0, ()))
    ]
    cells += [
        Cell("mean", "skewed", 3, 5000, 1.0, bound, 1.0, options, sites=sites)
        for bound, options in ((None, ()), (1.0, ranged))
        for sites in ("four", "lost")
    ]
    for shape, width, n, epsilon, bound, mean, strong in (
        ("normal", 5, 400, 1.0, 1.0, 0.0, ()),
        ("normal", 5, 2000, 5.0, 3.0, 1.0, (4.0,)),
        ("laplace", 5, 2000, 5.0, 3.0, 1.0, (4.0,)),
        ("skewed", 5, 2000, 10.0, 5.0, 1.0, ()),
        ("normal", 5, 20_000, 0.1, 2.0, 3.0, (4.0,)),
        ("normal", 20, 2000, 5.0, 2.0, 1.0, (5.0,)),
        ("normal", 20, 20_000, 1.0, 20.0, 0.0, (5.0, 4.0)),
        ("laplace", 3, 20_000, 10.0, 3.0, 0.0, ()),
        ("normal", 50, 20_000, 1.0, 2.0, 0.5, (6.0,)),
        ("normal", 5, 200_000, 1.0, None, 1.0, (3.0,)),
    ):
        cells.append(Cell("pca", shape, width, n, epsilon, bound, mean, (), strong))
    for width, n, epsilon, bound, mean, center in (
        (3, 400, 1.0, 1.0, 0.0, False),
        (3, 2000, 1.0, 5.0, 3.0, True),
        (10, 20_000, 1.0, 200.0, 1.0, True),
        (5, 5000, 10.0, 1.0, 1.0, True),
    ):
        cells.append(Cell("eigenvalues", "normal", width, n, epsilon, bound, mean, (("center", center),)))
    private = (("scale", "private"),)
    for shape, width, n, epsilon, bound, mean, options, strong in (
        ("normal", 3, 400, 1.0, 1.0, 0.0, (("center", False),), ()),
        ("normal", 5, 2000, 1.0, 1.0, 3.0, (), ()),
        ("skewed", 5, 2000, 5.0, 3.0, 1.0, private, ()),
        ("normal", 5, 2000, 1.0, 1.0, 0.0, (), (0.3,)),
        ("laplace", 5, 2000, 10.0, 200.0, 1.0, private, ()),
        ("normal", 5, 20_000, 0.1, 5.0, 1.0, private, (0.9,)),
        ("normal", 20, 20_000, 1.0, 2.0, 1.0, private, (0.9, 0.6)),
        ("skewed", 3, 20_000, 10.0, None, 0.0, private, (0.1,)),
        ("normal", 5, 200_000, 1.0, 1.0, 1.0, (), ()),
        ("normal", 3, 642, 1.0, None, 1.0, private, ()),
    ):
        cells.append(Cell("cca", shape, width, n, epsilon, bound, mean, options, strong))
    cells += [
        Cell(name, "normal", 4, 5000, 1.0, 2.0, 1.0, sites=sites)
        for name in ("pca", "cca")
        for sites in ("four", "lost")
    ]
    return cells


def main() -> None:
    """Run the grid, print it, and write it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--only", nargs="*", default=list(RUNNERS))
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("components.json"))
    given = parser.parse_args()
    cells = [cell for cell in grid() if cell.analysis in given.only]
    results = []
    for cell in cells:
        # Large samples take long; their cells are decided by fewer runs.
        n_runs = max(40, given.runs // 4) if cell.n_records >= 100_000 or cell.width >= 50 else given.runs
        found = run(cell, n_runs)
        share, p = found.hits / found.trials, p_value(cell, found)
        results.append({"cell": cell.label, "share": share, "p_value": p, **asdict(found)})
        print(f"{cell.label:90s} {share:.3f} of {found.trials}  p {p:.3g}  size {found.size:.3g}", flush=True)
        given.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    worst = min(result["p_value"] for result in results)
    print(f"smallest p-value {worst:.3g}; a cell is called false below {FAMILY / len(results):.2g}")


if __name__ == "__main__":
    main()
