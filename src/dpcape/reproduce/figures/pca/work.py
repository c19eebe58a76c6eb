"""The work behind figure 4.1."""

from __future__ import annotations

from dpcape.reproduce.experiment import Work
from dpcape.reproduce.figures.pca.claims import judge
from dpcape.reproduce.figures.pca.panels import cells, draw

WORK = Work(cells, draw, judge)
