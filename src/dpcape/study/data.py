"""The [data] table of a study: the public description of the records and of their preparation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeGuard

from dpcape.core.facts import MOST_VIEWS
from dpcape.records.clip import longest_row
from dpcape.records.data_plan import KINDS, Columns, DataPlan
from dpcape.schema.schema import Schema
from dpcape.study.toml_reader import TomlTable, is_number


def read_data(section: TomlTable, folder: Path) -> DataPlan:
    """Return the content of the [data] table, checked."""
    kind = section.choice("kind", KINDS)
    files: list[Path] = []
    plan: dict[str, Any] = {"kind": kind}
    if kind == "views":
        plan["tables"] = tuple(_view(section, key, folder, files) for key in _view_names(section))
        plan["bounds"] = _bounds(section, plan["tables"])
    else:
        mask = None if kind == "subjects" else _own_mask(section, kind, folder)
        implied = _voxels(section, folder) if kind == "subjects" or mask is not None else None
        plan["tables"] = (_columns(section, folder, files, implied, mask),)
        plan["bounds"] = () if kind in ("documents", "table") else (_bound(section, plan["tables"][0]),)
        _check_preparation(section, kind, plan["tables"][0])
    if kind == "labelled":
        plan |= _target(section)
    if kind == "subjects":
        plan |= _subjects(section, folder, files)
    if "shape" in section:
        plan["shape"] = _shape(section, plan["tables"])
    if "invalid" in section:
        plan["invalid"] = section.choice("invalid", ("zero", "refuse"))
    section.finish()
    return DataPlan(**plan, files=tuple(files))


def _shape(section: TomlTable, tables: Sequence[Columns]) -> tuple[int, ...]:
    """Return the public shape of the image that the columns form, in C order."""
    entries = section.value("shape")
    shape = tuple(entries) if isinstance(entries, list) else ()
    is_whole = all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in shape)
    if len(tables) != 1 or not is_whole or len(shape) not in (2, 3):
        must = "two or three positive whole numbers, for records of one table"
        section.fail("shape", must, "Write shape = [28, 28].")
    if math.prod(shape) != tables[0].n_columns:
        section.fail("shape", f"a shape with as many pixels as there are columns ({tables[0].n_columns})")
    return shape


def _check_preparation(section: TomlTable, kind: str, columns: Columns) -> None:
    """Refuse preparation that does not apply to records of this kind, instead of ignoring it silently."""
    if kind in ("documents", "subjects") and columns.ranges is not None:
        key = next(key for key in ("ranges", "schema", "columns") if key in section)
        reason = f"for {kind}, whose numbers are not rescaled"
        if key == "columns":
            section.fail(key, f"a list of names {reason}")
        section.refuse(key, reason)
    if kind == "table" and not isinstance(columns.ranges, Schema):
        section.fail("columns", "a table from name to range or levels, or a schema file, for records of kind table")
    if kind == "table" and "invalid" in section:
        section.refuse("invalid", "for a table, in which what cannot be read counts as missing")
    if kind == "documents" and columns.missing is not None:
        section.refuse("missing", "for documents, whose counts must be complete")


def _view_names(section: TomlTable) -> list[str]:
    """Return the names of the tables that describe the views: x and y unless the study names others."""
    names = section.value("views")
    if names is None:
        return ["x", "y"]
    taken = ("kind", "views", "bounds", "invalid")
    if not _are_names(names) or not 2 <= len(names) <= MOST_VIEWS or set(names) & set(taken):
        must = f"a list of 2 to {MOST_VIEWS} different names of tables in [data], none of them {', '.join(taken)}"
        section.fail("views", must, 'Write views = ["x", "y", "z"] for [data.x], [data.y] and [data.z].')
    return names


def _are_names(value: object) -> TypeGuard[list[str]]:
    if not isinstance(value, list):
        return False
    return all(isinstance(name, str) and name for name in value) and len(set(value)) == len(value)


def _view(section: TomlTable, key: str, folder: Path, files: list[Path]) -> Columns:
    section.value(key)
    view = TomlTable(section.source, (*section.path, key))
    mask = _own_mask(view, "views", folder)
    columns = _columns(view, folder, files, _voxels(view, folder) if mask is not None else None, mask)
    view.finish()
    return columns


def _own_mask(section: TomlTable, kind: str, folder: Path) -> Path | None:
    """Return the mask whose voxels the columns of rows or of a view are, for maps of the result."""
    mask = section.file("mask", folder) if kind in ("rows", "labelled", "views") else None
    counted = section.count("features", least=1) if "features" in section else None
    if mask is not None and counted is not None and find_spec("nibabel") is not None:
        from dpcape.records.readers.nifti import n_voxels

        n_inside = section.within("mask", lambda: n_voxels(mask))
        if n_inside != counted:
            section.fail("mask", f"an image with as many voxels inside as there are columns ({counted})")
    return mask


def _voxels(section: TomlTable, folder: Path) -> int | None:
    """Return the number of columns that a mask implies where the study does not state one."""
    mask = section.file("mask", folder)
    if mask is None or any(key in section for key in ("columns", "schema", "features")):
        return None
    from dpcape.records.readers.nifti import n_voxels

    return section.within("mask", lambda: n_voxels(mask))


def _columns(
    section: TomlTable, folder: Path, files: list[Path], implied: int | None = None, mask: Path | None = None
) -> Columns:
    forms = [key for key in ("columns", "schema", "features") if key in section]
    if implied is None and len(forms) != 1:
        got = ", ".join(forms) or "no form"
        must = f"given in exactly one of the forms columns, schema and features (given: {got})"
        section.fail("columns", must, "Name the columns, or write features = 64 for an array without names.")
    names, ranges, n_columns = ((), None, implied) if implied else _described(section, folder, files)
    if mask is not None:
        files.append(mask)
    missing = section.value("missing")
    if not (missing is None or is_number(missing) or isinstance(missing, dict)):
        section.fail("missing", "a number, or a table from column to number or level")
    return Columns(
        names=names,
        n_columns=n_columns,
        ranges=_ranges(section, names, n_columns) if ranges is None else ranges,
        missing=missing,
        array=section.text("array", required=False),
        mask=mask,
    )


def _described(section: TomlTable, folder: Path, files: list[Path]) -> tuple[tuple[str, ...], Schema | None, int]:
    """Return the names, the schema and the number of raw columns."""
    schema = section.file("schema", folder)
    if schema is not None:
        files.append(schema)
        return _from_schema(section.within("schema", lambda: Schema.from_toml(schema)))
    if "features" in section:
        return (), None, section.count("features", least=1) or 0
    columns = section.value("columns")
    if isinstance(columns, dict):
        # TOML has no tuples: a list of two numbers is a range.
        described = {name: {"range": entry} if _is_pair(entry) else entry for name, entry in columns.items()}
        return _from_schema(section.within("columns", lambda: Schema.of(described)))
    if isinstance(columns, str):
        path = section.file("columns", folder)
        assert path is not None
        files.append(path)
        columns = [line.strip() for line in _text_of(section, path).splitlines() if line.strip()]
    if not isinstance(columns, list) or not columns or not all(isinstance(name, str) and name for name in columns):
        section.fail("columns", "a list of names, a file with one name per line, or a table from name to range")
    if len(set(columns)) != len(columns):
        section.fail("columns", "distinct names", "Name every column once.")
    return tuple(columns), None, len(columns)


def _from_schema(schema: Schema) -> tuple[tuple[str, ...], Schema, int]:
    names = tuple(column.name for column in schema.columns)
    return names, schema, len(names)


def _text_of(section: TomlTable, path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        section.fail("columns", "a UTF-8 text file", "Save the file as UTF-8.")


def _ranges(
    section: TomlTable, names: Sequence[str], n_columns: int
) -> Schema | tuple[tuple[float, float], ...] | None:
    """Return the ranges, given as one (low, high) for all columns or one for each."""
    entry = section.value("ranges")
    if entry is None:
        return None
    pairs = [entry] * n_columns if _is_pair(entry) else entry
    if not isinstance(pairs, list) or not all(map(_is_pair, pairs)) or len(pairs) != n_columns:
        section.fail("ranges", f"one [low, high] for all columns, or a list of {n_columns} such pairs")
    ranges = tuple((float(low), float(high)) for low, high in pairs)
    if not names:
        section.within("ranges", lambda: Schema.of(ranges))
        return ranges
    return section.within("ranges", lambda: Schema.of(dict(zip(names, ranges, strict=True))))


def _is_pair(value: object) -> TypeGuard[list[float]]:
    return isinstance(value, list) and len(value) == 2 and all(is_number(end) for end in value)


def _bound(section: TomlTable, columns: Columns) -> float:
    """Return the public maximum norm of a record; with ranges it may be left out."""
    if "bound" not in section and columns.ranges is not None:
        return longest_row(columns.n_columns)
    bound = section.number("bound")
    if bound is None or bound <= 0:
        section.fail("bound", "a positive number, the public maximum norm of a record")
    return bound


def _bounds(section: TomlTable, tables: Sequence[Columns]) -> tuple[float, ...]:
    if "bounds" not in section and all(columns.ranges is not None for columns in tables):
        return tuple(longest_row(columns.n_columns) for columns in tables)
    value = section.value("bounds")
    count = len(tables)
    if not isinstance(value, list) or len(value) != count or not all(is_number(entry) and entry > 0 for entry in value):
        wanted = "two" if count == 2 else str(count)
        example = ", ".join(f"{number}.0" for number in range(1, count + 1))
        section.fail("bounds", f"{wanted} positive numbers, one per view", f"Write bounds = [{example}].")
    return tuple(float(entry) for entry in value)


def _target(section: TomlTable) -> dict[str, Any]:
    if ("response" in section) == ("classes" in section):
        section.fail("response", "given if classes is not, and only then", "Write response = [low, high].")
    response, classes = section.value("response"), section.value("classes")
    if response is not None and not (_is_pair(response) and response[0] < response[1]):
        section.fail("response", "[low, high], two finite numbers with low below high")
    if classes is not None and not (_are_labels(classes) and len(classes) >= 2 and len(set(classes)) == len(classes)):
        section.fail("classes", "a list of at least two distinct labels, all strings or all numbers")
    outside = section.choice("outside", ("clip", "refuse")) if "outside" in section else "clip"
    return {
        "target": section.text("target"),
        "response": None if response is None else (float(response[0]), float(response[1])),
        "classes": None if classes is None else tuple(classes),
        "outside": outside,
    }


def _are_labels(value: object) -> TypeGuard[list[str | float]]:
    """Return whether a value is a list of strings or a list of numbers."""
    if not isinstance(value, list):
        return False
    return all(isinstance(label, str) for label in value) or all(is_number(label) for label in value)


def _subjects(section: TomlTable, folder: Path, files: list[Path]) -> dict[str, Any]:
    mask = section.file("mask", folder)
    if mask is not None:
        files.append(mask)
    if section.value("unit") == "subject" and "rows_per_subject" not in section:
        must = "given for unit 'subject', the public largest number of time points of a person"
        section.fail("rows_per_subject", must, "Write rows_per_subject = 250.")
    return {
        "unit": section.choice("unit", ("subject", "record")),
        "subject": section.text("subject", required=False),
        "rows_per_subject": section.count("rows_per_subject", least=1, required=False),
        "mask": mask,
        "pattern": _pattern(section),
    }


def _pattern(section: TomlTable) -> str | None:
    """Return the pattern of file names in a site's folder."""
    pattern = section.text("pattern", required=False)
    if pattern is not None and (pattern.startswith(("/", "~")) or ".." in Path(pattern).parts):
        section.fail("pattern", "a pattern of names inside a site's folder", 'Write "sub-*_task-rest_*_bold.nii.gz".')
    return pattern
