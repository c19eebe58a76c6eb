"""One federation for the attacks, set up as the guide says; it ends with a check that no process outlives it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .attacked import Attacked

# The federation of the engine tests is the one that is attacked.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


@pytest.fixture(scope="module")
def federation() -> Iterator[Attacked]:
    from .attacked import Attacked

    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    place = Path(tempfile.mkdtemp(prefix="dpcape-hostile-"))
    # The engine's work folders are below it.
    place.chmod(0o711)
    made = Attacked(place)
    made.create()
    try:
        made.start()
        yield made
    finally:
        made.stop()
        left = made.survivors()
        shutil.rmtree(place, ignore_errors=True)
    assert left == []
