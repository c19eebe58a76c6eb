"""Figures 6.2 to 6.6 (capeDJICA) and figures 1 and 2 of the DP-djICA paper."""

from __future__ import annotations

from dpcape_papers.experiments.experiment import Experiment, late

_SUBSTITUTE = (
    "ABIDE (C-PAC, CC200, 116 time points per person, divided at random among four equal sites) replaces the papers' "
    "resting-state data, which are not public; up to 372 people instead of 1548, and 4 (quick) or 20 components "
    "instead of 50."
)
_ROUNDS = (
    "The texts do not give gradient bounds, numbers of rounds and the PCA's share. Here the bounds are 5 and 0.5 times "
    "the square root of the number of components; there are 80 to 200 rounds (half as many for DP-djICA in chapter 6); "
    "the PCA has the noise of one round; and the step size is 1 on rows whitened by the released eigenvalues. All of "
    "these were chosen on data of seed 0; run k uses data of seed k + 1. The published noise protects a time point, "
    "not a person. Its real epsilon assumes that a clipped gradient may have any direction, so it is an upper bound. "
    "Verified curves are JointICA with the given total epsilon."
)
_NOTE = (
    f"{_ROUNDS} Overall epsilons are drawn below instead of on a second axis, for a time point and for a person. On "
    "real data every algorithm is compared with its own result without noise on all people."
)


def _chapter(number: str, title: str, work: str, *, substitutes: str = "", note: str = _ROUNDS) -> Experiment:
    return Experiment(
        name=f"dissertation-{number}", paper="dissertation", label=f"Figure {number}", title=title,
        work=late("ica.work", work), substitutes=substitutes, note=note, stand_ins=("ABIDE",),
    )  # fmt: skip


def _paper(number: str, title: str, work: str, note: str) -> Experiment:
    return Experiment(
        name=f"djica-{number}", paper="djica", label=f"Figure {number}", title=title,
        work=late("ica.work", work), note=f"{note} {_ROUNDS}",
    )  # fmt: skip


EXPERIMENTS = (
    _chapter(
        "6.2", "Joint ICA: gain index against epsilon", "BY_EPSILON",
        substitutes=_SUBSTITUTE, note=_NOTE,
    ),
    _chapter(
        "6.3", "Joint ICA: gain index against the number of people", "BY_PEOPLE",
        substitutes=_SUBSTITUTE, note=_NOTE,
    ),
    _chapter(
        "6.4", "Joint ICA: gain index against delta", "BY_DELTA",
        substitutes=_SUBSTITUTE,
        note=f"{_NOTE} Delta applies both to the noise of every round and to the overall epsilon.",
    ),
    _chapter("6.5", "Joint ICA: maps without noise", "EXACT_MAPS"),
    _chapter(
        "6.6", "Joint ICA: maps of capeDJICA", "PRIVATE_MAPS",
    ),
    _paper(
        "1", "DP-djICA: correlations of the estimated sources",
        "DJICA_INDEPENDENCE",
        "The paper does not say what its four panels show; here they are the four sites. Quick runs are smaller; at "
        "the paper's size (1,024 people, 20 components, one run) the mean off-diagonal correlation at epsilon 1 is "
        "0.21, against 0.003 without noise.",
    ),
    _paper(
        "2", "DP-djICA: gain index against epsilon", "DJICA_GAIN",
        "Epsilon applies to the PCA and to every round.",
    ),
)  # fmt: skip
