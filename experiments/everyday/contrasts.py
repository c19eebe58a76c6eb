"""How exact adjusted contrasts are, whether their tests hold their level, and from which size on they are useful.

Run: python experiments/everyday/contrasts.py [--runs 400] [--only NAME ...]

``contrasts.json`` in this folder has the figures of docs/analyses/contrasts.md; a cell that is run replaces its entry.
``tests/inference/test_contrasts.py`` runs a cell with fewer repetitions.
"""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import binomtest

from dpcape import Cape, Federation, Independent, MassUnivariate, Replay, in_process, table
from dpcape.core.errors import DpcapeWarning
from dpcape.estimators.contrasts.residualiser import false_discovery_rates

Vector = NDArray[np.float64]
DELTA = 1e-5
HALF_RANGE = 4.0
PATH = Path(__file__).with_suffix(".json")


@dataclass(frozen=True)
class Cell:
    """A simulated consortium.

    Attributes
    ----------
    n_records, n_sites, n_outcomes : how many there are.
    epsilon : privacy parameter.
    site_sd : standard deviation of the means of sites, in standard deviations of an outcome within sites.
    shared : variance that all outcomes have in common.
    effect : difference in the first 30% of the outcomes.
    cape : whether every site is a site of a federation under CAPE; else one holder has all records.
    """

    n_records: int
    n_sites: int
    n_outcomes: int
    epsilon: float
    site_sd: float = 0.3
    shared: float = 0.3
    effect: float = 0.2
    cape: bool = False


CELLS = {
    "2000": Cell(2_000, 10, 68, 3.0),
    "5000-epsilon-1": Cell(5_000, 20, 68, 1.0),
    "5000": Cell(5_000, 20, 68, 3.0),
    "5000-strong-sites": Cell(5_000, 20, 68, 3.0, site_sd=0.9),
    "5000-cape": Cell(5_000, 20, 68, 3.0, cape=True),
    "10000-epsilon-1": Cell(10_000, 30, 68, 1.0),
    "40000": Cell(40_000, 20, 68, 3.0),
    "833": Cell(833, 15, 14, 3.0),
    "2000-epsilon-1": Cell(2_000, 20, 14, 1.0),
    "one-outcome": Cell(2_000, 10, 1, 1.0),
}


@dataclass(frozen=True)
class People:
    """Simulated people of all sites."""

    site: NDArray[np.int64]
    dx: Vector
    age: Vector
    sex: Vector
    outcomes: Vector
    truth: Vector

    def columns(self, kept: NDArray[np.bool_] | slice = slice(None)) -> dict[str, Any]:
        """Return the columns of a table."""
        named = {f"y{at}": column[kept] for at, column in enumerate(self.outcomes.T)}
        others = {"dx": self.dx, "age": self.age, "sex": self.sex, "site": self.site}
        return {**named, **{name: column[kept] for name, column in others.items()}}


def people(cell: Cell, generator: np.random.Generator) -> People:
    """Return people whose diagnosis depends on site, age and sex, as their outcomes do."""
    n, n_sites, n_outcomes = cell.n_records, cell.n_sites, cell.n_outcomes
    sizes = generator.multinomial(n - 20 * n_sites, generator.dirichlet(np.full(n_sites, 3.0))) + 20
    site = np.repeat(np.arange(n_sites), sizes)
    centre = generator.normal(0, 10, n_sites)[site]
    age = np.clip(50 + centre + generator.normal(0, 12, n), 10, 90)
    sex = (generator.random(n) < 0.5).astype(float)
    share = np.clip(generator.normal(0.5, 0.1, n_sites), 0.2, 0.8)[site]
    odds = np.log(share / (1 - share)) + 0.03 * (age - 50 - centre) + 0.3 * (sex - 0.5)
    dx = (generator.random(n) < 1 / (1 + np.exp(-odds))).astype(float)
    common = np.sqrt(cell.shared) * generator.normal(size=(n, 1))
    outcomes = common + np.sqrt(1 - cell.shared) * generator.normal(size=(n, n_outcomes))
    outcomes += generator.normal(0, cell.site_sd, (n_sites, n_outcomes))[site]
    outcomes += 0.015 * np.outer(age - 50, generator.choice([-1.0, 1.0], n_outcomes)) + 0.2 * sex[:, np.newaxis]
    truth = np.where(np.arange(n_outcomes) < 0.3 * n_outcomes, cell.effect, 0.0)
    return People(site, dx, age, sex, outcomes + np.outer(dx, truth), truth)


