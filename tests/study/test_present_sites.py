"""A study that starts without a site: what its approval covers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dpcape import Federation, in_process, rows
from dpcape.core.errors import DpcapeError
from dpcape.study.study import Study

SITES = ("lima", "lyon", "oslo", "pune")
TEXT = """[study]
name = "first"
analysis = "{analysis}"
epsilon = {epsilon}
delta = 1e-5
{parameters}
[protocol]
kind = "cape"
n_colluding = 0
minimum_sites = 3
[sites.lima]
[sites.lyon]
[sites.oslo]
[sites.pune]
[data]
kind = "rows"
features = 2
bound = 1.0
"""
EACH = "{ lima = 1.0, lyon = 1.0, oslo = 1.0, pune = 2.0 }"


def study(analysis: str = "mean", epsilon: str = "1.0", parameters: str = "") -> Study:
    text = TEXT.format(analysis=analysis, epsilon=epsilon, parameters=parameters)
    return Study.parse(text, path=Path("study.toml"))


def terms_for(given: Study, sites: tuple[str, ...]) -> object:
    line = in_process({site: rows(0.1 * np.ones((20, 2)), bound=1.0) for site in sites})
    federation = Federation(line, protocol=given.protocol())
    return federation.terms(1.0, 1e-5, given.shares(federation.sites))


@pytest.mark.parametrize(
    ("analysis", "parameters"), [("mean", ""), ("pca", "n_components = 1"), ("kmeans", "n_clusters = 2")]
)
def test_three_of_four_are_covered_if_three_are_enough(analysis: str, parameters: str) -> None:
    given = study(analysis, parameters=parameters)
    assert given.minimum_sites() == 3
    for sites in (SITES, SITES[:3], SITES[1:]):
        given.check_terms(terms_for(given, sites))


def test_fewer_others_or_own_epsilons_are_not() -> None:
    given = study()
    for sites in (SITES[:2], (*SITES, "kobe"), ("kobe", "lima", "lyon")):
        with pytest.raises(DpcapeError):
            given.check_terms(terms_for(given, sites))
    each = study(epsilon=EACH)
    assert each.minimum_sites() == 4
    with pytest.raises(DpcapeError):
        each.check_terms(terms_for(each, SITES[:3]))
