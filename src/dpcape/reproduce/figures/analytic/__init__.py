"""Chapter 3 of the dissertation and figure 6.1: what CAPE promises, gains, costs and sends."""

from __future__ import annotations

from dpcape.reproduce.experiment import Experiment
from dpcape.reproduce.figures.analytic.accountants import FIGURE_6_1
from dpcape.reproduce.figures.analytic.bytes_sent import TABLE_3_1
from dpcape.reproduce.figures.analytic.gain import PROPOSITION_3_1
from dpcape.reproduce.figures.analytic.network import FIGURE_3_5
from dpcape.reproduce.figures.analytic.theorem import FIGURE_3_2, FIGURE_3_3
from dpcape.reproduce.figures.analytic.unequal import PROPOSITION_3_2

EXPERIMENTS: tuple[Experiment, ...] = (
    PROPOSITION_3_1,
    TABLE_3_1,
    PROPOSITION_3_2,
    FIGURE_3_2,
    FIGURE_3_3,
    FIGURE_3_5,
    FIGURE_6_1,
)
