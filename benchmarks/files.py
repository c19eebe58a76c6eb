"""CSV and Parquet files of a site against pyarrow alone: numbers and words, a million cells."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet
from timing import cpu_times, show

from dpcape.records.readers.tables import CsvFile, ParquetFile

N_ROWS, N_NUMBERS = 200_000, 10


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
                "parquet": lambda: ParquetFile(parquet)._read(texts),
                "parquet, pyarrow": lambda: pyarrow.parquet.read_table(parquet),
            }
        )
    show("CSV, 200,000 x 12, over pyarrow", found["csv"] / found["csv, pyarrow"], "<= 2")
    show("Parquet, 200,000 x 12, over pyarrow", found["parquet"] / found["parquet, pyarrow"], "<= 2")


if __name__ == "__main__":
    main()
