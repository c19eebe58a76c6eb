"""Positions of the keys and values of a TOML text, so that an error can point at them.

``tomllib`` does not report the position of a value it accepts. This scanner reads only text that ``tomllib`` accepted,
so it need not validate: it follows quotes, brackets and line ends and records positions.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping

Path = tuple[str | int, ...]
Position = tuple[int, int]

_BLANK = " \t"
_SPACE = " \t\n"


def positions(text: str) -> tuple[Mapping[Path, Position], Mapping[Path, Position]]:
    r"""Return (line, column) of every key and of every value of a valid TOML text, counted from 1.

    A path lists the keys from the top down; entries of arrays are numbered from 0.

    Examples
    --------
    >>> keys, values = positions("[study]\nname = 'a'\n")
    >>> keys["study",], keys["study", "name"], values["study", "name"]
    ((1, 2), (2, 1), (2, 8))
    """
    scanner = _Scanner(text.replace("\r\n", "\n"))
    scanner.document()
    return scanner.keys, scanner.values


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._line, self._line_start = 1, 0
        self._counts: dict[tuple[str, ...], int] = {}
        self.keys: dict[Path, Position] = {}
        self.values: dict[Path, Position] = {}

    def document(self) -> None:
        """Scan the whole text."""
        table: Path = ()
        while self._skip_lines():
            table = self._header() if self._peek() == "[" else self._assignment(table)

    def _header(self) -> Path:
        start = self._at
        is_array = self._text.startswith("[[", self._at)
        self._move(2 if is_array else 1)
        names = self._key_names(())
        self._at = self._text.index("]", self._at) + (2 if is_array else 1)
        if is_array:
            self._counts[names] = self._counts.get(names, -1) + 1
        table = self._numbered(names)
        self.values[table] = self._position(start)
        return table

    def _numbered(self, names: tuple[str, ...]) -> Path:
        """Return the path of a table, with the current numbers of the arrays of tables that contain it."""
        path: list[str | int] = []
        for depth, name in enumerate(names, start=1):
            path.append(name)
            if names[:depth] in self._counts:
                path.append(self._counts[names[:depth]])
        return tuple(path)

    def _assignment(self, table: Path) -> Path:
        names = self._key_names(table)
        self._at = self._text.index("=", self._at) + 1
        self._skip(_BLANK)
        self._value((*table, *names))
        return table

    def _key_names(self, table: Path) -> tuple[str, ...]:
        """Return the parts of a dotted key, and record their positions."""
        names: tuple[str, ...] = ()
        while True:
            self._skip(_BLANK)
            start = self._at
            self._key_part()
            names += (_unquoted(self._text[start : self._at]),)
            path = (*table, *names) if table or not self._counts else self._numbered(names)
            self.keys.setdefault(path, self._position(start))
            self._skip(_BLANK)
            if self._peek() != ".":
                return names
            self._move(1)

    def _key_part(self) -> None:
        if self._peek() in "\"'":
            self._string()
            return
        while self._peek() != "" and self._peek() not in " \t.=]":
            self._move(1)

    def _value(self, path: Path) -> None:
        self.values[path] = self._position(self._at)
        first = self._peek()
        if first in "\"'":
            self._string()
        elif first == "[":
            self._array(path)
        elif first == "{":
            self._inline_table(path)
        else:
            while self._peek() != "" and self._peek() not in ",]}#\n":
                self._move(1)

    def _array(self, path: Path) -> None:
        self._move(1)
        index = 0
        while self._skip_lines() and self._peek() != "]":
            if self._peek() == ",":
                self._move(1)
                continue
            self._value((*path, index))
            index += 1
        self._move(1)

    def _inline_table(self, path: Path) -> None:
        self._move(1)
        while self._skip_lines() and self._peek() != "}":
            if self._peek() == ",":
                self._move(1)
                continue
            self._assignment(path)
        self._move(1)

    def _string(self) -> None:
        """Skip a string of any of the four kinds."""
        quote = self._peek()
        long = self._text.startswith(quote * 3, self._at)
        end = quote * 3 if long else quote
        self._move(len(end))
        while not self._text.startswith(end, self._at):
            self._move(2 if quote == '"' and self._peek() == "\\" else 1)
        self._move(len(end))
        # Up to two quotes may directly precede the closing three.
        while long and self._peek() == quote:
            self._move(1)

    def _skip_lines(self) -> bool:
        """Skip blanks, line ends and comments; return whether anything is left."""
        self._skip(_SPACE)
        while self._peek() == "#":
            while self._peek() not in ("", "\n"):
                self._move(1)
            self._skip(_SPACE)
        return self._peek() != ""

    def _skip(self, characters: str) -> None:
        while self._peek() != "" and self._peek() in characters:
            self._move(1)

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _move(self, n_characters: int) -> None:
        self._at += n_characters

    def _position(self, at: int) -> Position:
        """Return line and column of a position at, after or shortly before the last one requested."""
        if at < self._line_start:
            self._line, self._line_start = self._text.count("\n", 0, at) + 1, self._text.rfind("\n", 0, at) + 1
        self._line += self._text.count("\n", self._line_start, at)
        self._line_start = max(self._line_start, self._text.rfind("\n", self._line_start, at) + 1)
        return self._line, at - self._line_start + 1


def _unquoted(key: str) -> str:
    if key[:1] not in ('"', "'"):
        return key
    name: str = tomllib.loads(f"key = {key}")["key"]
    return name
