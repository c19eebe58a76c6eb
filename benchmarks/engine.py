"""Rounds and throughput on NVIDIA FLARE with 4 site processes on this machine, or as many as are named (8 16).

Wall-clock times, since waiting is what is measured: run it on an otherwise idle machine. Figures: docs/scale.md.
``--against CHECKOUT [PAIRS]`` compares with another checkout, in turn: how the cost of the vault was measured.
``--cpu [STUDIES]`` prints the CPU seconds of small studies that follow one another, which other load moves little.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from timing import Ratio, show

ROOT = Path(__file__).resolve().parents[1]
INFOMAX = 'solver = "infomax"\nn_components = 2\nn_iter = 100\ntol = 1e-12'
# The second moment of so many columns has 998991 entries when packed.
N_WIDE = 1413
WIDE = f'[data]\nkind = "rows"\nfeatures = {N_WIDE}\narray = "wide"\nbound = 1.0\n'


def seconds_between(events: list[dict[str, Any]], first: str, last: str) -> float:
    """Return the time between two events of a run, as the server saw them; the run's folder hears of them later."""
    stamps = {
        event["event"]: datetime.fromisoformat(event.get("happened", event["time"])).timestamp() for event in events
    }
    return stamps[last] - stamps[first]


def write_wide(paths: list[Path]) -> None:
    """Write rows of as many columns as :data:`WIDE` names into the files of the sites, in place of those they hold."""
    draw = np.random.default_rng(0)
    for path in paths:
        with np.load(path) as stored:
            arrays = dict(stored)
        np.savez(path, **{**arrays, "wide": 1e-3 * draw.normal(size=(4, N_WIDE))})


def measure(n_sites: int, place: Path, n_pairs: int = 3) -> None:
    """Run an iterative and a wide study with this many site processes."""
    sys.path.insert(0, str(ROOT))
    from tests.engine.consortium import SUBJECTS, Consortium, study_text

    from dpcape.runs.folder import RunFolder
    from dpcape.study.study import Study

    names = [f"site-{number}" for number in range(n_sites)]
    consortium = Consortium(place / str(n_sites), names)
    consortium.create()
    write_wide([consortium.path / "data" / f"{name}.npz" for name in names])

    def run(name: str, analysis: str, **options: Any) -> RunFolder:
        path = consortium.path / f"{name}.toml"
        text = study_text(name, analysis, minimum=n_sites, epsilon=50.0, sites=names, **options)
        path.write_text(text, encoding="utf-8")
        study = Study.load(path)
        consortium.approve(study)
        return consortium.run(study)

    try:
        begun = time.monotonic()
        consortium.start(replay=None)
        print(f"{n_sites:>3} sites connected after {time.monotonic() - begun:.1f} s")
        iterated = run("iterated", "joint_ica", parameters=INFOMAX, data=SUBJECTS)
        report_rounds(n_sites, iterated.events())
        ratios: dict[str, list[float]] = {"secure-sum": [], "cape": []}
        for number in range(n_pairs):
            alone = bytes_alone(consortium, names)
            for kind, found in ratios.items():
                # One release: of the second moment.
                wide = {"parameters": "n_components = 2\ncenter = false", "data": WIDE, "kind": kind}
                folder = run(f"wide-{kind}-{number}", "pca", **wide)
                found.append(report_width(n_sites, kind, folder.events()) / alone[kind])
        for kind, found in ratios.items():
            what = f"release of 1e6 entries, {kind}, {n_sites} sites / its bytes through FLARE alone"
            show(what, Ratio.of(found), "<= 3" if kind == "cape" and n_sites == 4 else "none")
    finally:
        consortium.stop()


def report_rounds(n_sites: int, events: list[dict[str, Any]]) -> None:
    done = next(event for event in events if event["event"] == "computed")
    releases = [event for event in events if event["event"] == "release"]
    seconds = seconds_between(events, "formed", "computed")
    print(
        f"{n_sites:>3} sites: {done['rounds']} rounds, median {done['median_ms']:.1f} ms, 95 % "
        f"{done['p95_ms']:.1f} ms; {len(releases) / seconds:.1f} releases/s; submitted to computed "
        f"{seconds_between(events, 'submitted', 'computed'):.1f} s"
    )


