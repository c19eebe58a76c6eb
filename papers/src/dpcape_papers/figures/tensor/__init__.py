"""Figures 5.1 to 5.3: q_comp of capeAGN on mixtures and topics against epsilon, the size of sites, and delta.

Methods of the user's own are given records per site (rows, or word counts), and return components; see `compute` in
``work.py``.
"""

from __future__ import annotations

from dpcape_papers.experiments.experiment import Experiment, late

_NOTE = (
    "Numbers of records are not given in the text. Rows of mixtures are clipped to a public bound, 1 + sqrt(.05 D), "
    "instead of being scaled by their largest norm, which is not private. Draws with a condition number above 12 are "
    "drawn again. Run k has data of seed 100 + k; nothing was chosen on them. Verified curves are TopicModel and "
    "MixtureModel through the protocols, with replayed noise. The real epsilon of published noise on mixtures adds up "
    "the worst cases of both moments: an upper bound."
)


def _experiment(number: str, title: str, work: str) -> Experiment:
    return Experiment(
        name=f"dissertation-{number}", paper="dissertation", label=f"Figure {number}", title=title,
        work=late("tensor.work", work), note=_NOTE, extendable=True,
    )  # fmt: skip


EXPERIMENTS = (
    _experiment("5.1", "Mixtures of Gaussians: error against epsilon and size", "MIXTURES"),
    _experiment("5.2", "Single topics: error against epsilon and size", "TOPICS"),
    _experiment("5.3", "Mixtures and topics: error against delta", "BY_DELTA"),
)
