"""Run the comparisons of chapter 8 and section 3.4 and print them: ``python -m experiments.regression.run [--quick]``.

Losses are those of the prepared, clipped records the sites use. Every dpcape figure uses replayable noise, so it
can be checked to the last digit; what is obtained with it protects nobody.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from experiments.regression import data
from numpy.typing import NDArray

from dpcape import (
    Cape,
    Exact,
    Federation,
    Independent,
    LinearRegression,
    LogisticRegression,
    NetworkClassifier,
    Replay,
    in_process,
)
from dpcape.core.errors import UtilityWarning
from dpcape.metrics import log_loss, squared_loss
from dpcape_papers.baselines import regression as baselines
from dpcape_papers.published import regression as published

Vector = NDArray[np.float64]
# The functional mechanism, whose figures these are (docs/analyses/intervals_regression.md has the others).
ONE_RELEASE: dict[str, Any] = {"purpose": "prediction", "n_iter": 0}
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)


def schemes(study: data.Study) -> dict[str, tuple[Any, Any]]:
    """Return the ways to share noise that are compared, with the records each uses."""
    largest = max(study.sites, key=lambda name: len(study.sites[name]))
    return {
        "cape": (Cape(n_colluding=1), study.records()),
        "conventional": (Independent(), study.records()),
        "pooled": (Independent(), study.pooled()),
        "local": (Independent(), study.records((largest,))),
    }


def mean_loss(loss: Callable[[int], float], n_runs: int) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)
        return round(float(np.mean([loss(seed) for seed in range(n_runs)])), 5)


def fitted(model: Any, scheme: tuple[Any, Any], seed: int) -> Any:
    protocol, records = scheme
    return model.fit(Federation(in_process(records, noise=Replay(seed)), protocol=protocol, accept_large_delta=True))


def linear_table(study: data.Study, *, delta: float, n_runs: int, **options: Any) -> dict[str, Any]:
    """Return the mean squared loss of each method at each epsilon."""
    low, high = study.options["response"]
    X = clipped(study)
    y = np.clip(study.target, low, high)

    def dpcape(name: str, scheme: tuple[Any, Any], epsilon: float) -> float:
        def loss(seed: int) -> float:
            model = fitted(LinearRegression(epsilon=epsilon, delta=delta, **ONE_RELEASE, **options), scheme, seed)
            return squared_loss(y, model.predict(X))

        return mean_loss(loss, n_runs)

    table = {name: [dpcape(name, scheme, epsilon) for epsilon in EPSILONS] for name, scheme in schemes(study).items()}
    table |= linear_baselines(X / study.bound, y, (low, high), n_runs)
    table["non-private"] = [dpcape("exact", (Exact(), study.records()), 1.0)] * len(EPSILONS)
    middle = np.full_like(y, (low + high) / 2)
    table["zero model"] = [round(squared_loss(y, middle), 5)] * len(EPSILONS)
    return table


def linear_baselines(X: Vector, y: Vector, response: tuple[float, float], n_runs: int) -> dict[str, Any]:
    """Return the losses of the competitors, on unit rows and responses in [-1, 1], in response units."""
    middle, half = (response[0] + response[1]) / 2, (response[1] - response[0]) / 2
    mapped = (y - middle) / half
    table = {}
    for name, method in (
        ("dp-fm (Laplace)", baselines.laplace_functional_mechanism),
        ("objective perturbation", baselines.objective_perturbation_linear),
    ):

        def loss(seed: int, epsilon: float, method: Any = method) -> float:
            fit = method(X, mapped, epsilon, np.random.default_rng(seed))
            return squared_loss(mapped, X @ fit.coefficients) * half**2

        table[name] = [mean_loss(lambda seed, e=epsilon: loss(seed, e), n_runs) for epsilon in EPSILONS]
    return table


def logistic_table(study: data.Study, *, delta: float, n_runs: int, **options: Any) -> dict[str, Any]:
    """Return the log-loss of each method at each epsilon."""
    X, labels = clipped(study), study.target

    def dpcape(scheme: tuple[Any, Any], epsilon: float) -> float:
        def loss(seed: int) -> float:
            model = fitted(LogisticRegression(epsilon=epsilon, delta=delta, **ONE_RELEASE, **options), scheme, seed)
            return log_loss(labels, model.predict_proba(X))

        return mean_loss(loss, n_runs)

    def perturbed(epsilon: float) -> Callable[[int], float]:
        def loss(seed: int) -> float:
            rows = np.column_stack([X, np.full(len(X), study.bound)]) / (study.bound * np.sqrt(2))
            source = np.random.default_rng(seed)
            fit = baselines.objective_perturbation_logistic(rows, labels, epsilon, source)
            second = 1 / (1 + np.exp(-rows @ fit.coefficients))
            return log_loss(labels, np.stack([1 - second, second], axis=1))

        return loss

    table = {name: [dpcape(scheme, epsilon) for epsilon in EPSILONS] for name, scheme in schemes(study).items()}
    table["objective perturbation"] = [mean_loss(perturbed(epsilon), n_runs) for epsilon in EPSILONS]
    table["non-private"] = [dpcape((Exact(), study.records()), 1.0)] * len(EPSILONS)
    return table


def network_table(*, n_runs: int) -> dict[str, Any]:
    """Return test accuracies (mean and standard error) of the network of section 3.4."""
    test = data.two_gaussians(10_000, seed=999)
    table: dict[str, Any] = {}
    for name, protocol in (("cape", Cape(n_colluding=1)), ("conventional", Independent())):
        table[name] = []
        for epsilon in (0.1, 0.5, 1.0, 3.0, 10.0):
            scores = [network_score(protocol, epsilon, seed, test) for seed in range(n_runs)]
            error = float(np.std(scores, ddof=1)) / np.sqrt(n_runs)
            table[name].append([round(float(np.mean(scores)), 4), round(float(error), 4)])
    return table


def network_score(protocol: Any, epsilon: float, seed: int, test: data.Study) -> float:
    study = data.two_gaussians(10_000, seed=seed)
    model = NetworkClassifier(20, epsilon=epsilon, delta=1e-5, random_state=seed)
    score: float = fitted(model, (protocol, study.records()), seed).score(clipped(test), test.target)
    return score


def covertype_network(*, epsilon: float = 1.0, **options: Any) -> float:
    """Return the training accuracy of the network on the seven cover types."""
    study = data.covertype(binary=False)
    model = NetworkClassifier(30, epsilon=epsilon, delta=1e-5, **options)
    score: float = fitted(model, (Cape(n_colluding=1), study.records()), 0).score(clipped(study), study.target)
    return round(score, 4)


def claims() -> dict[str, Any]:
    """Return claimed and verified epsilons of the papers' calibrations (delta 1e-5, five sites, one colluding)."""
    result = {}
    for model in ("linear", "logistic"):
        for epsilon in EPSILONS:
            found = published.capefm(model, epsilon=epsilon, delta=1e-5, n_sites=5, n_colluding=1)
            result[f"capeFM {model}, claimed {epsilon}"] = round(found.verified_epsilon, 4)
    found = published.network(epsilon=0.5, delta=1e-5, n_iter=20, n_sites=4, n_colluding=1)
    result["network, 20 rounds of 0.5"] = round(found.verified_epsilon, 4)
    return result


