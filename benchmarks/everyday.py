"""Whole studies of everyday analyses at four sites under CAPE against pooled, non-private peers; ratios of CPU time."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
from timing import least_cpu, show

from dpcape import Cape, Federation, Summary, in_process, table
from dpcape.errors import DpcapeWarning

NUMBERS = [f"x{number}" for number in range(5)]
CATEGORIES = ["sex", "arm", "stage"]
COLUMNS = {**{name: (-4, 4) for name in NUMBERS}, **{name: ["a", "b", "c"] for name in CATEGORIES}}


def frame(n_records: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    levels = np.array(["a", "b", "c"], dtype=object)
    numbers = {name: rng.normal(size=n_records) for name in NUMBERS}
    return pd.DataFrame({**numbers, **{name: rng.choice(levels, n_records) for name in CATEGORIES}})


def ours(frames: list[pd.DataFrame]) -> Summary:
    held = {f"site-{at}": table(part, columns=COLUMNS) for at, part in enumerate(frames)}
    return Summary(by="stage", epsilon=1.0, delta=1e-5).fit(Federation(in_process(held), protocol=Cape(n_colluding=1)))


def peers(frames: list[pd.DataFrame]) -> list[object]:
    """Return the same figures from pooled records: quartiles, mean, SD, counts and missing, overall and by group."""
    pooled = pd.concat(frames)
    grouped = pooled.groupby("stage")
    found: list[object] = [pooled[NUMBERS].describe(), grouped[NUMBERS].describe()]
    found += [grouped[name].value_counts(dropna=False) for name in CATEGORIES[:2]]
    found += [pooled[name].value_counts(dropna=False) for name in CATEGORIES]
    return found


def main() -> None:
    warnings.simplefilter("ignore", DpcapeWarning)
    for n_records in (25_000, 250_000):
        frames = [frame(n_records, seed) for seed in range(4)]
        times = least_cpu({"ours": lambda frames=frames: ours(frames), "pandas": lambda frames=frames: peers(frames)})
        show(f"Summary by group, four sites of {n_records} / pandas", times["ours"] / times["pandas"], "<= 1.5")


if __name__ == "__main__":
    main()
