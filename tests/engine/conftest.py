"""One federation for all engine tests; it ends with a check that no process outlives it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .consortium import Consortium


@pytest.fixture(scope="session")
def consortium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    pytest.importorskip("nvflare")
    from .consortium import Consortium

    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    made = Consortium(tmp_path_factory.mktemp("federation"))
    made.create()
    try:
        made.start()
        yield made
    finally:
        made.stop()
        left = made.survivors()
    assert left == []
