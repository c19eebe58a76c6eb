"""Reader of a study's tables, field by field; every error names the file, the line and the column."""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn, TypeGuard, TypeVar

from dpcape.core.errors import DpcapeError, Failed, InvalidParameter
from dpcape.core.files import NAME_RULE, is_name
from dpcape.study.remedies import remedy_for
from dpcape.study.toml_positions import Path as KeyPath
from dpcape.study.toml_positions import positions

# Limits that are checked before parsing: a study is a page of text.
MAX_CHARACTERS = 2**20
MAX_FILE_BYTES = 2**26

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|d)")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

_T = TypeVar("_T")
_Error = TypeVar("_Error", bound=DpcapeError)


class TomlSource:
    """Text of a study, its parsed content, and the positions of its keys and values."""

    def __init__(self, text: str, name: str) -> None:
        self.name = name
        if len(text) > MAX_CHARACTERS:
            must = f"have at most {MAX_CHARACTERS} characters"
            raise InvalidParameter("a study", must, len(text), "Check the file.").at(name)
        try:
            self.content: dict[str, object] = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            refused = InvalidParameter("a study", "be valid TOML", f"an error ({error})", "Correct the line.")
            raise refused.at(f"{name}{_position_of(error, text)}") from error
        self._keys, self._values = positions(text)

    def located(self, path: KeyPath, error: _Error, remedy: str = "", *, at_key: bool = False) -> _Error:
        """Return an error with the position of the value (or key) at ``path``, or of the nearest table that exists."""
        first, second = (self._keys, self._values) if at_key else (self._values, self._keys)
        nearest = path
        while nearest and nearest not in first and nearest not in second:
            nearest = nearest[:-1]
        line, column = first.get(nearest) or second.get(nearest) or (1, 1)
        return error.at(f"{self.name}, line {line}, column {column}", remedy)


