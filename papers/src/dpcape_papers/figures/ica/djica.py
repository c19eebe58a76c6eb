"""The DP-djICA paper: independence of the components (figure 1) and gain index by epsilon (figure 2)."""

from __future__ import annotations

import math

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from dpcape.metrics import gain_index
from dpcape_papers.experiments.curves import Look, draw_panels, true_epsilon_note
from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.experiment import RUNS_PER_SEED, Cell, RunSetting, Verdict
from dpcape_papers.experiments.results import NON_PRIVATE, PUBLISHED, VERIFIED, Results, Row, Value, number, row
from dpcape_papers.figures.ica.gain import DELTA, DP_DJICA, ERROR
from dpcape_papers.figures.ica.methods import Found, djica, dp_djica_found, joint_ica
from dpcape_papers.figures.ica.series import N_SITES, PeopleSeries, seed_of, simulated
from dpcape_papers.published.ica import wishart_row_delta
from dpcape_papers.verdicts import Curve, Tally, Yardstick, as_good, compare_curves, privacy_claim, trend
from dpcape_papers.verdicts.comparing import by_point

CORRELATION, OFF = "correlation", "mean off-diagonal correlation"
_PUBLISHED, _EXACT = Curve(DP_DJICA, PUBLISHED), Curve("non-private", NON_PRIVATE)
_SMALLER = Yardstick("smaller")
# Off-diagonal correlations and gain indices that differ by at most this count as equal.
_CLOSE = 0.05
# Verified noise is not computed beyond this epsilon, which is not private in any useful sense; integer noise has a
# cut-off.
_LARGEST = 100.0


def compute(
    data: DataFolder, *, n_subjects: int, n_components: int, side: int, n_timepoints: int, n_iter: int,
    epsilons: list[float], pooled: bool, matrices: bool, run: int,
) -> list[Row]:  # fmt: skip
    """Return gain indices at the given epsilons and, with ``matrices``, correlations of the estimated sources."""
    series = simulated(
        seed_of(run), n_subjects=n_subjects, n_components=n_components, side=side, n_timepoints=n_timepoints
    )
    scheme = "pooled" if pooled else "CAPE"
    where = f"{'pooled' if pooled else 'four sites'}, {n_subjects} people"
    exact = djica(series, n_components, n_iter=n_iter)
    found: list[Row] = []
    for index, epsilon in enumerate(epsilons):
        seed = 1000 * (run + 1) + index
        runs = {
            _EXACT: exact,
            _PUBLISHED: dp_djica_found(series, n_components, epsilon=epsilon, n_iter=n_iter, seed=seed, pooled=pooled),
        }
        if epsilon <= _LARGEST:
            runs[Curve(scheme, VERIFIED)] = joint_ica(
                series, n_components, scheme=scheme, epsilon=epsilon, delta=DELTA, seed=seed
            )
        for curve, result in runs.items():
            error = gain_index(result.unmixing, series.truth)
            found.append(_row(where, curve, epsilon, ERROR, error, result, run, width=side**2))
            if matrices:
                found += _correlations(where, curve, epsilon, result, series, run)
    return found


def _row(
    panel: str, curve: Curve, epsilon: float, measure: str, value: float, result: Found, run: int, **more: Value
) -> Row:
    # The DP-djICA paper claims delta = 0.
    delta = {NON_PRIVATE: None, PUBLISHED: 0.0, VERIFIED: DELTA}[curve.calibration]
    return row(
        panel=panel, curve=curve.name, calibration=curve.calibration, x=epsilon, measure=measure, value=value, run=run,
        delta=delta, claimed_epsilon=result.claimed, verified_epsilon=result.verified,
        guarantee=result.guarantee, **more,
    )  # fmt: skip


