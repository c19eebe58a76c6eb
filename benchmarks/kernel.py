"""Totals of this checkout over those of another: ratios of process CPU time, one thread, for every statistic.

``python benchmarks/kernel.py --against CHECKOUT [NAME...]`` starts one worker per checkout. Both make the same records
and the same statistics, and compute totals in turn. A ratio is the median of the ratios of paired rounds.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from timing import CpuTimes, show

HERE = Path(__file__).parent
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
GOAL, GOAL_OF_MEDIAN, GOAL_OF_MOMENTS = 1.6, 1.2, 1.1
SECOND_MOMENTS = {"second_moment", "centred_moments", "site_centred_moments", "regression_moment"}
N_RECORDS = {20: 200_000, 100: 60_000}
# Share of rows that are clipped.
CLIPPED = 0.1


def normal(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


@functools.cache
def features(width: int) -> tuple[np.ndarray, float]:
    """Return rows, and a bound that clips some of them."""
    X = normal(N_RECORDS[width], width)
    return X, float(np.quantile(np.linalg.norm(X, axis=1), 1 - CLIPPED))


@functools.cache
def of_kind(kind: str, width: int):
    """Return records: rows, or rows with a response, with counts or with so many classes."""
    from dpcape import labelled, rows

    X, bound = features(width)
    if kind == "rows":
        return rows(X, bound=bound)
    if kind == "response":
        return labelled(X, np.clip(X[:, 0] / 3, -1, 1), bound=bound, response=(-1, 1))
    if kind == "counts":
        return labelled(X, np.exp(np.clip(X[:, 0], -2, 2)), bound=bound, response=(0, 20))
    codes = np.random.default_rng(2).integers(0, int(kind), len(X))
    return labelled(X, codes, bound=bound, classes=range(int(kind)))


@functools.cache
def typed(width: int):
    """Return a table of numbers, categories of three levels, and a time to an event."""
    from dpcape import table
    from dpcape.core.facts import PublicColumn, PublicEvent, PublicFacts, TypedColumns
    from dpcape.records.from_numbers import schema_of, table_values

    half = width // 2
    columns = [PublicColumn(f"number{at}", "number", -1.0, 1.0) for at in range(half)]
    columns += [PublicColumn(f"level{at}", "category", levels=("a", "b", "c")) for at in range(half, width)]
    columns += [PublicColumn("days", "number", 0.0, 100.0), PublicColumn("died", "category", levels=("no", "yes"))]
    facts = PublicFacts(
        kind="table",
        unit="record",
        n_records=1,
        widths=(len(columns),),
        bounds=(1.0,),
        typed=TypedColumns(tuple(columns), (PublicEvent("survival", "days", "died", "yes"),)),
    )
    numbers = 0.5 * normal(N_RECORDS[width] // 2, len(columns))
    # Some values are missing.
    numbers[normal(*numbers.shape, seed=2) > 3] = 99.0
    return table(table_values(facts, numbers), columns=schema_of(facts))


@functools.cache
def people():
    from dpcape import subjects

    series = list(normal(40, 300, 400))
    return subjects(series, bound=21.0, unit="subject", rows_per_subject=300, n_features=400)


@functools.cache
def words(n_documents: int, n_words: int):
    from dpcape import documents

    return documents(np.random.default_rng(1).poisson(20 / n_words, (n_documents, n_words)))


def of_rows(width: int) -> dict[str, tuple]:
    """Return name, kind of records and public values of statistics of rows."""
    from dpcape import Template
    from dpcape.statistics.basis_moments import of_basis
    from dpcape.statistics.third_moments import whitened_radius

    directions = np.linalg.qr(normal(width, 6))[0]
    centre, scale = 0.1 * normal(width), 1 + 0.1 * np.abs(normal(width))
    basis = of_basis(Template(directions))
    maps = {"kept": np.array([4]), "scores": normal(4, 2), "offset": normal(1, 2), "residual_scale": np.array([8.0])}
    centres, clip = normal(5, width), features(width)[1]
    three = {"whitener": directions, "clip": 3.0, "noise_variance": 0.1}
    three["radius"] = whitened_radius(directions, clip=3.0, noise_variance=0.1)
    infomax = {"projection": directions, "unmixing": normal(6, 6), "bias": normal(6), "clip": 9.0, "bias_clip": 1.0}
    mixture = {"means": normal(4, width), "weights": np.full(4, 0.25), "noise_variance": 1.0, "clip": 3.0}
    inner = {
        "first_moments": {},
        "second_moment": {},
        "centred_moments": {"mean_weight": 0.5},
        "site_centred_moments": {"n_sites": 5},
        "clipped_means": {"clipping_weight": 0.5},
        "cluster_sums": {"centres": centres},
        "basis_moments": basis,
        "centred_basis_moments": {**basis, "mean_weight": 0.5},
        "residual_maps": {**basis, **maps},
    }
    alone = {
        "absolute_deviations": {"centre": centre},
        "radius_histogram": {"centre": centre, "scale": scale, "top": np.array([clip])},
        "recentred_cluster_sums": {"centre": centre, "centres": centres, "clip": clip},
        "reduced_cluster_sums": {"centre": centre, "projection": directions, "centres": normal(5, 6), "clip": 4.0},
        "reduced_second_moment": {"projection": directions, "clip": 3.0},
        "fourth_moment": {"projection": directions, "clip": 3.0},
        "infomax_scores": infomax,
        "mixture_step": {**mixture, "count_weight": 1.0},
        "whitened_third_moment": three,
    }
    seen = {"centre": centre, "scale": scale, "radius": np.array([clip])}
    found = {name: ("rows", public) for name, public in (inner | alone).items()}
    return found | {f"scaled_{name}": ("rows", {**seen, **public}) for name, public in inner.items()}


def of_labels(width: int) -> dict[str, tuple]:
    """Return the same of statistics of labelled rows; what follows a space in a name tells settings apart."""
    centre, scale, clip = 0.1 * normal(width), 1 + 0.1 * np.abs(normal(width)), features(width)[1]
    seen = {"centre": centre, "scale": scale, "radius": np.array([clip])}
    at = {"intercept": True, "coefficients": 0.1 * normal(width + 1)}
    root = np.eye(width + 1) + 0.01 * normal(width + 1, width + 1)
    both = {
        "weighted_regression_moment": ("response", {"intercept": True}),
        "residual_gradient": ("response", {**at, "preconditioner": root}),
        "residual_spread": ("response", {**at, "directions": root, "square": 0.3}),
        "logistic_scores": ("2", at),
        "count_scores": ("counts", {**at, "level": 2.0}),
        "ratio_scores": ("counts", at),
        "class_scores 3": ("3", {**at, "coefficients": 0.1 * normal(2 * (width + 1))}),
        "class_scores 5": ("5", {**at, "coefficients": 0.1 * normal(4 * (width + 1))}),
    }
    found = both | {f"scaled_{name}": (kind, {**seen, **public}) for name, (kind, public) in both.items()}
    found["regression_moment"] = "response", {"response_weight": 0.7, "intercept_weight": 0.5}
    found["histogram"] = "5", {}
    for kind, n_outputs in (("2", 1), ("5", 5)):
        common = {"clip": 1.0, "input_scale": 1 / clip}
        layers = {"hidden": normal(20, width + 1), "output": normal(n_outputs, 21)}
        n_weights = 20 * (width + 1) + 10 * 21 + n_outputs * 11
        found[f"linear_gradient {kind}"] = kind, {"output": normal(n_outputs, width + 1), **common}
        found[f"network_gradient {kind}"] = kind, {**layers, **common}
        found[f"deep_gradient {kind}"] = kind, {"widths": np.array([20, 10]), "weights": normal(n_weights), **common}
    found["network_gradient long"] = "2", {"hidden": normal(20, width + 1), "output": normal(1, 21), "clip": 1.0}
    found["network_gradient long"][1]["input_scale"] = 1.0
    return found


def of_tables(width: int) -> dict[str, dict]:
    """Return the public values of statistics of tables."""
    half = width // 2
    numbers, levels, site = np.arange(half), np.arange(half, width - 1), width - 1
    centre, scale = np.zeros(half), np.full(half, 0.3)
    adjusted = {"outcomes": numbers[2:], "design": np.array([0, 1, half]), "site": site}
    followed = {"event": 0, "design": np.array([0, 1, half])}
    none = np.array([], dtype=np.int64)
    edges = {"edges": np.array([0, 0.3, 0.6, 1]), "hazards": np.array([0.8, 1.5, 3]), "trend": np.array([-0.7, 0, 0.7])}
    products = {"coefficients": np.array([1.2, -0.3, 0.2, 0.4]), "offsets": np.zeros(3), "site_weights": np.ones(3)}
    return {
        "complete_first_moments": {"columns": numbers},
        "complete_absolute_deviations": {"columns": numbers, "centre": centre},
        "complete_radius_histogram": {"columns": numbers, "centre": centre, "scale": scale, "top": np.array([9.0])},
        "complete_scaled_centred_moments": {"columns": numbers, "centre": centre, "scale": scale}
        | {"radius": np.array([4.0]), "mean_weight": 0.5},
        "design_moments": adjusted,
        "residual_products": {**adjusted, **products, "centre": centre[2:], "scale": scale[2:]},
        "site_moments": {"columns": numbers, "site": site, "centre": centre, "scale": scale},
        "event_counts": {"event": 0, "by": np.array([site]), "horizon": 60.0, "n_bins": 12},
        "followed_columns": followed,
        "hazard_scores": {**followed, "centre": np.zeros(4), "scale": np.full(4, 0.5)}
        | {"coefficients": np.full(4, 0.2), "limit": 1.5, **edges},
        "grouped_counts numbers": {"columns": numbers, "by": none, "weights": np.ones(half), "n_bins": 16},
        "grouped_counts levels": {"columns": levels, "by": none, "weights": np.ones(len(levels)), "n_bins": 16},
        "grouped_counts by": {"columns": numbers, "by": np.array([site]), "weights": np.ones(half), "n_bins": 16},
    }


def of_words_and_people() -> dict[str, tuple]:
    """Return records and public values of moments of documents and of whole subjects."""
    few, many, some = words(20_000, 30), words(20_000, 1000), np.arange(20)
    white = {"projection": np.linalg.qr(normal(400, 15))[0], "whitener": np.eye(15) + 0.1 * normal(15, 15)}
    return {
        "word_shares": (many, {"clip": 0.5}),
        "word_pairs": (many, {"clip": 0.3, "words": np.arange(200)}),
        "word_triples": (few, {"clip": 0.2, "words": some}),
        "whitened_word_triples": (few, {"clip": 0.7, "words": some, "whitener": normal(20, 4)}),
        "subject_projector": (people(), {"basis": np.linalg.qr(normal(400, 30))[0], "n_components": 15}),
        "subject_log_covariance": (people(), {**white, "clip": 0.5}),
        "subject_covariance": (people(), {**white, "clip": 0.5}),
        "subject_tensor": (people(), white),
        "subject_polish": (people(), {**white, "rotation": np.linalg.qr(normal(15, 15))[0]}),
        "subject_infomax": (people(), {**white, "unmixing": normal(15, 15), "bias": normal(15), "clip": 0.5}),
    }


def of_small_rows() -> dict[str, tuple]:
    """Return the same of statistics whose number of entries is a power of the number of columns."""
    from dpcape import labelled, rows

    X = normal(20_000, 40)
    return {
        "third_moment": (rows(X, bound=7.0), {"noise_variance": 0.1}),
        "polynomial_coefficients": (
            labelled(X[:, :8], np.exp(np.clip(X[:, 8], -2, 2)), bound=3.5, response=(0, 10)),
            {"loss": "poisson"},
        ),
    }


def tasks() -> dict[str, Callable[[], tuple]]:
    """Return for every title a function that makes records and public values."""
    found = {}
    for width in N_RECORDS:
        for name, (kind, public) in (of_rows(width) | of_labels(width)).items():
            found[f"{name} D={width}"] = functools.partial(lambda k, w, p: (of_kind(k, w), p), kind, width, public)
        for name, public in of_tables(width).items():
            found[f"{name} D={width}"] = functools.partial(lambda w, p: (typed(w), p), width, public)
    for name in ("third_moment", "polynomial_coefficients"):
        found[name] = lambda name=name: of_small_rows()[name]
    for group, names in (
        ("word", ("shares", "pairs", "triples")),
        ("subject", SUBJECT),
        ("whitened_word", ["triples"]),
    ):
        for name in names:
            found[f"{group}_{name}"] = lambda name=f"{group}_{name}": of_words_and_people()[name]
    return found


SUBJECT = ("projector", "log_covariance", "covariance", "tensor", "polish", "infomax")


def work() -> None:
    """Answer each title on a line by CPU seconds of one total."""
    from dpcape.core.statistic import build

    known, ready = tasks(), ("", None, None)
    for line in sys.stdin:
        title = line.strip()
        if ready[0] != title:
            records, public = known[title]()
            statistic = build(title.split()[0], records.facts(), public)
            statistic.total(records)
            ready = title, statistic, records
        _, statistic, records = ready
        start = time.process_time()
        statistic.total(records)
        print(json.dumps(time.process_time() - start), flush=True)


class Worker:
    """A process with the code of one checkout."""

    def __init__(self, checkout: Path) -> None:
        environment = {**os.environ, **dict.fromkeys(THREADS, "1"), "PYTHONPATH": str(checkout.resolve() / "src")}
        command = [sys.executable, str(Path(__file__).resolve()), "--work"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)

    def seconds(self, title: str) -> float:
        """Return CPU seconds of one total."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(title, file=self._process.stdin, flush=True)
        return float(json.loads(self._process.stdout.readline()))


