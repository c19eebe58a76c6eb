"""Ranges and levels proposed from a REDCap data dictionary, which is public; no record is read."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dpcape.core.errors import DamagedFile, InvalidParameter
from dpcape.schema.schema import Schema

_NAME, _TYPE, _CHOICES = "variable / field name", "field type", "choices, calculations, or slider labels"
_VALIDATION, _LOW, _HIGH = "text validation type or show slider number", "text validation min", "text validation max"
_IDENTIFIER = "identifier?"
_NEEDED = (_NAME, _TYPE, _CHOICES, _VALIDATION, _LOW, _HIGH)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_SAFE_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Proposal:
    """What a data dictionary says of its columns.

    Attributes
    ----------
    columns : mapping
        Name of a column in the export to its range or levels.
    left_out : mapping
        Name of a field to the reason why nothing is proposed.
    """

    columns: Mapping[str, Mapping[str, object]]
    left_out: Mapping[str, str]

    def schema(self) -> Schema:
        """Return the proposed columns as a schema."""
        return Schema.of(dict(self.columns))

    def toml(self) -> str:
        """Return the proposal as a schema file, with a comment for each field that was left out."""
        lines = [
            "# Proposed from a REDCap data dictionary. Everything here becomes public, and results depend on it:",
            "# narrow ranges by public knowledge, remove columns you do not need, never look at records for it.",
        ]
        for name, spec in self.columns.items():
            key = name if _SAFE_KEY.fullmatch(name) else json.dumps(name)
            lines += ["", f"[columns.{key}]", *(f"{field} = {json.dumps(value)}" for field, value in spec.items())]
        # One line each: a name with line breaks could otherwise add columns to the file.
        left_out = (f"{name} is left out: {reason}." for name, reason in self.left_out.items())
        lines += ["", *(f"# {' '.join(text.split())}" for text in left_out)]
        return "\n".join(lines).rstrip() + "\n"


def read_dictionary(path: str | Path) -> Proposal:
    """Return the columns that a REDCap data dictionary describes, as its raw export names and codes them.

    Parameters
    ----------
    path : str or Path
        The dictionary, as REDCap exports it: a CSV file with one line per field.
    """
    dictionary_path = Path(path)
    try:
        with dictionary_path.open(encoding="utf-8-sig", newline="") as stream:
            rows = [{key.strip().lower(): (value or "").strip() for key, value in row.items() if isinstance(key, str)
                     and isinstance(value, str | None)} for row in csv.DictReader(stream)]  # fmt: skip
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = "it is missing or not a CSV file in UTF-8"
        raise DamagedFile(f"The data dictionary {str(path)!r} could not be read", why, "Export it again.") from error
    absent = [name for name in _NEEDED if not rows or name not in rows[0]]
    if absent:
        must = "be a REDCap data dictionary, with the columns it has when exported"
        remedy = "Export it from Project Setup, Data Dictionary."
        raise InvalidParameter(dictionary_path.name, must, f"a file without {absent[0]!r}", remedy)
    columns: dict[str, Mapping[str, object]] = {}
    left_out: dict[str, str] = {}
    for row in rows:
        described = _field(row)
        if isinstance(described, str):
            left_out[row[_NAME]] = described
        else:
            columns.update(described)
    if not columns:
        raise InvalidParameter(dictionary_path.name, "describe ranges or levels of some field", "a file without any")
    return Proposal(columns, left_out)


def _field(row: Mapping[str, str]) -> dict[str, Mapping[str, object]] | str:
    """Return the columns of one field with their ranges or levels, or why there are none."""
    name, kind = row[_NAME], row[_TYPE].lower()
    if row.get(_IDENTIFIER, "").lower() == "y":
        return "it is marked as an identifier"
    if kind in ("yesno", "truefalse"):
        return {name: {"levels": ["0", "1"]}}
    if kind in ("radio", "dropdown", "select"):
        codes = _codes(row[_CHOICES])
        return {name: {"levels": codes}} if codes else "its choices cannot be read"
    if kind == "checkbox":
        # An export has one column per box.
        boxes = (f"{name}___{code.lower().replace('-', '_')}" for code in _codes(row[_CHOICES]))
        return {box: {"levels": ["0", "1"]} for box in boxes} or "its choices cannot be read"
    if kind == "slider":
        return {name: {"range": [_number(row[_LOW]) or 0.0, _number(row[_HIGH]) or 100.0]}}
    if kind == "text":
        return _text(name, row)
    return "a calculated field has no public limits" if kind == "calc" else f"a field of type {kind!r} has no values"


def _text(name: str, row: Mapping[str, str]) -> dict[str, Mapping[str, object]] | str:
    validation, ends = row[_VALIDATION].lower(), (row[_LOW], row[_HIGH])
    if validation.startswith("date_") and all(_DATE.fullmatch(end) for end in ends) and ends[0] < ends[1]:
        return {name: {"range": list(ends)}}
    if validation.startswith(("integer", "number")):
        low, high = (_number(end) for end in ends)
        if low is not None and high is not None and low < high:
            return {name: {"range": [low, high]}}
    if not validation:
        return "free text is not analysed"
    return f"the dictionary states no minimum and maximum of this {validation.split('_')[0]}"


def _codes(choices: str) -> list[str]:
    """Return the codes of ``1, Yes | 2, No``."""
    codes = [choice.split(",", maxsplit=1)[0].strip() for choice in choices.split("|") if choice.strip()]
    return codes if all(codes) and len(set(codes)) == len(codes) else []


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
