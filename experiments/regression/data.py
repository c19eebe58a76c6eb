"""The data of the comparisons, read from the folder beside the project; see ``dpcape_papers.data``."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from dpcape_papers.data import regression as prepared
from dpcape_papers.data.regression import linear, logistic, split, two_gaussians
from dpcape_papers.experiments.data import DataFolder

DATA = Path(__file__).parents[3] / "shared" / "data"
FOLDER = DataFolder(DATA if DATA.exists() else None)

crime = partial(prepared.crime, FOLDER)
blog = partial(prepared.blog, FOLDER)
abide = partial(prepared.abide, FOLDER)
covertype = partial(prepared.covertype, FOLDER)

__all__ = ["DATA", "abide", "blog", "covertype", "crime", "linear", "logistic", "split", "two_gaussians"]
