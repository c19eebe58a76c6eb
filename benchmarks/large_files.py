"""A Parquet file larger than memory should need: resident peak and CPU of every pass, over a scan by pyarrow alone.

``python large_files.py [GIGABYTES]`` writes a file of that size as numbers (default 0.5) into a temporary folder, runs
Summary, Cox, Harmonise and PCA with one large site and two small ones, each in a process of its own, and deletes it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.dataset
import pyarrow.parquet
from timing import show

import dpcape
from dpcape.records.source_stream import SourceStream

N_NUMBERS, GROUP_ROWS = 50, 2**17
NUMBERS = [f"x{number}" for number in range(N_NUMBERS)]
SITES = ("lyon", "oslo", "lima")
MEMORY_GOAL, CPU_GOAL = 1.0, 3.0
TYPED = {
    **dict.fromkeys(NUMBERS, (-4.0, 4.0)),
    "survival": {"time": "days", "event": "died", "range": [0, 1825]},
    "arm": ["usual", "new"],
    "place": list(SITES),
}
READ: dict[str, list[str]] = {
    "Summary": ["x0", "x1", "x2", "x3", "arm"],
    "Cox": ["x0", "x1", "x2", "days", "died", "arm"],
    "Harmonise": [*NUMBERS, "place"],
    "PCA": NUMBERS,
}


def people(n_rows: int, seed: int, place: int = 0) -> pyarrow.Table:
    """Return records of one site: numbers, a time to an event, two categories."""
    draw = np.random.default_rng(seed)
    numbers = draw.standard_normal((N_NUMBERS, n_rows))
    time_to, end = draw.exponential(1500, n_rows), draw.uniform(300, 2500, n_rows)
    columns = {
        **dict(zip(NUMBERS, numbers, strict=True)),
        "days": np.minimum(time_to, end),
        "died": (time_to <= end).astype(np.float64),
        "arm": draw.choice(np.array(["usual", "new"]), n_rows),
        "place": np.full(n_rows, SITES[place]),
    }
    return pyarrow.table(columns)


def write(path: Path, gigabytes: float) -> int:
    """Write the file, group by group, and return the number of rows."""
    n_groups = max(1, round(gigabytes * 1e9 / (8 * (N_NUMBERS + 4) * GROUP_ROWS)))
    table = people(GROUP_ROWS, seed=0)
    plain = [*NUMBERS, "days", "died"]
    texts = ["arm", "place"]
    with pyarrow.parquet.ParquetWriter(path, table.schema, use_dictionary=texts, compression="zstd") as writer:
        for group in range(n_groups):
            # The same numbers in another order and with other signs: making new ones would take longer than reading.
            order = np.random.default_rng(group).permutation(GROUP_ROWS)
            sign = 1.0 if group % 2 else -1.0
            columns = {name: table[name].to_numpy()[order] * (sign if name in NUMBERS else 1.0) for name in plain}
            columns |= {name: table[name].take(order) for name in texts}
            writer.write_table(pyarrow.table(columns))
    return n_groups * GROUP_ROWS


def records(data: object, analysis: str) -> object:
    """Return records for one analysis."""
    if analysis == "PCA":
        return dpcape.rows(data, bound=8.0, feature_names=NUMBERS)
    wanted = READ[analysis]
    columns = {
        name: spec for name, spec in TYPED.items() if name in wanted or (name == "survival" and "days" in wanted)
    }
    return dpcape.table(data, columns=columns)


def fitted(analysis: str, large: object) -> object:
    """Run an analysis with two small sites besides."""
    small = {}
    for number, site in enumerate(SITES[1:], start=1):
        held = people(2000, number, number)
        frame = {name: held[name].to_numpy() for name in [*NUMBERS, "days", "died"]}
        frame |= {name: np.array(held[name].to_pylist(), dtype=object) for name in ("arm", "place")}
        chosen = {name: frame[name] for name in READ[analysis]}
        data = np.column_stack(list(chosen.values())) if analysis == "PCA" else chosen
        small[site] = (
            dpcape.rows(data, bound=8.0, feature_names=NUMBERS) if analysis == "PCA" else records(data, analysis)
        )
    federation = dpcape.Federation(
        dpcape.in_process({SITES[0]: large, **small}),
        protocol=dpcape.Cape(n_colluding=1),  # type: ignore[dict-item]
    )
    budget = {"epsilon": 1.0, "delta": 1e-8}
    models: dict[str, Callable[[], object]] = {
        "Summary": lambda: dpcape.Summary(by=["arm"], **budget),
        "Cox": lambda: dpcape.Cox(["x0", "x1", "x2", "arm"], **budget),
        "Harmonise": lambda: dpcape.Harmonise("place", **budget),
        "PCA": lambda: dpcape.PCA(n_components=3, **budget),
    }
    return models[analysis]().fit(federation)  # type: ignore[attr-defined]


def peak() -> float:
    """Return the largest resident memory of this process so far, in gigabytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 / 1e9 for line in lines if line.startswith("VmHWM"))


