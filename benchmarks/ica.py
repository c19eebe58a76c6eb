"""Speed of joint ICA: ratios of process CPU time, interleaved, minima; one BLAS thread.

Run: OPENBLAS_NUM_THREADS=1 python benchmarks/ica.py [--peers] [--rounds 5]

``--peers`` compares with python-picard and MNE's infomax where they are installed (they are no dependency).
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.decomposition import FastICA
from timing import cpu_times, show

from dpcape import Cape, Federation, JointICA, Replay, in_process, subjects
from dpcape.datasets import sources
from dpcape.estimators.ica.rotation import rotate
from dpcape.metrics import gain_index
from dpcape.statistics.fourth_moments import fourth_moment
from dpcape.statistics.infomax_scores import infomax_scores


def minima(candidates: Mapping[str, Callable[[], Any]], n_rounds: int) -> dict[str, float]:
    """Return the least CPU time of each candidate, taken in turns."""
    best = dict.fromkeys(candidates, float("inf"))
    for _ in range(n_rounds):
        for name, run in candidates.items():
            start = time.process_time()
            run()
            best[name] = min(best[name], time.process_time() - start)
    return best


BLOCK_ROWS = 1024


def unclipped_step(rows: np.ndarray, unmixing: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """One infomax gradient without clipping, in blocks with reused buffers: two products and a tanh."""
    width = len(bias)
    buffers = np.empty((2, width, BLOCK_ROWS))
    outer, scores_sum = np.zeros((width, width)), np.zeros(width)
    for start in range(0, len(rows), BLOCK_ROWS):
        block = rows[start : start + BLOCK_ROWS]
        z, y = (buffer[:, : len(block)] for buffer in buffers)
        np.matmul(unmixing, block.T, out=z)
        z += bias[:, np.newaxis]
        np.multiply(z, -0.5, out=y)
        np.tanh(y, out=y)
        outer += y @ z.T
        scores_sum += y.sum(axis=1)
    return (len(rows) * np.eye(width) + outer) @ unmixing


def ghost(n_rounds: int) -> None:
    rng = np.random.default_rng(0)
    for width, n_rows in ((20, 256_000), (50, 500_000)):
        rows = rng.laplace(scale=0.5**0.5, size=(n_rows, width))
        unmixing, bias = np.linalg.qr(rng.standard_normal((width, width)))[0], np.zeros(width)
        records = subjects([rows], bound=100.0, unit="record")
        clips = {"clip": 0.4 * width, "bias_clip": 0.5 * width**0.5}
        clipped = infomax_scores(records.facts(), np.eye(width), unmixing=unmixing, bias=bias, **clips)
        # Reduced rows are kept from the first round to the next.
        clipped.total(records)
        best = minima(
            {
                "clipped": lambda: clipped.total(records),  # noqa: B023
                "unclipped": lambda: unclipped_step(rows, unmixing, bias),  # noqa: B023
            },
            n_rounds,
        )
        ratio = best["clipped"] / best["unclipped"]
        print(f"clipped / unclipped step, R={width} N={n_rows}: {ratio:.2f} (goal <= 1.3)", flush=True)


def mixed_rows(n_rows: int = 256_000) -> tuple[np.ndarray, np.ndarray]:
    """Return white mixed GARCH rows and the rotation that mixed them."""
    rng = np.random.default_rng(1)
    made = list(sources(rng, n_subjects=n_rows // 250, n_components=20, n_timepoints=250))
    turn = np.linalg.qr(rng.standard_normal((20, 20)))[0]
    return np.concatenate(made) @ turn.T, turn


def one_shot(rows: np.ndarray) -> np.ndarray:
    records = subjects([rows], bound=100.0, unit="record")
    statistic = fourth_moment(records.facts(), np.eye(20), clip=0.8 * 20**0.5)
    return rotate(statistic.total(records), 20)


def peers(n_rounds: int) -> None:
    rows, turn = mixed_rows()
    found: dict[str, np.ndarray] = {}
    candidates: dict[str, Callable[[], Any]] = {"one-shot": lambda: found.update(ours=one_shot(rows))}
    try:
        from picard import picard

        # Both forms: orthogonal is picard's default, the other maximises the same likelihood as infomax.
        for name, ortho in (("picard orthogonal", True), ("picard", False)):
            candidates[name] = lambda name=name, ortho=ortho: found.update(
                {name: picard(rows.T, ortho=ortho, whiten=False, centering=False, tol=1e-5, random_state=0)[1]}
            )
    except ImportError:
        print("picard is not installed: not compared")
    try:
        from mne.preprocessing.infomax_ import infomax

        candidates["mne"] = lambda: found.update(mne=infomax(rows, extended=False, random_state=0, verbose="error"))
    except ImportError:
        print("mne is not installed: not compared")
    best = minima(candidates, n_rounds)
    print(f"one-shot: q {gain_index(found['ours'], turn):.4f}, {best['one-shot']:.2f} s CPU")
    for name in found.keys() - {"ours"}:
        ratio = best[name] / best["one-shot"]
        print(f"{name} / one-shot: {ratio:.1f} (goal >= 5), q {gain_index(found[name], turn):.4f}", flush=True)


def whole_study(n_rounds: int) -> None:
    """A private study over four sites, beside the pooled rows given to the peers."""
    rows, turn = mixed_rows()
    parts = {f"site-{k}": subjects(list(rows[k::4].reshape(-1, 250, 20)), bound=12.0, unit="record") for k in range(4)}
    found: dict[str, np.ndarray] = {}

    def private() -> None:
        federation = Federation(in_process(parts, noise=Replay(1)), protocol=Cape(n_colluding=1))
        model = JointICA(20, epsilon=5.0, delta=1e-6, basis=np.eye(20)).fit(federation)
        found["JointICA under CAPE"] = model.unmixing_

    def fast() -> None:
        found["FastICA"] = FastICA(20, whiten="unit-variance", max_iter=500, random_state=0).fit(rows).components_

    tasks: dict[str, Callable[[], object]] = {"JointICA under CAPE": private, "FastICA": fast}
    try:
        from picard import picard
    except ImportError:
        print("picard is not installed: not compared")
    else:

        def peer() -> None:
            whitening, turned, _ = picard(rows.T, tol=1e-5, random_state=0)
            found["picard"] = turned @ whitening

        tasks["picard"] = peer
    private()  # imports
    times = cpu_times(tasks, n_rounds)
    qs = {name: gain_index(unmixing, turn) for name, unmixing in found.items()}
    print("q (0 is exact): " + ", ".join(f"{name} {q:.4f}" for name, q in qs.items()))
    for name in times.keys() - {"JointICA under CAPE"}:
        what = f"{name} on pooled rows / JointICA under CAPE, 20 columns, N=256,000, 4 sites, epsilon 5"
        show(what, times[name] / times["JointICA under CAPE"], ">= 1")
        show(f"q of JointICA under CAPE / q of {name}", qs["JointICA under CAPE"] / qs[name], "<= 1")


def memory() -> None:
    """Peak extra memory of the fourth moment: independent of the number of rows."""
    for n_rows in (50_000, 200_000):
        rows = np.random.default_rng(2).standard_normal((n_rows, 100)).astype(np.float32)
        records = subjects([rows], bound=100.0, unit="record")
        statistic = fourth_moment(records.facts(), np.eye(100)[:, :20], clip=3.0)
        statistic.total(records)
        tracemalloc.start()
        statistic.total(records)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        print(f"fourth moment of {n_rows} rows ({rows.nbytes / 1e6:.0f} MB): {peak / 1e6:.1f} MB extra", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    ghost(arguments.rounds)
    memory()
    whole_study(3)
    if arguments.peers:
        peers(max(1, arguments.rounds // 3))


if __name__ == "__main__":
    main()