def _correlations(panel: str, curve: Curve, epsilon: float, result: Found, series: PeopleSeries, run: int) -> list[Row]:
    """Return the mean off-diagonal |correlation| of the sources at each site; for the first run, all entries."""
    rows = []
    for site, part in enumerate(series.sites()):
        matrix = np.abs(np.corrcoef((np.vstack(part) @ result.unmixing.T).T))
        off = float((matrix.sum() - np.trace(matrix)) / (matrix.size - len(matrix)))
        rows.append(_row(f"{panel}, site {site + 1}", curve, epsilon, OFF, off, result, run))
        if run % RUNS_PER_SEED == 0:
            rows += [
                _row(
                    panel, curve, epsilon, CORRELATION, round(float(value), 4), result, run, site=site + 1, entry=entry
                )
                for entry, value in enumerate(matrix.ravel())
            ]
    return rows


def _sizes(setting: RunSetting) -> dict[str, int]:
    return {
        "n_components": setting.choose(6, 20),
        "side": setting.choose(12, 30),
        "n_timepoints": setting.choose(100, 250),
        "n_iter": setting.choose(240, 200),
    }


def cells_independence(setting: RunSetting) -> list[Cell]:
    """Return the cells of figure 1."""
    fixed = {"n_subjects": setting.choose(160, 1024), "pooled": False, "matrices": True, "epsilons": [0.1, 1.0]}
    return [Cell(compute, {**_sizes(setting), **fixed, "run": run}) for run in setting.run_numbers(3)]


def cells_gain(setting: RunSetting) -> list[Cell]:
    """Return the cells of figure 2."""
    epsilons = setting.choose((0.1, 1.0, 10_000.0), (0.1, 1.0, 10.0, 100.0, 1_000.0, 10_000.0))
    groups = [list(epsilons)] if setting.quick else [[epsilon] for epsilon in epsilons]
    return [
        Cell(
            compute,
            {
                **_sizes(setting),
                "n_subjects": people,
                "pooled": pooled,
                "matrices": False,
                "epsilons": group,
                "run": run,
            },
        )
        for people, pooled in ((setting.choose(160, 1024), False), (setting.choose(80, 512), True))
        for run in setting.run_numbers(3)
        for group in groups
    ]


def draw_independence(results: Results) -> Figure:
    """Draw the correlations of the estimated sources: one row per algorithm, one column per site."""
    rows = results.where(measure=CORRELATION, x=1.0)
    lines = list(dict.fromkeys((str(r["curve"]), str(r["calibration"])) for r in rows))
    figure, grid = plt.subplots(
        len(lines), N_SITES, figsize=(2.4 * N_SITES, 2.5 * len(lines) + 0.5), squeeze=False, layout="constrained"
    )
    for line, (curve, kind) in zip(grid, lines, strict=True):
        chosen = rows.where(curve=curve, calibration=kind)
        for site, axes in enumerate(line, start=1):
            values = np.array(chosen.where(site=site).numbers("value"))
            size = math.isqrt(values.size)
            image = axes.imshow(values.reshape(size, size), cmap="viridis", vmin=0, vmax=1)
            axes.set(xticks=[], yticks=[])
            axes.set_title(f"site {site}", fontsize="small")
        index = results.mean(measure=ERROR, curve=curve, calibration=kind, x=1.0)
        line[0].set_ylabel(f"{_title(chosen)}\nq_NGI {index:.2f}", fontsize="small")
    figure.colorbar(image, ax=grid, shrink=0.6, label="|correlation| of estimated sources")
    return figure


def _title(rows: Results) -> str:
    first = rows[0]
    if first["calibration"] == NON_PRIVATE:
        return "djICA\nno noise"
    if first["calibration"] == PUBLISHED:
        return f"DP-djICA, ε = 1 per round\nclaimed {first['claimed_epsilon']:.3g}, real ∞"
    return f"CAPE (verified)\nε = 1 in total, δ = {DELTA:g}"


def draw_gain(results: Results) -> Figure:
    """Draw the gain index against epsilon."""
    look = Look("ε (published: per round,\nverified: in total)", "q_NGI (0 is perfect)")
    figure = draw_panels(results, look, measure=ERROR, n_columns=2)
    for axes in figure.axes:
        axes.set_ylim(bottom=0)
    true_epsilon_note(figure, results, ERROR)
    return figure


