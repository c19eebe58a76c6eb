"""Brain connectivity to age: the release against best and worst case on real data (ABIDE I, AAL atlas, 6670 features).

The paper's own data (Philadelphia Neurodevelopmental Cohort, anxiety scores) are not public; age from connectivity of
ABIDE subjects takes their place, with sex as a covariate as in the paper.

Run: python experiments/factor_release/abide.py --data FOLDER --out out/factor_release [--subjects 200]
Writes abide.txt, abide.csv and the release with its risk report in abide/.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpcape.factor_release.factor_release import FactorRelease
from dpcape_papers.data.factor import load_abide
from dpcape_papers.experiments.data import DataFolder

Array = NDArray[np.float64]


def split(X: Array, age: Array, sex: Array, n: int, seed: int) -> dict[str, Array]:
    chosen = np.random.default_rng(seed).permutation(len(X))[:n]
    train, test = chosen[: round(0.7 * n)], chosen[round(0.7 * n) :]
    return {
        "X": X[train], "y": age[train], "sex": sex[train],
        "X_test": X[test], "y_test": age[test], "sex_test": sex[test],
    }  # fmt: skip


def run(
    data: dict[str, Array], seed: int, *, n_factors: int | str = "adaptive", n_burn_in: int = 400, n_draws: int = 200
) -> tuple[FactorRelease, dict[str, float]]:
    model = FactorRelease(n_factors, n_burn_in=n_burn_in, n_draws=n_draws, thin=1, n_chains=2, random_state=seed)
    model.fit(data["X"], data["y"], X_test=data["X_test"], covariates=data["sex"], covariates_test=data["sex_test"])
    error = model.test_error(data["y_test"])
    row = {"seed": seed, "n_factors": model.n_factors_, "proposed": error.mse, "low": error.low, "high": error.high}
    row |= {name: float(np.mean((p - data["y_test"]) ** 2)) for name, p in model.competitors().items()}
    return model, row


NUMBERS = (5, 10, 20, 40, 60)


def by_number(data: dict[str, Array], seed: int) -> list[tuple[int, float, float]]:
    """Return number of factors, held-out error on training subjects, and test error."""
    out = []
    for k in NUMBERS:
        model, row = run(data, seed, n_factors=k, n_burn_in=100, n_draws=100)
        held_out = model.recommended_.cv_error if model.recommended_ is not None else float("nan")
        out.append((k, held_out, row["proposed"]))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--subjects", type=int, default=200)
    parser.add_argument("--splits", type=int, default=4)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    X, age, sex = load_abide(DataFolder(options.data))
    rows = []
    for seed in range(options.splits):
        model, row = run(split(X, age, sex, options.subjects, seed), seed)
        rows.append(row)
        if seed == 0:
            model.release(options.out / "abide")
    with (options.out / "abide.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    lines = [f"Test mean squared error of age (years squared), {options.subjects} subjects, {len(rows)} splits:"]
    for name in rows[0]:
        values = np.array([row[name] for row in rows])
        if name not in ("seed",):
            lines.append(f"  {name:30s} {values.mean():8.2f}   {np.round(values, 2).tolist()}")
    lines += ["", "By number of factors, first split (held-out error on training subjects; test error):"]
    first = split(X, age, sex, options.subjects, 0)
    lines += [f"  K = {k:3d}   {held:8.2f}   {test:8.2f}" for k, held, test in by_number(first, 0)]
    text = "\n".join(lines) + "\n"
    (options.out / "abide.txt").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
