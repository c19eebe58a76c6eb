"""The simulation of [KS18] section V.A: test error of the release and its competitors over sample sizes and factors.

The model is described in ``dpcape_papers.data.factor``; p = 10,000, 10 factors, 70 % training.

Run: python experiments/factor_release/simulation.py --out out/factor_release [--quick]
Writes simulation.csv, factors.csv, simulation.png and simulation.txt. Nothing is asserted about who wins.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpcape.core.errors import ConvergenceWarning
from dpcape.factor_release.factor_release import FactorRelease
from dpcape_papers.data.factor import simulate

Array = NDArray[np.float64]

N_FEATURES = 10_000
METHODS = ("proposed", "SVD", "two-stage", "best case: ridge on features", "worst case: covariates only")


def errors(n: int, n_features: int, seed: int, n_factors: int | str, *, n_burn_in: int) -> dict[str, object]:
    rng = np.random.default_rng([7, n, seed])
    X, y = simulate(n, n_features, rng)
    n_train = round(0.7 * n)
    model = FactorRelease(n_factors, n_burn_in=n_burn_in, n_draws=150, thin=1, n_chains=1, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # short chains; R-hat is written to the table instead
        model.fit(X[:n_train], y[:n_train], X_test=X[n_train:])
    truth = y[n_train:]
    error = model.test_error(truth)
    row: dict[str, object] = {"n": n, "seed": seed, "n_factors": model.n_factors_, "proposed": error.mse}
    row |= {"proposed_low": error.low, "proposed_high": error.high}
    row |= {name: float(np.mean((p - truth) ** 2)) for name, p in model.competitors().items()}
    fitted = model.recommended_
    row["lasso_fraction"] = fitted.lasso_fraction if fitted is not None else None
    row["r_hat"] = model.diagnostics_["log-likelihood"]["r_hat"]
    return row


def write_rows(path: Path, rows: Iterator[dict[str, object]]) -> list[dict[str, object]]:
    """Write rows as they come, so that an interrupted run leaves what it has."""
    done: list[dict[str, object]] = []
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer: csv.DictWriter[str] | None = None
        for row in rows:
            if writer is None:
                writer = csv.DictWriter(stream, list(row))
                writer.writeheader()
            writer.writerow({k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()})
            stream.flush()
            done.append(row)
    return done


def column(rows: list[dict[str, object]], name: str, n: int) -> Array:
    return np.array([float(str(row[name])) for row in rows if row["n"] == n])


def mean_and_error(values: Array) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def summary(rows: list[dict[str, object]], by_factors: list[dict[str, object]]) -> str:
    sizes = sorted({int(str(row["n"])) for row in rows})
    lines = ["Test mean squared error, mean +- standard error over data sets.", ""]
    for n in sizes:
        factors = column(rows, "n_factors", n).astype(int)
        lines.append(f"n = {n}, {len(factors)} data sets, adaptive number of factors {sorted(set(factors.tolist()))}")
        for name in METHODS:
            lines.append("  {:30s} {:7.3f} +- {:.3f}".format(name, *mean_and_error(column(rows, name, n))))
        for first, second in (("proposed", "SVD"), ("SVD", "two-stage"), ("proposed", "two-stage")):
            difference = mean_and_error(column(rows, first, n) - column(rows, second, n))
            lines.append("  {:30s} {:+7.3f} +- {:.3f}".format(f"{first} - {second}", *difference))
    lines += ["", "The paper claims proposed < SVD < two-stage at every n.", "", "By number of factors, n = 100:"]
    for k in sorted({int(str(row["n_factors"])) for row in by_factors}):
        values = np.array([float(str(row["proposed"])) for row in by_factors if row["n_factors"] == k])
        lines.append(f"  K = {k:2d}   proposed {values.mean():.3f}  ({len(values)} data sets)")
    return "\n".join(lines) + "\n"


def picture(rows: list[dict[str, object]], by_factors: list[dict[str, object]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    sizes = sorted({int(str(row["n"])) for row in rows})
    for shift, (name, mark) in enumerate(zip(METHODS[:4], "os^x", strict=True)):
        stats = [mean_and_error(column(rows, name, n)) for n in sizes]
        left.errorbar(
            np.array(sizes) + 3 * shift - 4.5,
            [s[0] for s in stats],
            yerr=[2 * s[1] for s in stats],
            marker=mark,
            capsize=3,
            label=name,
        )
    left.set(xlabel="subjects", ylabel="test mean squared error", title="by sample size (bars: 2 standard errors)")
    left.legend(frameon=False)
    counts = sorted({int(str(row["n_factors"])) for row in by_factors})
    for seed in sorted({row["seed"] for row in by_factors}, key=str):
        line = {int(str(r["n_factors"])): float(str(r["proposed"])) for r in by_factors if r["seed"] == seed}
        right.plot(counts, [line[k] for k in counts], marker="o", label=f"data set {seed}")
    right.set(xlabel="number of factors", ylabel="test mean squared error", title="by number of factors, n = 100")
    right.legend(frameon=False)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--quick", action="store_true", help="1,000 features, two data sets per size")
    parser.add_argument("--data-sets", type=int, default=8)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    p = 1000 if options.quick else N_FEATURES
    count = 2 if options.quick else options.data_sets
    sizes = (50, 100) if options.quick else (50, 100, 150, 200)
    burn = 200 if options.quick else 300
    rows = write_rows(
        options.out / "simulation.csv",
        (errors(n, p, seed, "adaptive", n_burn_in=burn) for seed in range(count) for n in sizes),
    )
    numbers = (5, 10, 15) if options.quick else (4, 6, 8, 10, 12, 16, 20)
    by_factors = write_rows(
        options.out / "factors.csv",
        (errors(100, p, seed, k, n_burn_in=100) for seed in range(min(count, 3)) for k in numbers),
    )
    text = summary(rows, by_factors)
    (options.out / "simulation.txt").write_text(text, encoding="utf-8")
    picture(rows, by_factors, options.out / "simulation.png")
    print(text)


if __name__ == "__main__":
    main()
