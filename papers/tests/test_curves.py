"""Ticks of logarithmic axes can be read at a glance."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

from dpcape_papers.experiments.curves import Look, draw_curves
from dpcape_papers.experiments.results import NON_PRIVATE, PUBLISHED, VERIFIED, CurvePoints
from dpcape_papers.figures.panel_grid import Line, draw_by_method


def labels(x: list[float]) -> list[str]:
    """Return what stands below a logarithmic axis over these values."""
    figure, axes = plt.subplots()
    ones = np.ones(len(x))
    draw_curves(axes, [CurvePoints("CAPE", VERIFIED, np.array(x), ones, 0 * ones, ones, ones)], Look("x", "y"))
    figure.canvas.draw()
    low, high = axes.get_xlim()
    ticks = [*axes.xaxis.get_major_ticks(), *axes.xaxis.get_minor_ticks()]
    found = [tick.label1.get_text() for tick in ticks if low <= tick.get_loc() <= high]
    plt.close(figure)
    return [label for label in found if label]


@pytest.mark.parametrize(
    ("x", "expected"), [([0.1, 10.0], {"0.1", "1", "10"}), ([1000.0, 4000.0], {"1,000", "2,000", "4,000"})]
)
def test_short_numbers_are_plain(x: list[float], expected: set[str]) -> None:
    found = labels(x)
    assert expected <= set(found)
    assert not [label for label in found if "10^" in label]


def test_long_numbers_are_powers() -> None:
    found = labels([1e-9, 1.0])
    assert found
    assert all("10^" in label for label in found)


def test_a_figure_whose_methods_are_all_pooled_has_panels() -> None:
    x = np.array([0.1, 1.0])

    def curve(name: str, kind: str) -> CurvePoints:
        return CurvePoints(name, kind, x, x, 0 * x, x, x)

    shown = [curve("pooled", NON_PRIVATE), curve("pooled", PUBLISHED), curve("pooled", VERIFIED)]
    figure = draw_by_method([Line("a", shown, Look("epsilon", "index"))])
    assert [axes.get_title() for axes in figure.axes] == ["pooled"]
    assert len(figure.axes[0].lines) >= 3
    figure = draw_by_method([Line("a", [*shown, curve("CAPE", VERIFIED)], Look("epsilon", "index"))])
    assert [axes.get_title() for axes in figure.axes] == ["CAPE"]
