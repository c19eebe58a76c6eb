"""Play the league: every contest, epsilon and method; print who wins, and write the figures as CSV.

Run: make league, or python -m experiments.league.run [--quick] [--seeds 5] [--data FOLDER] [--out out/league]
    [--peer NAME=PYTHON ...]

Without a data folder only simulated records and scikit-learn's own data sets take part. A peer is a package in an
environment of its own, "diffprivlib" or "opacus", named with that environment's Python. The figures of the
documentation are in results/league.csv; ``python -m experiments.league.page`` writes the page from them.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import numpy as np
from experiments.league.contests import Contest, bundled, from_folder

from dpcape_papers.experiments.data import DataFolder

NAMES = ("analysis", "data", "measure", "better", "delta", "epsilon", "method", "runs", "mean", "sd", "no privacy")
TAKES_PART = {"diffprivlib": {"linear", "logistic", "kmeans"}, "opacus": {"logistic", "classes"}}


def figures(contest: Contest, seeds: int) -> Iterator[tuple[str, float, list[float]]]:
    """Yield method, epsilon and the measures of all runs."""
    for name, method in contest.methods.items():
        for epsilon in contest.epsilons:
            yield name, epsilon, [method(epsilon, 100 + seed) for seed in range(seeds)]


def peer_figures(
    contest: Contest, peer: str, python: str, *, seeds: int, longest: float
) -> Iterator[tuple[str, float, list[float]]]:
    """Yield what a package in an environment of its own reaches; nothing if it takes more than ``longest`` seconds."""
    with tempfile.TemporaryDirectory() as folder:
        kind = contest.exchange["kind"]
        path = Path(folder) / "contest.npz"
        np.savez(path, **{key: value for key, value in contest.exchange.items() if key != "kind"})
        script = Path(__file__).with_name("peers.py")
        options = [peer, kind, str(path), str(contest.delta), str(seeds), *map(str, contest.epsilons)]
        try:
            done = subprocess.run(
                [python, str(script), *options], check=True, capture_output=True, text=True, timeout=longest
            )
        except subprocess.TimeoutExpired:
            print(f"  {peer} did not finish within {longest:g} s")
            return
    yield from json.loads(done.stdout.splitlines()[-1])


def lines(contest: Contest, found: Iterable[tuple[str, float, list[float]]]) -> Iterator[tuple[str, ...]]:
    """Yield the lines of the CSV."""
    better = "higher" if contest.higher else "lower"
    for name, epsilon, measures in found:
        # A few methods can diverge; their measure is shown as it is, up to a million.
        values = np.nan_to_num(np.clip(measures, -1e6, 1e6), nan=-1e6 if contest.higher else 1e6)
        spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
        yield (
            *(contest.analysis, contest.data, contest.measure, better, f"{contest.delta:g}", f"{epsilon:g}", name),
            *(str(len(values)), f"{np.mean(values):.4g}", f"{spread:.2g}", f"{contest.limit:.4g}"),
        )


def stored(file: Path) -> list[tuple[str, ...]]:
    """Return the lines of a CSV without its heading."""
    with file.open(newline="") as stream:
        return [tuple(line) for line in csv.reader(stream)][1:]


def added(table: list[tuple[str, ...]], new: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the table with new lines after those of the same contest; a line of the same method is replaced."""
    keys = {(*line[:2], *line[5:7]) for line in new}
    kept = [line for line in table if (*line[:2], *line[5:7]) not in keys]
    same = [at for at, line in enumerate(table) if new and line[:2] == new[0][:2]]
    before = table[: same[-1] + 1] if same else table
    place = sum(line in kept for line in before)
    return [*kept[:place], *new, *kept[place:]]


def winners(table: list[tuple[str, ...]]) -> Iterator[str]:
    """Yield one sentence per contest and epsilon."""
    for key in dict.fromkeys((line[0], line[1], line[5]) for line in table):
        chosen = [line for line in table if (line[0], line[1], line[5]) == key]
        chosen.sort(key=lambda line: float(line[8]), reverse=chosen[0][3] == "higher")
        ranking = ", ".join(f"{line[6]} {line[8]}" for line in chosen)
        yield f"{key[0]}, {key[1]}, epsilon {key[2]}: {ranking}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer records and two runs; under two minutes")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data", type=Path, help="folder with the real data sets")
    parser.add_argument("--only", help="contests whose analysis or data contain this")
    parser.add_argument("--out", type=Path, default=Path("out/league"))
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PYTHON")
    parser.add_argument("--longest", type=float, default=120.0, help="seconds that a peer may take per contest")
    parser.add_argument("--peers-only", action="store_true", help="play peers only")
    parser.add_argument("--add", action="store_true", help="add to the figures that are there")
    arguments = parser.parse_args()
    seeds = 2 if arguments.quick else arguments.seeds
    peers = dict(entry.split("=", 1) for entry in arguments.peer)
    arguments.out.mkdir(parents=True, exist_ok=True)
    file = arguments.out / "league.csv"
    table: list[tuple[str, ...]] = stored(file) if arguments.add else []
    contests = bundled(quick=arguments.quick)
    if arguments.data is not None:
        contests = chain(contests, from_folder(DataFolder(arguments.data)))
    for contest in contests:
        if arguments.only and arguments.only not in f"{contest.analysis}, {contest.data}":
            continue
        started = time.process_time()
        found = [] if arguments.peers_only else list(figures(contest, seeds))
        for peer, python in peers.items():
            if contest.exchange and contest.exchange["kind"] in TAKES_PART[peer]:
                found += peer_figures(contest, peer, python, seeds=seeds, longest=arguments.longest)
        new = list(lines(contest, found))
        table = added(table, new)
        for sentence in winners(new):
            print(sentence)
        print(f"  ({time.process_time() - started:.0f} s of processor time)", flush=True)
        with file.open("w", newline="") as stream:
            csv.writer(stream, lineterminator="\n").writerows([NAMES, *table])


if __name__ == "__main__":
    sys.exit(main())
