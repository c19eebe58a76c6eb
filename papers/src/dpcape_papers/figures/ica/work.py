"""The code of the figures on joint ICA: cells, drawing and verdicts."""

from __future__ import annotations

from matplotlib.figure import Figure

from dpcape_papers.experiments.experiment import Cell, RunSetting, Work
from dpcape_papers.experiments.results import Results
from dpcape_papers.figures.ica import djica, gain, maps
from dpcape_papers.figures.ica.verdicts import judge_delta, judge_epsilon, judge_people


def cells_epsilon(setting: RunSetting) -> list[Cell]:
    """Return the cells of figure 6.2."""
    sizes = {"simulated": setting.choose((40, 120), (256, 1024)), "real": setting.choose((48, 184), (92, 372))}
    epsilons = setting.choose((0.1, 0.5, 2.0), (0.1, 0.25, 0.5, 1.0, 2.0))
    return gain.cells(setting, sizes=sizes, epsilons=epsilons)


def draw_epsilon(results: Results) -> Figure:
    """Draw figure 6.2."""
    return gain.draw(results, "ε (published: per round,\nverified: in total)")


def cells_people(setting: RunSetting) -> list[Cell]:
    """Return the cells of figure 6.3."""
    simulated = setting.choose((32, 64, 120), (64, 128, 256, 512, 1024))
    sizes = {"simulated": simulated, "real": setting.choose((48, 184), (48, 92, 184, 372))}
    return gain.cells(setting, sizes=sizes, epsilons=(0.1, 1.0))


def draw_people(results: Results) -> Figure:
    """Draw figure 6.3."""
    return gain.draw(gain.against(results, "n_subjects", fixed="asked_epsilon", symbol="ε"), "people M")


def cells_delta(setting: RunSetting) -> list[Cell]:
    """Return the cells of figure 6.4."""
    sizes = {"simulated": (setting.choose(120, 1024),), "real": (setting.choose(184, 372),)}
    deltas = setting.choose((1e-6, 1e-4, 1e-2), (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2))
    return gain.cells(setting, sizes=sizes, epsilons=(0.5,), deltas=deltas)


def draw_delta(results: Results) -> Figure:
    """Draw figure 6.4."""
    return gain.draw(gain.against(results, "asked_delta", fixed="n_subjects", symbol="M"), "δ")


BY_EPSILON = Work(cells_epsilon, draw_epsilon, judge_epsilon)
BY_PEOPLE = Work(cells_people, draw_people, judge_people)
BY_DELTA = Work(cells_delta, draw_delta, judge_delta)
EXACT_MAPS = Work(maps.cells_exact, maps.draw, maps.judge_exact)
PRIVATE_MAPS = Work(maps.cells_private, maps.draw, maps.judge_private)
DJICA_INDEPENDENCE = Work(djica.cells_independence, djica.draw_independence, djica.judge_independence)
DJICA_GAIN = Work(djica.cells_gain, djica.draw_gain, djica.judge_gain)