def federation_of(cell: Cell, found: People, seed: int) -> Federation:
    """Return the federation of a cell."""
    columns = {
        **{f"y{at}": (-HALF_RANGE, HALF_RANGE) for at in range(cell.n_outcomes)},
        "dx": {"levels": [0, 1]},
        "age": (10, 90),
        "sex": {"levels": [0, 1]},
        "site": {"levels": list(range(cell.n_sites))},
    }
    if cell.cape:
        held = {f"site-{at:02d}": table(found.columns(found.site == at), columns=columns) for at in range(cell.n_sites)}
        return Federation(in_process(held, noise=Replay(seed)), protocol=Cape(n_colluding=1))
    return Federation(
        in_process({"all": table(found.columns(), columns=columns)}, noise=Replay(seed)), protocol=Independent()
    )


def pooled(cell: Cell, found: People) -> tuple[Vector, Vector, Vector]:
    """Return d, p-values and the standard deviations within groups of ordinary least squares on pooled records."""
    design = np.column_stack([found.dx, found.age, found.sex, np.eye(cell.n_sites)[found.site]])
    coefficients, *_ = np.linalg.lstsq(design, found.outcomes, rcond=None)
    residuals = found.outcomes - design @ coefficients
    freedom = len(design) - design.shape[1]
    errors = np.sqrt((residuals**2).sum(axis=0) / freedom * np.linalg.inv(design.T @ design)[0, 0])
    centred = found.outcomes - np.outer(found.dx, coefficients[0])
    within = centred.std(axis=0)
    return coefficients[0] / within, 2 * ndtr(-np.abs(coefficients[0] / errors)), within


def run(cell: Cell, n_runs: int, first_seed: int = 1) -> dict[str, float]:
    """Return errors, levels, coverage and power over simulated data sets."""
    errors, reference, p_values, pooled_p, covered = [], [], [], [], []
    for seed in range(first_seed, first_seed + n_runs):
        found = people(cell, np.random.default_rng(seed))
        d, p, within = pooled(cell, found)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DpcapeWarning)
            model = MassUnivariate("dx", epsilon=cell.epsilon, delta=DELTA, covariates=["age", "sex"], site="site")
            model.fit(federation_of(cell, found, seed))
        truth = found.truth / within
        errors.append(model.d_ - truth)
        reference.append(d - truth)
        p_values.append(model.p_values_)
        pooled_p.append(p)
        covered.append((model.d_interval_[0] <= truth) & (truth <= model.d_interval_[1]))
    return _figures(
        cell, np.array(errors), np.array(reference), np.array(p_values), np.array(pooled_p), np.array(covered)
    )


def _figures(
    cell: Cell, errors: Vector, reference: Vector, p_values: Vector, pooled_p: Vector, covered: Vector
) -> dict[str, float]:
    is_null = np.arange(cell.n_outcomes) >= 0.3 * cell.n_outcomes
    if not is_null.any():
        is_null = np.full(1, fill_value=cell.effect == 0)

    def power(values: Vector) -> float:
        rates = np.array([false_discovery_rates(row) for row in values])
        return float((rates[:, ~is_null] <= 0.05).mean()) if not is_null.all() else float("nan")

    def size(values: Vector) -> float:
        return float(np.sqrt((values**2).mean()))

    found = {
        "runs": len(errors),
        "rmse": size(errors),
        "rmse_pooled": size(reference),
        "ratio": size(errors) / size(reference),
        "coverage": float(covered.mean()),
        "power": power(p_values),
        "power_pooled": power(pooled_p),
    }
    if is_null.any():
        # Outcomes of one data set depend on each other: one of each makes the exact test.
        hits = int((p_values[:, is_null][:, 0] <= 0.05).sum())
        found |= {
            "type_1": float((p_values[:, is_null] <= 0.05).mean()),
            "type_1_pooled": float((pooled_p[:, is_null] <= 0.05).mean()),
            "type_1_first": hits / len(errors),
            "p_above_level": float(binomtest(hits, len(errors), 0.05, alternative="greater").pvalue),
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--only", nargs="*", choices=list(CELLS), default=list(CELLS))
    given = parser.parse_args()
    kept = json.loads(PATH.read_text()) if PATH.exists() else {}
    for name in given.only:
        figures = run(CELLS[name], given.runs)
        kept[name] = {"cell": asdict(CELLS[name]), **{key: round(value, 4) for key, value in figures.items()}}
        print(name, {key: value for key, value in kept[name].items() if key != "cell"}, flush=True)
        PATH.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
