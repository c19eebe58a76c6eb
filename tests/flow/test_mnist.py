"""Energy captured on MNIST, as the project promises it (10 sites, 3 colluding, K=50, bound 10)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dpcape import PCA, Cape, Federation, Independent, Replay, in_process, rows
from dpcape.metrics import captured_ratio

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "mnist.npz"

pytestmark = [pytest.mark.shared_data, pytest.mark.skipif(not DATA.exists(), reason="MNIST is not beside the project")]


@pytest.fixture(scope="module")
def pixels():
    with np.load(DATA) as stored:
        return (stored["X_train"].reshape(-1, 784) / np.float32(255)).astype(np.float32)


@pytest.fixture(scope="module")
def moment(pixels):
    norms = np.maximum(np.linalg.norm(pixels, axis=1, keepdims=True), 10)
    clipped = pixels * (10 / norms)
    return (clipped.T @ clipped).astype(np.float64) / len(pixels)


@pytest.mark.parametrize(
    ("n_sites", "protocol", "epsilon", "low", "high"),
    [
        (10, Cape(n_colluding=3), 1.0, 0.925, 0.95),
        (1, Independent(), 1.0, 0.94, 0.96),
        (10, Independent(), 1.0, 0.825, 0.855),
        (0, Independent(), 1.0, 0.63, 0.70),
        (10, Cape(n_colluding=3), 100.0, 0.999, 1.0),
    ],
    ids=["cape", "pooled", "conventional", "one site alone", "cape at epsilon 100"],
)
def test_captured_energy(pixels, moment, n_sites, protocol, epsilon, low, high):
    parts = [pixels[::10]] if n_sites == 0 else [pixels[start::n_sites] for start in range(n_sites)]
    held = {f"site-{index:02}": rows(part, bound=10.0) for index, part in enumerate(parts)}
    federation = Federation(in_process(held, noise=Replay(7)), protocol=protocol)
    model = PCA(50, epsilon=epsilon, delta=1e-5, center=False).fit(federation)
    assert low <= captured_ratio(model.components_, moment) <= high
