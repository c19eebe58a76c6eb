"""Figure 4.1 of the dissertation: PCA of rows divided among ten sites.

Your own method receives ``task.sites`` (site -> rows of norm at most 1) and the option ``n_components``. It returns the
directions found, as orthonormal rows.
"""

from __future__ import annotations

from dpcape_papers.experiments.experiment import Experiment, late, late_replica

EXPERIMENTS = (
    Experiment(
        name="dissertation-4.1",
        paper="dissertation",
        label="Figure 4.1",
        title="Captured energy of distributed PCA, by epsilon, by records per site and by delta",
        work=late("pca.work"),
        replica=late_replica("pca", "REPLICA_4_1"),
        extendable=True,
        stand_ins=("stand-in",),
        note=(
            "Rows are centred and bounded by public rows (the test set of MNIST, 10,000 separate rows of Covertype) "
            "instead of their own mean and largest norm, which no epsilon covers; 50,000 rows of Covertype remain. "
            "Grids and fixed values are those of the authors' public scripts, github.com/hafizimtiaz/capePCA, because "
            "the text does not print them. Verified CAPE holds against the aggregator colluding with three of ten "
            "sites, as in theorem 4.1. Quick runs use images of 14 x 14 pixels and 25 directions, fewer points and "
            "three runs."
        ),
    ),
)