def goal(title: str) -> float:
    return GOAL_OF_MOMENTS if title.split()[0] in SECOND_MOMENTS else GOAL


def compare(against: Path, names: list[str], rounds: int) -> None:
    """Print all ratios, their median and which exceed their goals."""
    workers = Worker(HERE.parent), Worker(against)
    titles = [title for title in tasks() if not names or title.split()[0] in names or title in names]
    ratios = {}
    for title in titles:
        found = [[worker.seconds(title) for worker in workers] for _ in range(rounds)]
        ours, theirs = (CpuTimes.of(list(times)) for times in zip(*found, strict=True))
        ratios[title] = ours / theirs
        show(f"{title} ({1000 * ours:.0f} ms)", ratios[title], f"<= {goal(title)}")
    show("median of all", statistics.median(ratios.values()), f"<= {GOAL_OF_MEDIAN}")
    missed = {title: ratio for title, ratio in ratios.items() if ratio > goal(title)}
    listed = ", ".join(f"{title} {missed[title]:.2f}" for title in sorted(missed, key=missed.get, reverse=True))
    print(f"Above their goals: {listed or 'none'}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="statistics, or lines of the table; all if left out")
    parser.add_argument("--against", type=Path, help="checkout with the code to compare with")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.work:
        work()
    elif chosen.against is None:
        parser.error("--against must be a checkout to compare with")
    else:
        compare(chosen.against, chosen.names, chosen.rounds)


if __name__ == "__main__":
    main()
