"""Figures 2 to 4 of Kundu and Suthaharan: predictions from released latent factors.

The release has no formal guarantee. In addition to the paper's errors, the figures report attacks on the release.
"""

from __future__ import annotations

from dpcape_papers.experiments.experiment import Experiment, late

_NOTE = (
    "Full runs have the paper's 20,000 sweeps, which take 140 s of processor time for 50 people and 10,000 "
    "features, and hours for ten runs of every point; so none are stored. Quick runs have 80 or 160 sweeps, and "
    "list what has not converged. The paper does not say how loadings were drawn; here they are standard normal. "
    "Formulas are the corrected ones of docs/factor_release.md. There is no noise and no epsilon: the release has "
    "no guarantee."
)

EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        name="factor-2",
        paper="factor",
        label="Figure 2",
        title="Prediction from released factors, by sample size",
        work=late("factor.work", "BY_SIZE"),
        note=_NOTE,
    ),
    Experiment(
        name="factor-3",
        paper="factor",
        label="Figure 3",
        title="Prediction from released factors, by number of factors",
        work=late("factor.work", "BY_NUMBER"),
        note=_NOTE,
    ),
    Experiment(
        name="factor-4",
        paper="factor",
        label="Figure 4",
        title="Prediction from released factors of brain images, by number of factors",
        work=late("factor.work", "OF_IMAGES"),
        stand_ins=("for PNC", "in place of"),
        substitutes="ABIDE for the Philadelphia cohort: age (with sex as covariate) from 6,670 connections (quick runs:"
        " a third of them) instead of anxiety (with age and gender) from 100,000 voxels; 49 subjects as in the paper."
        " If the files are missing, subjects are simulated.",
        note=_NOTE
        + " The paper chose the number of factors by the test error. This picture does the same, so its lowest"
        " point is too optimistic.",
    ),
)
