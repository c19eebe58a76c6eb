"""A page as a tree that tests can ask, by the standard library's parser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

VOID = {"meta", "link", "br", "img", "input", "hr"}
# Self-closing in SVG, where HTML needs no end tag written.
LEAVES = {"path", "use", "rect", "line", "circle", "polygon", "polyline", "image", "stop"}


class Node:
    """An element: its name, attributes, children and text."""

    def __init__(self, name: str, attributes: dict[str, str]) -> None:
        self.name, self.attributes = name, attributes
        self.content: list[Node | str] = []

    def walk(self) -> Iterator[Node]:
        """Return this element and all below it, in order."""
        yield self
        for entry in self.content:
            if isinstance(entry, Node):
                yield from entry.walk()

    def all(self, *names: str) -> list[Node]:
        """Return the elements of these names."""
        return [node for node in self.walk() if node.name in names]

    def one(self, name: str) -> Node:
        """Return the only element of this name."""
        (found,) = self.all(name)
        return found

    @property
    def text(self) -> str:
        """What is read, styles and scripts left out."""
        if self.name in ("style", "script"):
            return ""
        parts = [entry if isinstance(entry, str) else entry.text for entry in self.content]
        return " ".join(" ".join(parts).split())


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("#page", {})
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, {name: value or "" for name, value in attrs})
        self._open[-1].content.append(node)
        if tag not in VOID:
            self._open.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open[-1].content.append(Node(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1].name == tag, f"</{tag}> closes <{self._open[-1].name}>"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        self._open[-1].content.append(data)


def read_html(text: str) -> Node:
    """Return a page, or a fragment, as a tree; an element left open or closed wrongly fails."""
    builder = _Builder()
    builder.feed(text)
    builder.close()
    assert len(builder._open) == 1, f"<{builder._open[-1].name}> is left open"
    return builder.root


def data_of(page: Node) -> dict[str, Any]:
    """Return the numbers a page carries."""
    (script,) = page.all("script")
    assert script.attributes == {"type": "application/json", "id": "dpcape-data"}
    found: dict[str, Any] = json.loads("".join(entry for entry in script.content if isinstance(entry, str)))
    return found
