"""Figures 8.1 to 8.3 of the dissertation: linear regression by the functional mechanism (capeFM).

The text gives the dimensions, the five sites, delta and the ten runs; sample sizes and values of epsilon are ours.

Your own method receives ``task.sites``, which maps five names to (rows, responses), with rows of norm at most 1 and
responses in [-1, 1]. ``task.options`` has ``n_records`` and, for synthetic data, the true coefficients ``truth``. The
result is the vector w of f_D(w), without intercept.
"""

from __future__ import annotations

from dpcape_papers.experiments.experiment import Experiment, late, late_replica

_NOTE = (
    "All fits are without intercept, on rows of norm at most 1 and responses in [-1, 1]. Verified curves are dpcape's"
    " LinearRegression, which also shrinks the solution according to the known noise. Published curves minimise the "
    "noisy objective with the remedy of Zhang et al. (2012), because the dissertation does not say how. Runs are "
    "averaged on the log scale. The text does not print sample sizes and epsilons; they are ours. Delta is that of the "
    "noise formula. The epsilon of dp-fm has delta 0 and is an upper bound. Objective perturbation is that of "
    "Chaudhuri et al. (2011) for slopes up to 1, on pooled records with a ridge of 1/N; in the text it is far worse on "
    "synthetic data."
)

EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        name="dissertation-8.1",
        paper="dissertation",
        label="Figure 8.1",
        title="Linear regression (capeFM), synthetic data: loss by epsilon, sample size and delta",
        work=late("regression.work", "SYNTHETIC_LOSS"),
        replica=late_replica("regression", "REPLICA_8_1"),
        extendable=True,
        note=_NOTE,
    ),
    Experiment(
        name="dissertation-8.2",
        paper="dissertation",
        label="Figure 8.2",
        title="Linear regression (capeFM), real data: loss by epsilon, sample size and delta",
        work=late("regression.work", "REAL_LOSS"),
        replica=late_replica("regression", "REPLICA_8_2"),
        extendable=True,
        stand_ins=("BlogFeedback", "in place of"),
        substitutes="BlogFeedback (80 features) for Buzz in social media (77), whose rows are not available; Crime has "
        "99 of its predictors, without those missing for most communities. If the files are missing, records are "
        "simulated.",
        note=_NOTE
        + " The paper scales features and rows by the extremes of the data, which is not private; here public "
        "ranges and clipping replace it.",
    ),
    Experiment(
        name="dissertation-8.3",
        paper="dissertation",
        label="Figure 8.3",
        title="Linear regression (capeFM), synthetic data: distance to the true coefficients",
        work=late("regression.work", "COEFFICIENTS"),
        replica=late_replica("regression", "REPLICA_8_3"),
        extendable=True,
        note=_NOTE,
    ),
)
