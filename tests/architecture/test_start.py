"""What a first analysis loads: one estimator, and none of the large packages that most analyses do without."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

LARGE = ("sklearn", "pandas", "polars", "pyarrow", "narwhals", "joblib", "matplotlib", "torch", "nvflare", "numba")
FAMILIES = ("clusters", "contrasts", "ica", "linear", "networks", "sites", "survival", "views")
OTHERS = tuple(f"dpcape.estimators.{name}" for name in (*FAMILIES, "mean", "summary", "topic_model"))
FIRST = """
import numpy as np
from dpcape import PCA, Cape, Federation, in_process, rows
data = 0.3 * np.random.default_rng(0).normal(size=(40, 3))
records = {site: rows(data, bound=1.0) for site in ("lima", "lyon", "oslo")}
federation = Federation(in_process(records), protocol=Cape(n_colluding=0))
model = PCA(1, epsilon=50.0, delta=1e-5).fit(federation)
"""


def loaded_by(code: str, unwanted: tuple[str, ...], folder: Path) -> list[str]:
    """Return which of the unwanted modules a fresh process has after this code."""
    ending = f"\nimport sys\nprint(*(name for name in {unwanted!r} if name in sys.modules))"
    command = [sys.executable, "-W", "ignore", "-c", code + ending]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


def test_asking_for_an_estimator_loads_no_other_and_nothing_large(tmp_path: Path) -> None:
    assert loaded_by("from dpcape import PCA", (*LARGE, *OTHERS, "dpcape.planning", "dpcape.report"), tmp_path) == []


def test_no_estimator_needs_anything_large_to_be_imported(tmp_path: Path) -> None:
    code = "import dpcape\nfor name in dpcape.__all__: getattr(dpcape, name)\n"
    code += "from dpcape.factor_release.factor_release import FactorRelease"
    assert loaded_by(code, LARGE, tmp_path) == []


@pytest.mark.parametrize(
    "step",
    [
        "model.transform(data)",
        "model.transform({'a': [0.1], 'b': [0.2], 'c': [0.3]})",
        "PCA(1, epsilon=1.0, delta=1e-5).plan(federation)",
        "model.set_params(epsilon=2.0).get_params(), repr(model), model._repr_html_()",
        "model.save('model.npz'), PCA.load('model.npz').transform(data)",
    ],
)
def test_a_first_fit_and_what_follows_load_nothing_large(step: str, tmp_path: Path) -> None:
    assert loaded_by(f"{FIRST}\n{step}", (*LARGE, *OTHERS), tmp_path) == []


def test_tables_of_pandas_are_scored_without_scikit_learn(tmp_path: Path) -> None:
    step = "import pandas\ntable = model.set_output(transform='pandas').transform(pandas.DataFrame(data))\n"
    step += "assert list(table.columns) == ['pca0']"
    assert loaded_by(f"{FIRST}\n{step}", ("sklearn",), tmp_path) == []


@pytest.mark.engine
def test_the_end_of_a_job_loads_no_torch(tmp_path: Path) -> None:
    pytest.importorskip("nvflare")
    code = """
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.wf_comm_server import WFCommServer
from dpcape.engines.flare.controller import StudyController
StudyController()
WFCommServer().finalize_run(FLContext())
"""
    assert loaded_by(code, ("torch", "sklearn", "pandas", "matplotlib"), tmp_path) == []
