"""Files read by whole columns hold what they hold cell by cell, in every case, or are left to that path."""

from __future__ import annotations

import gzip
import random
from collections import Counter
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from dpcape.core.arrays import AnyArray
from dpcape.core.errors import InvalidParameter
from dpcape.records.readers import tables
from dpcape.records.readers.columnar import csv_columns, parquet_columns
from dpcape.records.readers.tables import CsvFile, ParquetFile

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

PLAIN = ["1", "-2.5", "0.1", "NA", "", "nan", " 4 ", "inf", "1e400", "9007199254740993"]
NUMBERS = [
    *PLAIN,
    *["+5", "1_000", "-Infinity", "-nan", "n/A", "NULL", "None", ".", " ", "  NA ", "1e-400", "0x10", "١٢", "\u00a07"],
    *["123456789012345678901", "1.", ".5", "1,5", "1e5.", "TRUE", "1d5", "\t8", "1e", "nan(1)", "1 2", "4.9e-324"],
]
WORDS = [
    *["a", "b ", " c", "é", "NA", 'x"y', '"q"', '"a,b"', '"a""b"', '"a\nb"', '"a\r\nb"', '"open', "'s'", '"a"b'],
    *['a""b', '""', '"NA"', "\u2003em\u2003", "null ", "", " ", "日本", "#c", "\\", '"\\"', 'a\\"b', "N/a"],
]


def made_up(draw: random.Random) -> tuple[bytes, str, list[bool]]:
    """Return the bytes of a table, its delimiter, and which columns hold text."""
    kinds = [draw.random() < 0.5 for _ in range(draw.randint(1, 4))]
    delimiter, end = draw.choice([",", ",", "\t"]), draw.choice(["\n", "\n", "\r\n", "\r"])
    names = [f"{draw.choice(['a', 'b b', 'é', ' d'])}{number}" for number in range(len(kinds))]
    is_nasty = draw.random() < 0.3
    lines = [delimiter.join(f'"{name}"' if draw.random() < 0.3 else name for name in names)]
    for _ in range(draw.randint(0, 6)):
        cells = [
            draw.choice((WORDS if is_nasty else WORDS[:4]) if text else _numbers(draw, is_nasty)) for text in kinds
        ]
        lines.append(delimiter.join(cells + ["z"] * (draw.random() < 0.02)))
        lines += [""] * (draw.random() < 0.05) + [" "] * (draw.random() < 0.02)
    data = end.join(lines).encode() + end.encode() * (draw.random() < 0.7)
    before, after = draw.choice([b""] * 9 + [b"\xef\xbb\xbf"]), draw.choice([b""] * 30 + [b"\xff", b"\0"])
    return before + data + after, delimiter, kinds


def _numbers(draw: random.Random, is_nasty: bool) -> list[str]:
    return NUMBERS if is_nasty and draw.random() < 0.3 else PLAIN


def test_hostile_tables_are_read_as_cell_by_cell_or_left_to_it(tmp_path: Path) -> None:
    draw, paths = random.Random(7), Counter[str]()
    for _ in range(600):
        data, delimiter, kinds = made_up(draw)
        is_gzipped = draw.random() < 0.2
        path = tmp_path / f"table.{'tsv' if delimiter == chr(9) else 'csv'}{'.gz' if is_gzipped else ''}"
        path.write_bytes(gzip.compress(data) if is_gzipped else data)
        file = CsvFile(path)
        try:
            names = file.names()
        except InvalidParameter:
            continue
        texts = {name: text for name, text in zip(names, kinds, strict=False) if draw.random() < 0.8}
        whole = csv_columns(path, names, texts, delimiter=delimiter, missing=tables._MISSING)
        paths["by cell" if whole is None else "whole"] += 1
        if whole is not None:
            assert_same(whole, file._by_cell(names, texts))
    # Otherwise nothing was compared.
    assert paths["whole"] > 200
    assert paths["by cell"] > 50


def test_line_breaks_in_cells_of_a_long_file_stay_in_their_cells(tmp_path: Path) -> None:
    """Longer than what is parsed at once, so that a part ends inside a quoted cell."""
    path = tmp_path / "long.csv"
    path.write_text(
        "x,note\n" + "".join(f'{k},"line one of {k}\nline, two"\n' for k in range(80_000)), encoding="utf-8"
    )
    file = CsvFile(path)
    texts = {"x": False, "note": True}
    whole = csv_columns(path, file.names(), texts, delimiter=",", missing=tables._MISSING)
    assert whole is not None
    assert_same(whole, file._by_cell(file.names(), texts))


def test_columns_of_every_type_in_parquet_are_read_as_cell_by_cell(tmp_path: Path) -> None:
    columns = {
        "whole": arrow.array([1, None, 9007199254740993], arrow.int64()),
        "large": arrow.array([2**64 - 1, 0, None], arrow.uint64()),
        "short": arrow.array([0.1, None, float("inf")], arrow.float32()),
        "exact": arrow.array([Decimal("1.25"), None, Decimal("3.50")]),
        "none": arrow.array([float("nan"), None, 1.0]),
        "words": arrow.array(["a ", None, ""]),
        "coded": arrow.array(["b", "b", None]).dictionary_encode(),
        "wide": arrow.array(["c", None, "d"], arrow.large_string()),
        "days": arrow.array([date(2020, 1, 2), None, date(1999, 12, 31)]),
        "answers": arrow.array([True, False, None]),
    }
    path = tmp_path / "table.parquet"
    parquet.write_table(arrow.table(columns), path)
    for name, column in columns.items():
        for is_text in (True, False):
            cells = column.to_pylist()
            try:
                by_cell = tables.column_of(name, cells, is_text)
            except InvalidParameter:
                with pytest.raises(InvalidParameter, match="must hold numbers"):
                    ParquetFile(path)._read({name: is_text})
            else:
                assert_same(ParquetFile(path)._read({name: is_text}), {name: by_cell})
    fast = parquet_columns(path, {"whole": False, "short": False, "words": True})
    assert fast is not None
    assert all(isinstance(column, np.ndarray) for column in fast.values())


def assert_same(found: dict[str, AnyArray], expected: dict[str, AnyArray]) -> None:
    assert found.keys() == expected.keys()
    for name, column in expected.items():
        assert found[name].dtype == column.dtype
        if column.dtype == object:
            assert found[name].tolist() == column.tolist()
        else:
            np.testing.assert_array_equal(found[name], column)
