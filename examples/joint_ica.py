"""Joint ICA of simulated fMRI at three sites: maps that no site could estimate so well alone, per time point.

Run: python examples/joint_ica.py
"""

from __future__ import annotations

import numpy as np

from dpcape import Cape, Federation, JointICA, in_process, subjects
from dpcape.datasets import simulated_fmri
from dpcape.estimators.ica import cosine_basis
from dpcape.metrics import gain_index, matched_correlations


def main() -> None:
    simulation = simulated_fmri(
        np.random.default_rng(0), n_subjects=90, n_components=5, shape=(12, 12), n_timepoints=200
    )
    # One time point is protected here, not a person; unit="subject" protects a person and needs more people.
    held = {
        name: subjects(simulation.arrays[index::3], bound=4.0, unit="record")
        for index, name in enumerate(("lyon", "oslo", "lima"))
    }
    federation = Federation(in_process(held), protocol=Cape(n_colluding=1))
    basis = cosine_basis(simulation.shape, (8, 8))
    model = JointICA(5, epsilon=2.0, delta=1e-5, basis=basis).fit(federation)
    print(f"q_NGI {gain_index(model.unmixing_, simulation.mixing):.3f} (0 is perfect)")
    print(f"maps  {matched_correlations(model.mixing_, simulation.mixing).mean():.3f} mean matched correlation")
    print(model.guarantee_)


if __name__ == "__main__":
    main()
