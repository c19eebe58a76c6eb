"""The code of figures 8.1 to 8.3 of the dissertation: cells, drawing and verdicts."""

from __future__ import annotations

from collections.abc import Sequence

from dpcape_papers.experiments.experiment import Cell, RunSetting, Work
from dpcape_papers.figures.regression.cells import REAL, RegressionPanel, panel_cells
from dpcape_papers.figures.regression.claims import judge_error, judge_loss, judge_real
from dpcape_papers.figures.regression.drawing import draw_error, draw_loss, draw_real

_SYNTHETIC = ("D=20", "D=50")
_DELTA, _REAL_DELTA = 1e-5, 1e-3  # In the noise formula for synthetic and for real data (section 8.4).
_FEW, _MANY = 5_000, 20_000
_WEAK, _STRONG = 0.5, 0.1


def _loss_cells(setting: RunSetting) -> list[Cell]:
    panels = [_by_epsilon(setting, source, _MANY) for source in _SYNTHETIC]
    panels += [_by_number(setting, source, _WEAK) for source in _SYNTHETIC]
    panels += [_by_delta(setting, source, _FEW) for source in _SYNTHETIC]
    return _cells(setting, panels)


def _error_cells(setting: RunSetting) -> list[Cell]:
    panels = [_by_epsilon(setting, source, n) for source in _SYNTHETIC for n in (_FEW, _MANY)]
    panels += [_by_number(setting, source, epsilon) for source in _SYNTHETIC for epsilon in (_STRONG, _WEAK)]
    panels += [_by_delta(setting, source, n) for source in _SYNTHETIC for n in (_FEW, _MANY)]
    return _cells(setting, panels)


def _real_cells(setting: RunSetting) -> list[Cell]:
    sizes = {
        "Crime": setting.choose((500, 1000, 1990), (300, 600, 1000, 1500, 1990)),
        "BlogFeedback (for Twitter)": setting.choose((1000, 3000, 7620), (500, 1000, 2000, 4000, 7620)),
    }
    deltas = setting.choose((1e-5, 1e-3, 1e-1), (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1))
    panels = [_real_panel(source, "epsilon", _epsilons(setting)) for source in REAL]
    panels += [_real_panel(source, "N", sizes[source]) for source in REAL]
    panels += [_real_panel(source, "delta", deltas) for source in REAL]
    # Not drawn: needed for the text's comparison of how the loss varies with delta.
    panels += [_by_delta(setting, source, _FEW) for source in _SYNTHETIC]
    return _cells(setting, panels)


def _real_panel(source: str, vary: str, values: Sequence[float]) -> RegressionPanel:
    return {
        "epsilon": 1.0,
        "delta": _REAL_DELTA,
        "n_records": 0,
        "source": source,
        "vary": vary,
        "values": values,
    }


def _cells(setting: RunSetting, panels: list[RegressionPanel]) -> list[Cell]:
    return [cell for panel in panels for cell in panel_cells(panel, setting.run_numbers(3))]


def _epsilons(setting: RunSetting) -> tuple[float, ...]:
    return tuple(setting.choose((0.1, 0.3, 1.0, 3.0), (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)))


def _by_epsilon(setting: RunSetting, source: str, n_records: int) -> RegressionPanel:
    return _panel(source, "epsilon", _epsilons(setting), n_records, _WEAK)


def _by_number(setting: RunSetting, source: str, epsilon: float) -> RegressionPanel:
    sizes = setting.choose((2_000, 10_000, 50_000), (1_000, 3_000, 10_000, 30_000, 100_000))
    return _panel(source, "N", sizes, 0, epsilon)


def _by_delta(setting: RunSetting, source: str, n_records: int) -> RegressionPanel:
    deltas = setting.choose((1e-7, 1e-5, 1e-2), (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2))
    return _panel(source, "delta", deltas, n_records, _WEAK)


def _panel(source: str, vary: str, values: tuple[float, ...], n_records: int, epsilon: float) -> RegressionPanel:
    return {
        "source": source,
        "vary": vary,
        "values": list(values),
        "epsilon": epsilon,
        "delta": _DELTA,
        "n_records": n_records,
    }


SYNTHETIC_LOSS = Work(_loss_cells, draw_loss, judge_loss)
REAL_LOSS = Work(_real_cells, draw_real, judge_real)
COEFFICIENTS = Work(_error_cells, draw_error, judge_error)