def clipped(study: data.Study) -> Vector:
    lengths = np.linalg.norm(study.features, axis=1, keepdims=True)
    rows: Vector = study.features * (study.bound / np.maximum(lengths, study.bound))
    return rows


def everything(*, quick: bool) -> dict[str, Any]:
    runs = 3 if quick else 10
    centred = {"fit_intercept": False}
    results = {
        "claimed and verified": claims(),
        "linear D=20": linear_table(data.linear(20, 20_000), delta=1e-5, n_runs=runs, **centred),
        "linear D=50": linear_table(data.linear(50, 20_000), delta=1e-5, n_runs=runs, **centred),
        "logistic D=20": logistic_table(data.logistic(20, 20_000), delta=1e-5, n_runs=runs),
        "logistic D=50": logistic_table(data.logistic(50, 20_000), delta=1e-5, n_runs=runs),
        "network accuracy (mean, standard error)": network_table(n_runs=2 if quick else 20),
    }
    if data.DATA.exists():
        results |= {
            "crime": linear_table(data.crime(), delta=1e-3, n_runs=runs),
            "blog": linear_table(data.blog(), delta=1e-3, n_runs=runs),
            "abide age": linear_table(data.abide(), delta=1e-3, n_runs=runs),
            "covertype, lodgepole pine": logistic_table(data.covertype(binary=True), delta=1e-5, n_runs=2),
            "covertype, seven types, accuracy": covertype_network(n_iter=60),
        }
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer runs")
    parser.add_argument("--out", type=Path, help="write the results as JSON")
    arguments = parser.parse_args()
    results = everything(quick=arguments.quick)
    text = json.dumps({"epsilons": EPSILONS, **results}, indent=1)
    print(text)
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