class TomlTable:
    """One table of a study, read field by field; fields that were not read are unknown and refused at the end."""

    def __init__(self, source: TomlSource, path: KeyPath, *, required: bool = True) -> None:
        self.source, self.path = source, path
        self._taken: set[str] = set()
        content: object = source.content
        for key in path:
            content = content.get(key, {}) if isinstance(content, dict) else None
        if not isinstance(content, dict):
            raise source.located(
                path, InvalidParameter(self.title, "be a table", repr(content), f"Write {self.title}.")
            )
        if required and not content:
            missing = InvalidParameter(f"{self.title} is missing", remedy="See docs/consortium.md for an example.")
            raise source.located(path, missing)
        self._content: dict[str, object] = content

    @property
    def title(self) -> str:
        """Name of the table in messages."""
        return f"[{'.'.join(map(str, self.path))}]"

    def __contains__(self, key: str) -> bool:
        return key in self._content

    def names(self) -> list[str]:
        """Return the names of all fields, in the order of the file."""
        return list(self._content)

    def unread(self) -> dict[str, object]:
        """Return all fields that were not read yet, and mark them as read."""
        unread = {key: value for key, value in self._content.items() if key not in self._taken}
        self._taken.update(unread)
        return unread

    def fail(self, key: str, requirement: str, remedy: str = "") -> NoReturn:
        """Raise InvalidParameter for a field: what it must be, what it is, and the remedy."""
        if key in self._content:
            got, field = repr(self._content[key]), key
        else:
            # Most often a missing field has a mistyped name.
            typed = difflib.get_close_matches(key, [name for name in self._content if name not in self._taken], n=1)
            field = typed[0] if typed else key
            got = f"nothing, but there is a field {field!r}" if typed else "nothing"
        error = InvalidParameter(f"{key} of {self.title}", f"be {requirement}", _short(got), remedy or remedy_for(key))
        raise self.source.located((*self.path, field), error, at_key=field != key)

    def refuse(self, key: str, reason: str) -> NoReturn:
        """Raise InvalidParameter for a field that does not belong here; ``reason`` says where it does not."""
        self.fail(key, f"left out {reason}", f"Remove {key}.")

    def value(self, key: str) -> object:
        """Return a field of any type."""
        self._taken.add(key)
        return self._content.get(key)

    def text(self, key: str, *, required: bool = True) -> str | None:
        """Return a string that is not empty."""
        value = self.value(key)
        if value is None and not required:
            return None
        if not isinstance(value, str) or not value:
            self.fail(key, "a string", f'Write {key} = "...".')
        return value

    def name(self, key: str) -> str:
        """Return a name that is safe in file names and messages."""
        value = self.text(key)
        if value is None or not is_name(value):
            self.fail(key, NAME_RULE)
        return value

    def choice(self, key: str, choices: tuple[str, ...]) -> str:
        """Return one of several words."""
        value = self.value(key)
        if value not in choices or not isinstance(value, str):
            self.fail(key, f"one of {', '.join(choices)}", _nearest(value, choices) or "Choose one of them.")
        return value

    def number(self, key: str, *, required: bool = True) -> float | None:
        """Return a finite number."""
        value = self.value(key)
        if value is None and not required:
            return None
        if not is_number(value):
            self.fail(key, "a finite number")
        return float(value)

    def count(self, key: str, *, least: int = 0, required: bool = True) -> int | None:
        """Return an integer."""
        value = self.value(key)
        if value is None and not required:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**53:
            self.fail(key, f"a whole number of at least {least}")
        return value

    def seconds(self, key: str) -> float | None:
        """Return a duration in seconds, given as a number or as a string such as "90s", "5m", "2h" or "1d"."""
        value = self.value(key)
        if value is None:
            return None
        match = _DURATION.fullmatch(value) if isinstance(value, str) else None
        seconds = float(match[1]) * _SECONDS[match[2]] if match else float(value) if is_number(value) else 0.0
        if not 0 < seconds < math.inf:
            self.fail(key, 'a duration such as "90s", "5m" or "2h"')
        return seconds

    def file(self, key: str, folder: Path) -> Path | None:
        """Return the path of a file that belongs to the study, in the study's folder or below."""
        value = self.text(key, required=False)
        if value is None:
            return None
        path = folder / value
        if Path(value).is_absolute() or ".." in Path(value).parts:
            self.fail(key, "a file in the study's folder or below", "Put the file in the study's folder.")
        if not path.is_file() or path.stat().st_size > MAX_FILE_BYTES:
            self.fail(key, "an existing file of at most 64 MiB", "Put the file in the study's folder.")
        return path

    def finish(self) -> None:
        """Refuse fields that were not read."""
        for key in self._content:
            if key not in self._taken:
                known = tuple(sorted(self._taken))
                sentence = f"{key!r} is not a field of {self.title}; the fields are {', '.join(known)}"
                error = InvalidParameter(sentence, remedy=_nearest(key, known) or f"Remove {key}.")
                raise self.source.located((*self.path, key), error, at_key=True)

    def within(self, key: str | None, build: Callable[[], _T]) -> _T:
        """Return ``build()``; what it refuses gets the position of its field or of this table."""
        try:
            return build()
        except (InvalidParameter, Failed) as error:
            field = error.subject if isinstance(error, InvalidParameter) and error.subject in self._content else key
            path, remedy = (self.path, "") if field is None else ((*self.path, field), remedy_for(field))
            raise self.source.located(path, error, remedy) from error


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and _is_finite(value)


def without_dates(value: object) -> bool:
    """Return whether a TOML value consists of strings, finite numbers, Booleans, and lists and tables of these."""
    if isinstance(value, Mapping):
        return all(without_dates(entry) for entry in value.values())
    if isinstance(value, list):
        return all(without_dates(entry) for entry in value)
    return isinstance(value, str | bool) or is_number(value)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _position_of(error: Exception, text: str) -> str:
    match = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
    if match:
        return f", line {match[1]}, column {match[2]}"
    lines = text.split("\n")
    return f", line {len(lines)}, column {len(lines[-1]) + 1}"


def _nearest(value: object, choices: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(str(value), choices, n=1)
    return f"Did you mean {near[0]!r}?" if near else ""


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."
