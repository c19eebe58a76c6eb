"""The code of figure 4.1: cells, drawing and verdicts."""

from __future__ import annotations

from dpcape_papers.experiments.experiment import Work
from dpcape_papers.figures.pca.claims import judge
from dpcape_papers.figures.pca.panels import cells, draw

WORK = Work(cells, draw, judge)
