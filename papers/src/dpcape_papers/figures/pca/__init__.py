"""Figure 4.1 of the dissertation: PCA of rows spread over ten sites.

A method of your own is given ``task.sites`` (site -> rows, norms at most 1) and the option ``n_components``; it answers
with orthonormal rows, the directions found.
"""

from __future__ import annotations

from dpcape_papers.experiments.experiment import Experiment, late

EXPERIMENTS = (
    Experiment(
        name="dissertation-4.1",
        paper="dissertation",
        label="Figure 4.1",
        title="Captured energy of distributed PCA, by epsilon, by records per site and by delta",
        work=late("pca.work"),
        extendable=True,
        note=(
            "Rows are centred and bounded by public rows (the test part of MNIST, 10,000 rows of Covertype apart) "
            "instead of their own mean and largest norm, which no epsilon covers; of Covertype 50,000 rows remain. "
            "Grids and fixed values are those of the authors' public scripts, github.com/hafizimtiaz/capePCA, because "
            "the text does not print them. Verified CAPE holds against the aggregator with three of ten sites, as "
            "theorem 4.1 states. Quick runs: images of 14 x 14 pixels and 25 directions, fewer points, three runs."
        ),
    ),
)
