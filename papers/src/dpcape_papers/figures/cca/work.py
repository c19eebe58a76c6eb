"""The code of the figures on CCA: cells, drawing and verdicts."""

from __future__ import annotations

from dpcape_papers.experiments.experiment import Work
from dpcape_papers.figures.cca.claims import CHAPTER, PAPER, Text, by_delta, by_size, poster
from dpcape_papers.figures.cca.panels import (
    BY_DELTA,
    BY_DELTA_PANELS,
    BY_EPSILON,
    BY_EPSILON_AND_SIZE,
    BY_RECORDS,
    POSTER_PANELS,
    cells,
    draw,
)


def _by_size(scheme: str, text: Text) -> Work:
    panels = BY_EPSILON_AND_SIZE
    return Work(cells(panels, scheme, quick_runs=3), draw(panels), by_size(text))


def _by_delta(scheme: str, text: Text) -> Work:
    panels = BY_DELTA_PANELS
    return Work(cells(panels, scheme, quick_runs=5), draw(panels), by_delta(text))


def _of_poster(by: str) -> Work:
    panels = POSTER_PANELS[by]
    return Work(cells(panels, "poster", quick_runs=6), draw(panels), poster)


CHAPTER_BY_SIZE, CHAPTER_BY_DELTA = _by_size("chapter", CHAPTER), _by_delta("chapter", CHAPTER)
PAPER_BY_SIZE, PAPER_BY_DELTA = _by_size("paper", PAPER), _by_delta("paper", PAPER)
POSTER_BY_EPSILON, POSTER_BY_RECORDS, POSTER_BY_DELTA = map(_of_poster, (BY_EPSILON, BY_RECORDS, BY_DELTA))
