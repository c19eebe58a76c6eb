"""Figures 2 to 4 of Kundu and Suthaharan: predictions from released latent factors.

The release has no formal guarantee; beside the errors of the paper stand attacks on what is handed out.
"""

from __future__ import annotations

from dpcape_papers.experiments.experiment import Experiment, late

_NOTE = (
    "Chains are shorter than the paper's 20,000 sweeps (R-hat of the likelihood is near 1 well before). The paper does"
    " not say how loadings were drawn; here they are standard normal. Formulas are the corrected ones of"
    " docs/factor_release.md. There is no noise and no epsilon to claim: the release has no guarantee."
)

EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        name="factor-2",
        paper="factor",
        label="Figure 2",
        title="Prediction from released factors over the sample size",
        work=late("factor.work", "BY_SIZE"),
        note=_NOTE,
    ),
    Experiment(
        name="factor-3",
        paper="factor",
        label="Figure 3",
        title="Prediction from released factors over the number of factors",
        work=late("factor.work", "BY_NUMBER"),
        note=_NOTE,
    ),
    Experiment(
        name="factor-4",
        paper="factor",
        label="Figure 4",
        title="Prediction from released factors of brain images over the number of factors",
        work=late("factor.work", "OF_IMAGES"),
        substitutes="ABIDE for the Philadelphia cohort: age (with sex as covariate) from 6,670 connections (quick runs:"
        " a third of them) instead of anxiety (with age and gender) from 100,000 voxels; 49 subjects as in the paper."
        " Without the files: simulated subjects.",
        note=_NOTE + " The paper chose the number of factors by the test error; so does this picture, and its lowest"
        " point is therefore too good.",
    ),
)