def measured(path: str, analysis: str) -> dict[str, object]:
    """Return CPU seconds and peaks of making records, of a pass that only reads, and of every pass of an analysis."""
    passes: list[float] = []
    windows = SourceStream.windows

    def timed(stream: SourceStream, n_rows: int) -> Iterator[tuple[object, ...]]:
        start = time.process_time()
        yield from windows(stream, n_rows)
        passes.append(time.process_time() - start)

    SourceStream.windows = timed  # type: ignore[method-assign]
    base = peak()
    data = pyarrow.dataset.dataset(path, format="parquet")
    large = records(data, analysis)
    for _ in large.blocks(1024):  # type: ignore[attr-defined]
        pass
    made, read = passes
    read_peak = peak()
    start = time.process_time()
    fitted(analysis, large)
    whole = time.process_time() - start
    peaks = {"base": base, "read_peak": read_peak, "peak": peak()}
    return {**peaks, "made": made, "read": read, "passes": passes[2:], "whole": whole}


def scanned(path: str, columns: list[str]) -> float:
    """Return the CPU seconds of pyarrow's scan of some columns."""
    start = time.process_time()
    for _ in pyarrow.dataset.dataset(path, format="parquet").to_batches(columns=columns):
        pass
    return time.process_time() - start


def child(task: str, path: Path, analysis: str) -> object:
    """Return what a process of its own finds."""
    ran = subprocess.run([sys.executable, __file__, task, str(path), analysis], stdout=subprocess.PIPE, check=True)
    return json.loads(ran.stdout)


def main(gigabytes: float) -> None:
    """Print figures of all analyses."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "people.parquet"
        n_rows = write(path, gigabytes)
        size = path.stat().st_size / 1e9
        print(f"{n_rows:,} x {N_NUMBERS + 4}, {gigabytes:g} GB as numbers, {size:.2f} GB on disk")
        # Files that were written just now are compared by value.
        time.sleep(3)
        for analysis, columns in READ.items():
            scan = child("--scan", path, analysis)
            found = child("--measure", path, analysis)
            assert isinstance(scan, float)
            assert isinstance(found, dict)
            print(f"{analysis}: {len(columns)} columns; a scan takes {scan:.1f} CPU s")
            show(f"{analysis}, resident peak in GB", found["peak"], f"<= {MEMORY_GOAL}")
            peaks = found["base"], found["read_peak"]
            print(f"{analysis}, resident before reading {peaks[0]:.2f} GB, when only reading {peaks[1]:.2f} GB")
            show(f"{analysis}, making records, CPU over a scan", found["made"] / scan, f"<= {CPU_GOAL}")
            show(f"{analysis}, reading a pass, CPU over a scan", found["read"] / scan, f"<= {CPU_GOAL}")
            seconds = ", ".join(f"{entry:.1f}" for entry in found["passes"])
            print(f"{analysis}, passes with what is computed in them, CPU s: {seconds}; all: {found['whole']:.1f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--scan"]:
        print(json.dumps(scanned(sys.argv[2], READ[sys.argv[3]])))
    elif sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measured(sys.argv[2], sys.argv[3])))
    else:
        main(float(sys.argv[1]) if len(sys.argv) > 1 else 0.5)
