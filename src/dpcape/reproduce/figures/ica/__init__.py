"""Figures 6.2 to 6.6 (capeDJICA) and paper 003's figures 1 and 2 (DP-djICA)."""

from __future__ import annotations

from matplotlib.figure import Figure

from dpcape.reproduce.experiment import Cell, Draw, Experiment, Judge, MakeCells, Setting
from dpcape.reproduce.figures.ica import djica, gain, maps
from dpcape.reproduce.figures.ica.verdicts import judge_delta, judge_epsilon, judge_people
from dpcape.reproduce.results import Results


def cells_epsilon(setting: Setting) -> list[Cell]:
    """Return the cells of figure 6.2."""
    sizes = {"simulated": setting.choose((40, 120), (256, 1024)), "real": setting.choose((48, 184), (92, 372))}
    epsilons = setting.choose((0.1, 0.5, 2.0), (0.1, 0.25, 0.5, 1.0, 2.0))
    return gain.cells(setting, sizes=sizes, epsilons=epsilons)


def draw_epsilon(results: Results) -> Figure:
    """Draw figure 6.2."""
    return gain.draw(results, "ε (published: per round, verified: in total)")


def cells_people(setting: Setting) -> list[Cell]:
    """Return the cells of figure 6.3."""
    simulated = setting.choose((32, 64, 120), (64, 128, 256, 512, 1024))
    sizes = {"simulated": simulated, "real": setting.choose((48, 184), (48, 92, 184, 372))}
    return gain.cells(setting, sizes=sizes, epsilons=(0.1, 1.0))


def draw_people(results: Results) -> Figure:
    """Draw figure 6.3."""
    return gain.draw(gain.against(results, "n_subjects", fixed="asked_epsilon", symbol="ε"), "people M")


def cells_delta(setting: Setting) -> list[Cell]:
    """Return the cells of figure 6.4."""
    sizes = {"simulated": (setting.choose(120, 1024),), "real": (setting.choose(184, 372),)}
    deltas = setting.choose((1e-6, 1e-4, 1e-2), (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2))
    return gain.cells(setting, sizes=sizes, epsilons=(0.5,), deltas=deltas)


def draw_delta(results: Results) -> Figure:
    """Draw figure 6.4."""
    return gain.draw(gain.against(results, "asked_delta", fixed="n_subjects", symbol="M"), "δ")


_SUBSTITUTE = (
    "ABIDE (C-PAC, CC200, 116 time points per person, shuffled over four equal sites) for the papers' resting-state "
    "data, which are not public; up to 372 people instead of 1548, 4 (quick) or 20 components instead of 50."
)
_ROUNDS = (
    "Gradient bounds, numbers of rounds and the PCA's share are not given: 5 and 0.5 times the root of the number of "
    "components, 80 to 200 rounds (DP-djICA half as many in chapter 6), the PCA noised like one round; step 1 on rows "
    "whitened by the released eigenvalues. All of these were chosen on data of seed 0; run k has data of seed k + 1. "
    "The published noise protects a time point, not a person; its real epsilon lets a clipped gradient take any "
    "direction, so it is an upper bound. Verified curves are JointICA, with the given epsilon in total."
)
_NOTE = f"{_ROUNDS} Overall epsilons are drawn below instead of on a second axis, for a time point and for a person."


_Parts = tuple[MakeCells, Draw, Judge]


def _chapter(number: str, title: str, parts: _Parts, *, substitutes: str = "", note: str = _ROUNDS) -> Experiment:
    cells, draw, judge = parts
    return Experiment(
        name=f"dissertation-{number}", paper="dissertation", label=f"Figure {number}", title=title,
        cells=cells, draw=draw, judge=judge, substitutes=substitutes, note=note,
    )  # fmt: skip


def _paper(number: str, title: str, parts: _Parts, note: str) -> Experiment:
    cells, draw, judge = parts
    return Experiment(
        name=f"djica-{number}", paper="djica", label=f"Figure {number}", title=title,
        cells=cells, draw=draw, judge=judge, note=f"{note} {_ROUNDS}",
    )  # fmt: skip


EXPERIMENTS = (
    _chapter(
        "6.2", "Joint ICA: gain index against epsilon", (cells_epsilon, draw_epsilon, judge_epsilon),
        substitutes=_SUBSTITUTE, note=_NOTE,
    ),
    _chapter(
        "6.3", "Joint ICA: gain index against the number of people", (cells_people, draw_people, judge_people),
        substitutes=_SUBSTITUTE, note=_NOTE,
    ),
    _chapter(
        "6.4", "Joint ICA: gain index against delta", (cells_delta, draw_delta, judge_delta),
        substitutes=_SUBSTITUTE,
        note=f"{_NOTE} Delta is that of the noise in every round and that of the overall epsilon.",
    ),
    _chapter("6.5", "Joint ICA: maps without noise", (maps.cells_exact, maps.draw, maps.judge_exact)),
    _chapter(
        "6.6", "Joint ICA: maps of capeDJICA", (maps.cells_private, maps.draw, maps.judge_private),
    ),
    _paper(
        "1", "DP-djICA: correlations of the estimated sources",
        (djica.cells_independence, djica.draw_independence, djica.judge_independence),
        "The paper does not say what its four panels are: taken to be the four sites.",
    ),
    _paper(
        "2", "DP-djICA: gain index against epsilon", (djica.cells_gain, djica.draw_gain, djica.judge_gain),
        "Epsilon is that of the PCA and of every round.",
    ),
)  # fmt: skip
