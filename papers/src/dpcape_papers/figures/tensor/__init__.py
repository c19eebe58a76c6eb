"""Figures 5.1 to 5.3: q_comp of capeAGN on mixtures and topics by epsilon, number of records per site, and delta.

Your own method receives the records of each site (rows or word counts) and returns components; see `compute` in
``work.py``.
"""

from __future__ import annotations

from dpcape_papers.experiments.experiment import Experiment, late, late_replica

_NOTE = (
    "The text does not give numbers of records. Rows of mixtures are clipped to a public bound, 1 + sqrt(0.05 D), "
    "instead of being scaled by their largest norm, which is not private. Components with a condition number above 12 "
    "are drawn again. Run k uses data of seed 100 + k, on which no setting was chosen. Verified curves are TopicModel "
    "and MixtureModel with the real protocols and replayed noise. The real epsilon of published noise on mixtures is "
    "an upper bound, which adds up the worst cases of both moments."
)


def _experiment(number: str, title: str, work: str) -> Experiment:
    return Experiment(
        name=f"dissertation-{number}", paper="dissertation", label=f"Figure {number}", title=title,
        work=late("tensor.work", work), note=_NOTE, extendable=True,
        replica=late_replica("tensor", f"REPLICA_{number.replace('.', '_')}"),
    )  # fmt: skip


EXPERIMENTS = (
    _experiment("5.1", "Mixtures of Gaussians: error by epsilon and records per site", "MIXTURES"),
    _experiment("5.2", "Single topics: error by epsilon and records per site", "TOPICS"),
    _experiment("5.3", "Mixtures and topics: error by delta", "BY_DELTA"),
)
