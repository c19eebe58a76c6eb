"""Clipped infomax gradients of the published algorithm."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcape_papers.published.ica import GhostStep

WIDTH = 4


@settings(max_examples=50, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([1e-3, 1.0, 1e3]))
def test_ghost_norms_are_the_norms_of_the_gradients(seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    unmixing, bias = rng.standard_normal((WIDTH, WIDTH)) * scale, rng.standard_normal(WIDTH)
    rows = rng.standard_normal((40, WIDTH)) * 3
    step = GhostStep(unmixing, bias, clip=2.0, bias_clip=0.5)
    step.add(rows)
    expected = np.zeros(WIDTH * (WIDTH + 1))
    for row in rows:
        source = unmixing @ row + bias
        score = -np.tanh(source / 2)
        gradient = (np.eye(WIDTH) + np.outer(score, source)) @ unmixing
        gradient *= min(1.0, 2.0 / np.linalg.norm(gradient))
        score = score * min(1.0, 0.5 / np.linalg.norm(score))
        expected += np.concatenate([gradient.ravel(), score])
    np.testing.assert_allclose(step.total(), expected, rtol=1e-9, atol=1e-9 * max(1, scale))
