"""Files read with Arrow hold what they hold cell by cell, in every case."""

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
from dpcape.records.readers.cells import column_of
from dpcape.records.readers.tables import CsvFile, TableFiles

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("pyarrow.feather")

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


def read(file: CsvFile, texts: dict[str, bool], *, by_cell: bool = False) -> dict[str, AnyArray]:
    """Columns as the file gives them, or as Python's csv and float do."""
    wanted = tuple(texts.items())
    parts = list(file._by_cell(file.names(), wanted, 2) if by_cell else file.batches(wanted, 2))
    if not parts:
        return {name: np.empty(0, dtype=object if text else float) for name, text in wanted}
    return {name: np.concatenate([part[name, text] for part in parts]) for name, text in wanted}


def test_hostile_tables_are_read_as_cell_by_cell(tmp_path: Path) -> None:
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
        if not texts:
            continue
        paths["by cell" if file._content() is None else "Arrow"] += 1
        assert_same(read(file, texts), read(file, texts, by_cell=True))
    # Otherwise nothing was compared.
    assert paths["Arrow"] > 200
    assert paths["by cell"] > 20


def test_what_a_number_becomes_does_not_depend_on_the_cells_beside_it(tmp_path: Path) -> None:
    """Arrow converts a batch whose cells it all understands, and Python the cells of another: they must agree."""
    draw = random.Random(11)
    signs = "0123456789" * 3 + "..eE+-naifNAINF_ \t()xX,"
    made = ["".join(draw.choices(signs, k=draw.randint(1, 9))) for _ in range(4000)]
    cells = [*NUMBERS, "nan(1)", "NaN(2)", "-nan", "+nan", "infinity", "-inf", "1e308", "1e309", "0e", "1E5", *made]
    path = tmp_path / "table.csv"

    def column(lines: list[str]) -> AnyArray:
        path.write_text("x,y\n" + "".join(f'"{cell}",1\n' for cell in lines), encoding="utf-8")
        file = CsvFile(path)
        assert file._content() is not None
        return read(file, {"x": False})["x"]

    together = column(cells)
    alone = np.array([column([cell])[0] for cell in cells])
    np.testing.assert_array_equal(together.view(np.int64), alone.view(np.int64))
    assert np.isfinite(together).sum() > 300


def test_line_breaks_in_cells_of_a_long_file_stay_in_their_cells(tmp_path: Path) -> None:
    """Longer than what is parsed at once, so that a part ends inside a quoted cell."""
    path = tmp_path / "long.csv"
    path.write_text(
        "x,note\n" + "".join(f'{k},"line one of {k}\nline, two"\n' for k in range(200_000)), encoding="utf-8"
    )
    file = CsvFile(path)
    texts = {"x": False, "note": True}
    assert file._content() is not None
    assert_same(file._read(texts), {name: _whole(file, name, text) for name, text in texts.items()})


def _whole(file: CsvFile, name: str, text: bool) -> AnyArray:
    return np.concatenate([part[name, text] for part in file._by_cell(file.names(), [(name, text)], 10**6)])


def test_columns_of_every_type_in_parquet_are_read_as_cell_by_cell(tmp_path: Path) -> None:
    columns = {
        "whole": arrow.array([1, None, 9007199254740993], arrow.int64()),
        "large": arrow.array([2**64 - 1, 0, None], arrow.uint64()),
        "short": arrow.array([0.1, None, float("inf")], arrow.float32()),
        "exact": arrow.array([Decimal("1.25"), None, Decimal("3.50")]),
        "none": arrow.array([float("nan"), None, 1.0]),
        "words": arrow.array(["a ", None, ""]),
        "numbers": arrow.array([" 4 ", "NA", "abc"]),
        "coded": arrow.array(["b", "b", None]).dictionary_encode(),
        "wide": arrow.array(["c", None, "d"], arrow.large_string()),
        "days": arrow.array([date(2020, 1, 2), None, date(1999, 12, 31)]),
        "answers": arrow.array([True, False, None]),
        "lists": arrow.array([[1.0], None, [2.0]]),
    }
    for form, write in (("parquet", parquet.write_table), ("ipc", arrow.feather.write_feather)):
        path = tmp_path / f"table.{form}"
        write(arrow.table(columns), path)
        for name, column in columns.items():
            for is_text in (True, False):
                found = TableFiles(path, form)._read({name: is_text})
                assert_same(found, {name: column_of(column.to_pylist(), is_text)})
    # The same cells, one at a time.
    assert column_of([" 4 ", "NA", "abc", True, date(2020, 1, 2), b"1"], False).tolist()[0] == 4.0
    assert np.isinf(column_of(["abc", date(2020, 1, 2), b"1", [1.0], 10**400], False)).all()


def assert_same(found: dict[str, AnyArray], expected: dict[str, AnyArray]) -> None:
    assert found.keys() == expected.keys()
    for name, column in expected.items():
        assert found[name].dtype == column.dtype
        if column.dtype == object:
            assert found[name].tolist() == column.tolist()
        else:
            np.testing.assert_array_equal(found[name], column)
