"""How exact private correlations are, how often their intervals cover, and how often unrelated columns are found.

Run: python experiments/everyday/correlation.py [--runs 200] [--only coverage level size]

``correlation.json`` in this folder has the figures of docs/analyses/correlation.md.
``tests/inference/test_correlation.py`` runs a few cells with fewer repetitions.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, multivariate_normal, norm

from dpcape import Cape, Correlation, Federation, Independent, Replay, in_process, rows, table
from dpcape.core.errors import DpcapeWarning

Vector = NDArray[np.float64]
DELTA = 1e-5
LEVELS_OF_A_TABLE: dict[str, tuple[tuple[str, float], ...]] = {
    "arm": (("new", 0.3), ("old", 0.7)),
    "rare": (("yes", 0.05), ("no", 0.95)),
    "stage": (("iii", 0.15), ("ii", 0.35), ("i", 0.5)),
}
"""Categories of a table, each with its levels from the highest values of a normal variable down, and their shares."""
MIXED = "table"
"""Shape of columns that are typed: two numbers, two categories of two levels and one of three; some are missing."""
SEEN = (
    ("a", 0.0, 0.0),
    ("b", 0.0, 0.0),
    ("arm", 0.3, 0.0),
    ("rare", 0.05, 0.0),
    ("stage", 1.0, 0.5),
    ("stage", 0.5, 0.15),
    ("stage", 0.15, 0.0),
)
"""Columns of the matrix: column of the table, and shares above the ends of a level, the lower end first."""
FAMILY = 0.01
"""Probability with which all true claims of the grid together have one cell that is called false."""


@dataclass(frozen=True)
class Cell:
    """One setting: records, columns, epsilon, shape of the columns, whether they are related, sites."""

    n_records: int
    width: int
    epsilon: float
    shape: str = "normal"
    related: bool = True
    n_sites: int = 1
    as_given: bool = False

    def __str__(self) -> str:
        kind = self.shape if self.related else f"{self.shape}, unrelated"
        kind += ", standardised before" if self.as_given else ""
        return f"N{self.n_records}, D{self.width}, eps {self.epsilon:g}, {kind}, {self.n_sites} sites"


def truth(cell: Cell) -> Vector:
    """Return the correlations of the population: of neighbours 0.6, then 0.36, and so on."""
    if cell.shape == MIXED:
        return truth_of_table(cell.related)
    if not cell.related:
        return np.eye(cell.width)
    return neighbours(cell.width)


def neighbours(width: int) -> Vector:
    """Return correlations that fall off with the distance of columns."""
    places = np.arange(width)
    found: Vector = 0.6 ** np.abs(np.subtract.outer(places, places))
    return found


@cache
def truth_of_table(related: bool) -> Vector:
    """Return the correlations of numbers and levels that are parts of a normal distribution, by its integrals."""
    latent = neighbours(5) if related else np.eye(5)
    order = {name: at for at, name in enumerate(("a", "b", *LEVELS_OF_A_TABLE))}
    found = np.eye(len(SEEN))
    for first, second in combinations(range(len(SEEN)), 2):
        (one, *ends), (other, *other_ends) = SEEN[first], SEEN[second]
        rho = 1.0 if one == other else float(latent[order[one], order[other]])
        found[first, second] = found[second, first] = correlation_of_parts(rho, ends, other_ends)
    return found


def correlation_of_parts(rho: float, first: list[float], second: list[float]) -> float:
    """Return the correlation of two normal variables, or of indicators of intervals of them.

    An interval is given by the shares above its lower and above its upper end; both are 0 for the variable itself.
    """
    (low, high), (low_of_second, high_of_second) = np.clip(norm.isf([first, second]), -9, 9)
    if not any(second):
        return rho if not any(first) else correlation_of_parts(rho, second, first)
    share = second[0] - second[1]
    spread = math.sqrt(share * (1 - share))
    if not any(first):
        return float(rho * (norm.pdf(low_of_second) - norm.pdf(high_of_second)) / spread)
    if rho == 1.0:
        both = 0.0
    else:
        law = multivariate_normal(cov=[[1, rho], [rho, 1]])
        both = float(law.cdf([high, high_of_second], lower_limit=[low, low_of_second]))
    own = first[0] - first[1]
    return (both - own * share) / math.sqrt(own * (1 - own)) / spread


def population(cell: Cell, generator: np.random.Generator) -> Vector:
    """Return rows of columns with different centres and spreads."""
    shape = (cell.n_records, cell.width)
    if cell.shape == "exponential":
        raw = generator.exponential(size=shape) - 1
    elif cell.shape == "lognormal":
        raw = np.exp(0.5 * generator.standard_normal(shape))
    else:
        raw = generator.standard_normal(shape)
    raw = raw @ np.linalg.cholesky(truth(cell)).T
    if cell.shape == "t":
        # Rows whose lengths vary together: a multivariate t distribution with five degrees of freedom.
        raw = raw / np.sqrt(generator.chisquare(5, size=(cell.n_records, 1)) / 5)
    if cell.as_given:
        return np.asarray(raw)
    spreads = np.tile([1.0, 3.0, 0.5, 10.0], cell.width)[: cell.width]
    found: Vector = (raw + np.tile([0.0, 1.0, -1.0], cell.width)[: cell.width]) * spreads
    return found


def typed(cell: Cell, generator: np.random.Generator) -> dict[str, Any]:
    """Return the columns of a table: numbers, levels of normal variables, and values that are missing at random."""
    latent = neighbours(5) if cell.related else np.eye(5)
    values = generator.standard_normal((cell.n_records, 5)) @ np.linalg.cholesky(latent).T
    found: dict[str, Any] = {"a": values[:, 0], "b": 3 * values[:, 1] + 1}
    for (name, levels), column in zip(LEVELS_OF_A_TABLE.items(), values.T[2:], strict=True):
        ends = norm.isf(np.cumsum([share for _, share in levels[:-1]]))
        names = np.array([level for level, _ in levels], dtype=object)
        found[name] = names[(column[:, np.newaxis] < ends).sum(axis=1)]
    found["b"][generator.random(cell.n_records) < 0.05] = np.nan
    found["arm"][generator.random(cell.n_records) < 0.05] = None
    return found


def fitted_table(data: dict[str, Any], cell: Cell, seed: int) -> Correlation:
    """Return the fitted model of a table; its matrix is in the order of :data:`SEEN`."""
    levels = {name: [level for level, _ in reversed(entry)] for name, entry in LEVELS_OF_A_TABLE.items()}
    columns = {"a": (-8, 8), "b": (-24, 24), **levels}
    parts = np.array_split(np.arange(cell.n_records), cell.n_sites)
    held = {
        f"site-{at}": table({name: values[part] for name, values in data.items()}, columns=columns)
        for at, part in enumerate(parts)
    }
    return run(held, cell, seed, columns=list(columns))


def fitted(data: Vector, cell: Cell, seed: int) -> Correlation:
    """Return the fitted model; public ranges are generous, except for columns that were standardised before."""
    spreads = np.tile([1.0, 3.0, 0.5, 10.0], cell.width)[: cell.width]
    ranges = [(-8.0 * spread, 8.0 * spread) for spread in spreads]
    options: dict[str, Any] = {"bound": 1.2 * math.sqrt(cell.width)} if cell.as_given else {"ranges": ranges}
    held = {f"site-{at}": rows(part, **options) for at, part in enumerate(np.array_split(data, cell.n_sites))}
    return run(held, cell, seed, scale="none" if cell.as_given else "private")


def run(held: dict[str, Any], cell: Cell, seed: int, **parameters: Any) -> Correlation:
    """Return the model fitted to the records of all sites."""
    protocol = Independent() if cell.n_sites == 1 else Cape(n_colluding=1)
    federation = Federation(in_process(held, noise=Replay(seed)), protocol=protocol)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DpcapeWarning)
        return Correlation(epsilon=cell.epsilon, delta=DELTA, **parameters).fit(federation)


def fitted_cell(cell: Cell, run_number: int, salt: int) -> Correlation:
    """Return a model of new records of a cell."""
    generator = np.random.default_rng([run_number, cell.n_records, salt])
    if cell.shape == MIXED:
        return fitted_table(typed(cell, generator), cell, run_number)
    return fitted(population(cell, generator), cell, run_number)


def pair_of(cell: Cell, run_number: int) -> tuple[int, int]:
    """Return the pair of columns that a data set is asked about."""
    if cell.shape != MIXED:
        return (0, 1 + run_number % (cell.width - 1))
    pairs = [pair for pair in combinations(range(len(SEEN)), 2) if SEEN[pair[0]][0] != SEEN[pair[1]][0]]
    return pairs[run_number % len(pairs)]


def coverage(cell: Cell, runs: int) -> dict[str, Any]:
    """Return how often one interval covers; one pair per data set, so that trials are independent."""
    known, hits, width = truth(cell), 0, 0.0
    for run in range(runs):
        model = fitted_cell(cell, run, 3)
        pair = pair_of(cell, run)
        low, high = (float(end[pair]) for end in model.interval_)
        hits += bool(low <= known[pair] <= high)
        width += (high - low) / runs
    return {
        "cell": str(cell),
        "share": hits / runs,
        "p_value": float(binom.cdf(hits, runs, 0.95)),
        "width": width,
        "trials": runs,
    }


def level(cell: Cell, runs: int) -> dict[str, Any]:
    """Return how often a pair of unrelated columns is called determined, and how often one given pair is."""
    any_pair, one_pair = 0, 0
    for run in range(runs):
        model = fitted_cell(cell, run, 5)
        above = np.triu_indices(len(model.correlations_), 1)
        any_pair += bool((model.adjusted_p_values_[above] <= 0.05).any())
        one_pair += float(model.p_values_[pair_of(cell, run) if cell.shape == MIXED else (0, 1)]) <= 0.05
    return {
        "cell": str(cell),
        "share": any_pair / runs,
        "one pair": one_pair / runs,
        "p_value": float(binom.sf(max(any_pair, one_pair) - 1, runs, 0.05)),
        "trials": runs,
    }


def size(cell: Cell, runs: int) -> dict[str, Any]:
    """Return the error of the correlations, with and without noise, and the share of neighbours that are found."""
    known, above = truth(cell), np.triu_indices(cell.width, 1)
    private = exact = found = warned = 0.0
    for run in range(runs):
        data = population(cell, np.random.default_rng([run, cell.n_records, 7]))
        model = fitted(data, cell, run)
        private += float(np.mean((model.correlations_ - known)[above] ** 2)) / runs
        exact += float(np.mean((np.corrcoef(data, rowvar=False) - known)[above] ** 2)) / runs
        found += float(np.mean(np.diag(model.adjusted_p_values_, 1) <= 0.05)) / runs
        warned += any("useless" in text for text in model.warnings_) / runs
    return {
        "cell": str(cell),
        "rmse": math.sqrt(private),
        "rmse without noise": math.sqrt(exact),
        "found": found,
        "warned": warned,
        "runs": runs,
    }


COVERED = (
    Cell(800, 5, 3.0),
    Cell(800, 10, 1.0),
    Cell(5000, 10, 1.0),
    Cell(5000, 10, 1.0, "t"),
    Cell(20_000, 5, 3.0, "t", n_sites=4),
    Cell(50_000, 5, 3.0),
    Cell(20_000, 5, 3.0, "exponential", related=False),
    Cell(833, 10, 3.0, as_given=True),
    Cell(2000, 5, 3.0, MIXED),
    Cell(8000, 5, 1.0, MIXED, n_sites=4),
    Cell(50_000, 5, 3.0, MIXED),
)
LEVELS = (
    Cell(800, 5, 3.0, related=False),
    Cell(5000, 10, 1.0, "t", related=False),
    Cell(5000, 10, 3.0, "lognormal", related=False),
    Cell(50_000, 5, 3.0, "exponential", related=False),
    Cell(2000, 5, 3.0, MIXED, related=False),
    Cell(20_000, 5, 1.0, MIXED, related=False),
)
SIZES = tuple(
    Cell(n_records, width, epsilon)
    for width in (10, 40)
    for epsilon in (1.0, 3.0)
    for n_records in (833, 2000, 5000, 20_000)
)
STANDARDISED = (
    Cell(833, 10, 3.0, as_given=True),
    Cell(5000, 40, 3.0, as_given=True),
    Cell(833, 40, 1.0, as_given=True),
)


def main() -> None:
    """Run the parts that are asked for and write their figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--only", nargs="*", default=["coverage", "level", "size"])
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("correlation.json"))
    given = parser.parse_args()
    found: dict[str, Any] = json.loads(given.out.read_text("utf-8")) if given.out.exists() else {}
    if "coverage" in given.only:
        found["coverage"] = [coverage(cell, given.runs) for cell in COVERED]
    if "level" in given.only:
        found["level"] = [level(cell, given.runs) for cell in LEVELS]
    if "size" in given.only:
        found["size"] = [size(cell, max(4, given.runs // 20)) for cell in (*SIZES, *STANDARDISED)]
    judged = [*found.get("coverage", []), *found.get("level", [])]
    limit = FAMILY / max(len(judged), 1)
    found["refuted"] = [entry["cell"] for entry in judged if entry["p_value"] < limit]
    given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for part in given.only:
        for entry in found.get(part, []):
            print({name: round(value, 4) if isinstance(value, float) else value for name, value in entry.items()})
    print("refuted:", found["refuted"])


if __name__ == "__main__":
    main()
