"""The benchmark of the engine finds the data of the consortium that these tests run."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pytest.importorskip("nvflare")

from dpcape.study.study import Study

from .consortium import study_text, write_data

pytestmark = pytest.mark.engine
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("engine_benchmark", BENCHMARKS / "engine.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_wide_rows_take_the_place_of_those_of_the_tests(benchmark: ModuleType, tmp_path: Path) -> None:
    sites = ["site-0", "site-1", "site-2"]
    write_data(tmp_path, sites)
    paths = [tmp_path / f"{site}.npz" for site in sites]
    with np.load(paths[0]) as stored:
        names = set(stored.files)
    benchmark.write_wide(paths)
    study = Study.parse(study_text("wide", "pca", parameters="n_components = 2", data=benchmark.WIDE, sites=sites))
    for path in paths:
        with np.load(path) as stored:
            assert set(stored.files) == names
            assert stored["wide"].shape == (4, study.facts().n_features)