def bytes_alone(consortium: Any, names: list[str]) -> dict[str, float]:
    """Return the seconds that FLARE alone takes for the bytes of a release, by protocol."""
    from tests.engine.consortium import free_port

    kits = consortium.path / "kits-alone"
    if not kits.exists():
        shutil.copytree(consortium.path / "federation" / "kits", kits)
        for name in names:
            shutil.copy(consortium.path / "folders" / name / "keys" / "tls.key", kits / name / "startup" / "client.key")
    command = [sys.executable, str(Path(__file__).with_name("engine_bytes.py")), str(kits), str(free_port()), *names]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def report_width(n_sites: int, kind: str, events: list[dict[str, Any]]) -> float:
    done = next(event for event in events if event["event"] == "computed")
    seconds = seconds_between(events, "formed", "release")
    moved = n_sites * 6.0 * (1 if kind == "secure-sum" else 3)
    print(
        f"{n_sites:>3} sites: release of 1e6 entries under {kind} in {seconds:.2f} s, "
        f"{moved / seconds:.0f} MB/s of vectors; slowest rounds {done['p95_ms']:.0f} ms"
    )
    return seconds


def compare(before: Path, n_pairs: int) -> None:
    """Measure this checkout and an earlier one in turn, so that other load on the machine meets both alike.

    Each run is ``benchmarks/engine.py 4`` of its own checkout; the figures are medians over the runs.
    """
    patterns = {
        "small round, ms": r"rounds, median ([0-9.]+) ms",
        "secure-sum of 8 MB, s": r"secure-sum in ([0-9.]+) s",
        "cape of 8 MB, s": r"cape in ([0-9.]+) s",
    }
    found: dict[str, dict[str, list[float]]] = {name: {"before": [], "now": []} for name in patterns}
    for _ in range(n_pairs):
        for label, checkout in (("before", before), ("now", ROOT)):
            environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
            command = [sys.executable, str(checkout / "benchmarks" / "engine.py"), "4"]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            for name, pattern in patterns.items():
                match = re.search(pattern, done.stdout)
                if match is not None:
                    found[name][label].append(float(match[1]))
    for name, values in found.items():
        first, second = (statistics.median(values[label]) for label in ("before", "now"))
        print(
            f"{name}: before {first:.2f} {values['before']}, now {second:.2f} {values['now']}: {second / first:.3f} x"
        )


def cpu_seconds(consortium: Any) -> dict[str, float]:
    """Return the CPU seconds that each participant has used so far, processes that have ended included."""
    import psutil

    found = {}
    for name in consortium.running:
        found[name] = 0.0
        for process in consortium.processes(name):
            with suppress(psutil.NoSuchProcess):
                found[name] += sum(process.cpu_times()[:4])
    return found


def measure_cpu(place: Path, n_studies: int, n_sites: int = 4) -> None:
    """Print the CPU seconds of each participant for a PCA of four columns, and for as many more as asked."""
    sys.path.insert(0, str(ROOT))
    from tests.engine.consortium import Consortium

    consortium = Consortium(place / "cpu", [f"site-{number}" for number in range(n_sites)])
    consortium.create()
    try:
        consortium.start(replay=None)
        for number in range(1, n_studies + 1):
            options = {"parameters": "n_components = 2", "minimum": n_sites, "sites": consortium.sites}
            study = consortium.study(f"small-{number}", "pca", **options)
            consortium.approve(study)
            resting = {name: len(consortium.processes(name)) for name in consortium.running}
            before = cpu_seconds(consortium)
            consortium.run(study)
            # Jobs end a little after the result is there.
            end = time.monotonic() + 60
            while time.monotonic() < end and any(
                len(consortium.processes(name)) > count for name, count in resting.items()
            ):
                time.sleep(0.1)
            used = {name: seconds - before[name] for name, seconds in cpu_seconds(consortium).items()}
            at_sites = statistics.mean(used[site] for site in consortium.sites)
            each = sum(used.values()) / len(used)
            print(f"study {number}: server {used['server']:.2f}, a site {at_sites:.2f}, a participant {each:.2f} CPU s")
    finally:
        consortium.stop()


def main() -> None:
    if "--against" in sys.argv:
        at = sys.argv.index("--against")
        compare(Path(sys.argv[at + 1]).resolve(), int(sys.argv[at + 2]) if len(sys.argv) > at + 2 else 3)
        return
    if find_spec("nvflare") is None:
        print("NVIDIA FLARE is not installed (dpcape[engine]); nothing more to measure.")
        return
    with tempfile.TemporaryDirectory() as place:
        if "--cpu" in sys.argv:
            measure_cpu(Path(place), int((sys.argv[sys.argv.index("--cpu") + 1 :] or ["2"])[0]))
            return
        for n_sites in [int(text) for text in sys.argv[1:]] or [4]:
            measure(n_sites, Path(place))


if __name__ == "__main__":
    main()
