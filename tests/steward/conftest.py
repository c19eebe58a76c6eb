"""A site with its steward's page running, and people who visit it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .place import Place
from .visitor import Visitor


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.close()


@pytest.fixture
def stranger(place: Place) -> Visitor:
    """Somebody on the same computer without a code."""
    return Visitor(place.server.port)


@pytest.fixture
def steward(place: Place) -> Visitor:
    """The steward, signed in."""
    visitor = Visitor(place.server.port)
    assert visitor.enter(place.server.door.code).status == 303
    return visitor