def judge_independence(results: Results) -> list[Verdict]:
    """Judge figure 1."""
    rows = results.where(measure=OFF)
    curves = (_EXACT, _PUBLISHED)
    index = {curve: curve.of(results).mean(measure=ERROR, x=1.0) for curve in curves}
    off = {curve: curve.of(rows).mean(x=1.0) for curve in curves}
    near = [found[_PUBLISHED] - found[_EXACT] <= _CLOSE for found in (off, index)]
    text = (
        f"Mean off-diagonal correlation {off[_PUBLISHED]:.3f} against {off[_EXACT]:.3f}; q_NGI {index[_PUBLISHED]:.3f} "
        f"against {index[_EXACT]:.3f} (without unmixing: about 0.3 to 0.4)."
    )
    fall = trend(rows, _PUBLISHED, _SMALLER)
    return [
        Verdict("At epsilon 1 the components are almost as independent as without noise", "DP-djICA paper, section IV",
                as_good([all(near)]), text),
        Verdict("Independence falls sharply at smaller epsilon", "DP-djICA paper, section IV", fall.outcome,
                f"Off-diagonal correlation from epsilon 0.1 to 1: {fall}."),
        *_private(results),
    ]  # fmt: skip


def judge_gain(results: Results) -> list[Verdict]:
    """Judge figure 2."""
    rows = results.where(measure=ERROR)
    found = compare_curves(rows, _EXACT, _PUBLISHED, _SMALLER)
    smaller = Results(r for r in rows if number(r, "x") <= 1)
    panels = [smaller.where(panel=panel) for panel in smaller.values("panel")]
    published = [float(mean) for panel in panels for one in panel.series(calibration=PUBLISHED) for mean in one.mean]
    verified = smaller.where(calibration=VERIFIED)
    fall = trend(rows, _PUBLISHED, _SMALLER)
    return [
        Verdict("Privacy reduces the quality of separation", "DP-djICA paper, section IV", found.outcome,
                f"q_NGI of djICA: {found}."),
        Verdict("DP-djICA has good utility at epsilon up to 1 (q_NGI at most 0.1)", "DP-djICA paper, section V",
                as_good([value <= 0.1 for value in published]),
                f"q_NGI {min(published):.2f} to {max(published):.2f} at epsilon up to 1 per round; verified, with such "
                f"a total, {verified.mean():.2f} on average.", needs_size=True),
        Verdict("q_NGI falls with epsilon", "DP-djICA paper, figure 2", fall.outcome, f"As published: {fall}."),
        _fewer_people(rows),
        *_private(results),
    ]  # fmt: skip


def _fewer_people(rows: Results) -> Verdict:
    """Compare four sites with pooled data of half as many people, both without noise and as published."""
    found = Tally()
    for curve in (_EXACT, _PUBLISHED):
        by_panel = by_point(rows, curve)
        four, pooled = (
            {x: runs for panel, points in by_panel.items() if panel.startswith(start) for x, runs in points.items()}
            for start in ("four sites", "pooled")
        )
        found += sum((_SMALLER.compare(runs, pooled.get(x, {})) for x, runs in four.items()), Tally())
    claim = "On pooled data of half as many people both algorithms do slightly worse than across the sites"
    return Verdict(claim, "DP-djICA paper, section IV", found.outcome, f"q_NGI across the sites: {found}.")


def _private(results: Results) -> list[Verdict]:
    outcome, text = privacy_claim(results.where(measure=ERROR), DP_DJICA)
    width = int(results.where(measure=ERROR).numbers("width")[0])
    delta = wishart_row_delta(1.0, width)
    text += f"; the PCA's delta is {delta:.2g} at epsilon 1 with {width} columns, and remains so at every larger "
    text += "epsilon (retracted result)"
    return [
        Verdict(
            "The whole algorithm is epsilon-private with delta 0",
            "DP-djICA paper, algorithm 1 and theorem 1",
            outcome,
            text + ".",
            measured=False,
        )
    ]
