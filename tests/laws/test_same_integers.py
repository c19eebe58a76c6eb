"""Totals are the same integers with other kernels of linear algebra, threads and vector instructions."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from .same_integers import digest

SETTINGS = [
    {"OPENBLAS_CORETYPE": "Nehalem", "OPENBLAS_NUM_THREADS": "4"},
    {"OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_NUM_THREADS": "1"},
    {"OPENBLAS_CORETYPE": "Prescott", "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX FMA3 AVX2"},
]


@pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning", "ignore:invalid value:RuntimeWarning")
def test_integers_do_not_depend_on_library_threads_or_processor() -> None:
    expected = digest()
    environment = {
        **os.environ,
        "PYTHONWARNINGS": "ignore",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.laws.same_integers"],
            env={**environment, **setting},
            stdout=subprocess.PIPE,
            text=True,
        )
        for setting in SETTINGS
    ]
    for process, setting in zip(running, SETTINGS, strict=True):
        found, _ = process.communicate(timeout=300)
        assert found.split()[-1:] == [expected], setting


def test_the_settings_change_what_floating_point_adds_up() -> None:
    """Otherwise equal hashes would prove nothing: a plain product differs between two of these settings."""
    program = (
        "import numpy as np; x = np.random.default_rng(0).normal(size=(300, 257));"
        "import hashlib; print(hashlib.sha256((x.T @ x).tobytes()).hexdigest())"
    )
    hashes = {
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, **setting}, capture_output=True, text=True, check=True
        ).stdout
        for setting in SETTINGS
    }
    if "openblas" not in str(np.show_config(mode="dicts")).lower():
        pytest.skip("another library than OpenBLAS")
    assert len(hashes) > 1
