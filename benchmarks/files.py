"""Files of a site against pyarrow alone: CSV and Parquet read whole, and a data set streamed into a second moment."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet
from timing import cpu_times, show

from dpcape import rows
from dpcape.records.readers.tables import CsvFile, TableFiles
from dpcape.statistics.moments import second_moment

N_ROWS, N_NUMBERS = 200_000, 10
N_FILES, FILE_ROWS, FILE_COLUMNS = 100, 8000, 50


def main() -> None:
    """Print the ratios."""
    draw = np.random.default_rng(0)
    numbers = {f"x{number}": draw.normal(size=N_ROWS) for number in range(N_NUMBERS)}
    words = {"sex": draw.choice(["F", "M"], N_ROWS), "clinic": draw.choice([f"clinic {k}" for k in range(20)], N_ROWS)}
    table = pyarrow.table({**numbers, **words})
    texts = {name: name in words for name in table.column_names}
    # Files with quoted cells must be searched for line breaks inside them, by both.
    quoted = pyarrow.csv.ParseOptions(newlines_in_values=True)
    with tempfile.TemporaryDirectory() as place:
        csv, parquet = Path(place) / "table.csv", Path(place) / "table.parquet"
        pyarrow.csv.write_csv(table, csv)
        pyarrow.parquet.write_table(table, parquet)
        found = cpu_times(
            {
                "csv": lambda: CsvFile(csv)._read(texts),
                "csv, pyarrow": lambda: pyarrow.csv.read_csv(csv, parse_options=quoted),
                "parquet": lambda: TableFiles(parquet)._read(texts),
                "parquet, pyarrow": lambda: pyarrow.parquet.read_table(parquet),
            }
        )
    show("CSV, 200,000 x 12, over pyarrow", found["csv"] / found["csv, pyarrow"], "<= 2")
    show("Parquet, 200,000 x 12, over pyarrow", found["parquet"] / found["parquet, pyarrow"], "<= 2")
    streaming()


def streaming() -> None:
    """Print the throughput of a data set that is clipped and summed window by window, over that of a scan alone."""
    draw = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as place:
        for number in range(N_FILES):
            values = draw.normal(size=(FILE_COLUMNS, FILE_ROWS))
            table = pyarrow.table({f"x{at}": column for at, column in enumerate(values)})
            pyarrow.parquet.write_table(table, Path(place) / f"{number:03}.parquet")
        # Files that were written just now are compared by value.
        time.sleep(3)
        data = pyarrow.dataset.dataset(place, format="parquet")
        records = rows(data, bound=5.0)
        statistic = second_moment(records.facts())
        tasks = {
            "scan": lambda: sum(batch.num_rows for batch in data.to_batches()),
            "stream": lambda: statistic.total(records),
        }
        for what, clock in (("elapsed", time.perf_counter), ("CPU", time.process_time)):
            found = cpu_times(tasks, rounds=7, clock=clock)
            show(
                f"Streaming 800,000 x 50 into x x', throughput over the scan's, {what}",
                found["scan"] / found["stream"],
                ">= .6",
            )


if __name__ == "__main__":
    main()
