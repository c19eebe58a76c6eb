"""The code of figures 2 to 4 of Kundu and Suthaharan: cells, drawing and verdicts."""

from __future__ import annotations

from dpcape_papers.data.factor import CONNECTIVITY, PHENOTYPES
from dpcape_papers.experiments.experiment import RUNS_PER_SEED, Cell, RunSetting, Work
from dpcape_papers.figures.factor.cells import connectivity, simulation
from dpcape_papers.figures.factor.claims import judge_connectivity, judge_number, judge_size
from dpcape_papers.figures.factor.drawing import draw_connectivity, draw_number, draw_size

_ATTACKED_SIZE = 100


def _size_cells(setting: RunSetting) -> list[Cell]:
    fixed = {"n_features": setting.choose(2_000, 10_000), "n_factors": "adaptive", "along": "n", **_chain(setting)}
    return [
        Cell(simulation, {**fixed, "n": n, "run": run, "attack": n == _ATTACKED_SIZE and run % RUNS_PER_SEED < 2})
        for n in (50, 100, 150, 200)
        for run in setting.run_numbers(6)
    ]


def _number_cells(setting: RunSetting) -> list[Cell]:
    fixed = {"n": 100, "n_features": setting.choose(2_000, 10_000), "along": "n_factors", **_chain(setting)}
    return [
        Cell(simulation, {**fixed, "n_factors": number, "run": run, "attack": False})
        for number in setting.choose((4, 8, 10, 12, 16), (4, 6, 8, 9, 10, 11, 12, 14, 16, 20))
        for run in setting.run_numbers(4)
    ]


def _connectivity_cells(setting: RunSetting) -> list[Cell]:
    # 49 subjects and 8 to 25 factors as in the paper, and 30 factors in addition.
    numbers = setting.choose((8, 18, 25, 30), (8, 10, 12, 14, 16, 18, 20, 22, 25, 30))
    chain = {**_chain(setting, quick=(40, 40, 1)), "every": setting.choose(3, 1)}
    return [
        Cell(
            connectivity,
            {"n": 49, "n_factors": number, "run": run, **chain, "attack": number == 18 and run % RUNS_PER_SEED < 2},
            (CONNECTIVITY, PHENOTYPES),
        )
        for number in numbers
        for run in setting.run_numbers(4)
    ]


def _chain(setting: RunSetting, quick: tuple[int, int, int] = (100, 60, 1)) -> dict[str, int]:
    """Return the sweeps: in full runs the paper's 20,000, of them 5,000 before the first draw.

    A cell of 50 people and 10,000 features then takes 140 s of processor time, one of 200 people four minutes, one of
    the brain data 80 s.
    """
    n_burn_in, n_draws, thin = setting.choose(quick, (5_000, 500, 30))
    return {"n_burn_in": n_burn_in, "n_draws": n_draws, "thin": thin}


BY_SIZE = Work(_size_cells, draw_size, judge_size)
BY_NUMBER = Work(_number_cells, draw_number, judge_number)
OF_IMAGES = Work(_connectivity_cells, draw_connectivity, judge_connectivity)
