"""Figures 2 to 4 of Kundu and Suthaharan: predictions from released latent factors.

The release has no formal guarantee; beside the errors of the paper stand attacks on what is handed out.
"""

from __future__ import annotations

from dpcape.reproduce.experiment import Cell, Experiment, Setting
from dpcape.reproduce.figures.factor.cells import connectivity, simulation
from dpcape.reproduce.figures.factor.claims import judge_connectivity, judge_number, judge_size
from dpcape.reproduce.figures.factor.drawing import draw_connectivity, draw_number, draw_size
from dpcape.reproduce.prepared.factor import CONNECTIVITY, PHENOTYPES

_NOTE = (
    "Chains are shorter than the paper's 20,000 sweeps (R-hat of the likelihood is near 1 well before). The paper does"
    " not say how loadings were drawn; here they are standard normal. Formulas are the corrected ones of"
    " docs/factor_release.md. There is no noise and no epsilon to claim: the release has no guarantee."
)
_ATTACKED_SIZE = 100


def _size_cells(setting: Setting) -> list[Cell]:
    fixed = {"n_features": setting.choose(2_000, 10_000), "n_factors": "adaptive", "along": "n", **_chain(setting)}
    return [
        Cell(simulation, {**fixed, "n": n, "run": run, "attack": n == _ATTACKED_SIZE and run < 2})
        for n in (50, 100, 150, 200)
        for run in range(setting.n_runs(6))
    ]


def _number_cells(setting: Setting) -> list[Cell]:
    fixed = {"n": 100, "n_features": setting.choose(2_000, 10_000), "along": "n_factors", **_chain(setting)}
    return [
        Cell(simulation, {**fixed, "n_factors": number, "run": run, "attack": False})
        for number in setting.choose((4, 8, 10, 12, 16), (4, 6, 8, 9, 10, 11, 12, 14, 16, 20))
        for run in range(setting.n_runs(4))
    ]


def _connectivity_cells(setting: Setting) -> list[Cell]:
    # 49 subjects, 8 to 25 factors as in the paper, and one number beyond.
    numbers = setting.choose((8, 18, 25, 30), (8, 10, 12, 14, 16, 18, 20, 22, 25, 30))
    chain = {"n_burn_in": setting.choose(40, 400), "n_draws": setting.choose(40, 200), "every": setting.choose(3, 1)}
    return [
        Cell(
            connectivity,
            {"n": 49, "n_factors": number, "run": run, **chain, "attack": number == 18 and run < 2},
            (CONNECTIVITY, PHENOTYPES),
        )
        for number in numbers
        for run in range(setting.n_runs(4))
    ]


def _chain(setting: Setting) -> dict[str, int]:
    return {"n_burn_in": setting.choose(100, 400), "n_draws": setting.choose(60, 200)}


EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        name="factor-2",
        paper="factor",
        label="Figure 2",
        title="Prediction from released factors over the sample size",
        cells=_size_cells,
        draw=draw_size,
        judge=judge_size,
        note=_NOTE,
    ),
    Experiment(
        name="factor-3",
        paper="factor",
        label="Figure 3",
        title="Prediction from released factors over the number of factors",
        cells=_number_cells,
        draw=draw_number,
        judge=judge_number,
        note=_NOTE,
    ),
    Experiment(
        name="factor-4",
        paper="factor",
        label="Figure 4",
        title="Prediction from released factors of brain images over the number of factors",
        cells=_connectivity_cells,
        draw=draw_connectivity,
        judge=judge_connectivity,
        substitutes="ABIDE for the Philadelphia cohort: age (with sex as covariate) from 6,670 connections (quick runs:"
        " a third of them) instead of anxiety (with age and gender) from 100,000 voxels; 49 subjects as in the paper."
        " Without the files: simulated subjects.",
        note=_NOTE + " The paper chose the number of factors by the test error; so does this picture, and its lowest"
        " point is therefore too good.",
    ),
)
