"""Figures 8.1 to 8.3 of the dissertation: linear regression by the functional mechanism (capeFM).

The text gives the dimensions, five sites, delta and ten runs; sample sizes and the values of epsilon are ours.

For methods of your own: ``task.sites`` maps five names to (rows, responses), rows of length at most 1, responses in
[-1, 1]; ``task.options`` has ``n_records`` and, for synthetic data, ``truth``, the coefficients they were made from.
The result is the vector w of f_D(w), without intercept.
"""

from __future__ import annotations

from dpcape_papers.experiments.experiment import Experiment, late

_NOTE = (
    "Every fit is without intercept, on rows of length at most 1 and responses in [-1, 1]. Verified curves are dpcape's"
    " LinearRegression, which also shrinks the solution by the known noise; published ones minimise the noisy objective"
    " with the remedy of Zhang et al. (2012), because the dissertation does not say how. Runs are averaged on the log"
    " scale. Sample sizes and epsilons are not printed in the text and are ours; delta is the one in the noise formula."
    " The epsilon of dp-fm is pure, and an upper bound. Objective perturbation is that of Chaudhuri et al. (2011) for"
    " slopes up to 1, on pooled records with a ridge of 1/N; on synthetic data the text has it far worse."
)

EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        name="dissertation-8.1",
        paper="dissertation",
        label="Figure 8.1",
        title="Linear regression (capeFM), synthetic data: loss over epsilon, samples and delta",
        work=late("regression.work", "SYNTHETIC_LOSS"),
        extendable=True,
        note=_NOTE,
    ),
    Experiment(
        name="dissertation-8.2",
        paper="dissertation",
        label="Figure 8.2",
        title="Linear regression (capeFM), real data: loss over epsilon, samples and delta",
        work=late("regression.work", "REAL_LOSS"),
        extendable=True,
        substitutes="BlogFeedback (80 features) for Buzz in social media (77), whose rows are not available; Crime has "
        "99 of its predictors, without those missing for most communities. Without the files: simulated records.",
        note=_NOTE + " The paper scales features and rows by the data's own extremes, which is not private and is "
        "replaced by public ranges and clipping here.",
    ),
    Experiment(
        name="dissertation-8.3",
        paper="dissertation",
        label="Figure 8.3",
        title="Linear regression (capeFM), synthetic data: distance to the true coefficients",
        work=late("regression.work", "COEFFICIENTS"),
        extendable=True,
        note=_NOTE,
    ),
)
