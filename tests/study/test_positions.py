"""Positions agree with what tomllib finds, for any layout."""

from __future__ import annotations

import json
import tomllib
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dpcape.study.toml_positions import positions

names = st.one_of(
    st.from_regex(r"[A-Za-z0-9_-]{1,6}", fullmatch=True),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=5),
)
scalars = st.one_of(
    st.integers(-(2**40), 2**40),
    st.booleans(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12),
    st.sampled_from(["# no comment", "a = 1", "[x]", '"', "'", "\\", "]]", "}", ",", '"""']),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=3)),
    max_leaves=6,
)
documents = st.dictionaries(names, st.dictionaries(names, values, max_size=4), max_size=4)


class Writer:
    """Writes a document as TOML in one of its many layouts, and notes where each value begins."""

    def __init__(self, draw: Any) -> None:
        self.draw, self.text = draw, ""
        self.values: dict[tuple[str | int, ...], tuple[int, int]] = {}

    def place(self) -> tuple[int, int]:
        return self.text.count("\n") + 1, len(self.text) - (self.text.rfind("\n") + 1) + 1

    def key(self, name: str) -> str:
        bare = name and all(letter.isascii() and (letter.isalnum() or letter in "_-") for letter in name)
        return name if bare and self.draw(st.booleans()) else json.dumps(name, ensure_ascii=False)

    def string(self, value: str) -> str:
        choices = [json.dumps(value, ensure_ascii=False)]
        if "'" not in value:
            choices.append(f"'{value}'")
        if "'''" not in value and not value.endswith("'"):
            choices.append(f"'''\n{value}'''")
        if '"' not in value and "\\" not in value:
            choices.append(f'"""\\\n   {value.lstrip()}"""' if value == value.lstrip() else f'"""{value}"""')
        return str(self.draw(st.sampled_from(choices)))

    def value(self, value: Any, path: tuple[str | int, ...]) -> None:
        self.values[path] = self.place()
        if isinstance(value, dict):
            self.text += "{"
            for at, (name, entry) in enumerate(value.items()):
                self.text += ", " if at else " "
                self.text += self.key(name) + " = "
                self.value(entry, (*path, name))
            self.text += " }"
        elif isinstance(value, list):
            self.text += "[" + self.draw(st.sampled_from(["", "\n", " # ] comment\n  "]))
            for at, entry in enumerate(value):
                self.value(entry, (*path, at))
                self.text += self.draw(st.sampled_from([",", " ,\n", ", # x\n"]))
            self.text += "]"
        elif isinstance(value, str):
            self.text += self.string(value)
        else:
            self.text += json.dumps(value)

    def document(self, content: dict[str, dict[str, Any]]) -> None:
        for table, entries in content.items():
            self.text += self.draw(st.sampled_from(["", "\n", "# [comment]\n", "  "]))
            self.text += f"[ {self.key(table)} ]\n"
            for name, entry in entries.items():
                self.text += self.key(name) + self.draw(st.sampled_from([" = ", "=", "  =\t"]))
                self.value(entry, (table, name))
                self.text += self.draw(st.sampled_from(["\n", " # end\n", "\n\n"]))


@settings(max_examples=150, deadline=None)
@given(content=documents, data=st.data())
def test_every_value_is_found_where_it_was_written(content: dict[str, dict[str, Any]], data: st.DataObject) -> None:
    writer = Writer(data.draw)
    writer.document(content)
    assert tomllib.loads(writer.text) == content
    keys, found = positions(writer.text)
    for path, place in writer.values.items():
        assert found[path] == place
    assert {path for path in found if len(path) == 1} == {(table,) for table in content}
    lines = writer.text.split("\n")
    for path, (line, column) in keys.items():
        assert lines[line - 1][column - 1 :].startswith((str(path[-1]), '"'))


def test_dotted_keys_arrays_of_tables_and_windows_line_ends() -> None:
    text = 'a.b = 1\r\n[[t]]\r\nx = 1\r\n[[t]]\r\n"y z" = [1, [2]]\r\n[t.sub]\r\nw = """\r\n[no]\r\n"""\r\nlast = 3\r\n'
    keys, values = positions(text)
    assert keys["a",] == (1, 1)
    assert values["a", "b"] == (1, 7)
    assert values["t", 0, "x"] == (3, 5)
    assert values["t", 1, "y z", 1, 0] == (5, 14)
    assert values["t", 1, "sub", "w"] == (7, 5)
    assert values["t", 1, "sub", "last"] == (10, 8)
