"""Proposition 3.2 and section 3.3.7: sites of unequal size."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from dpcape.core.privacy.gaussian import epsilon_of, mu_of
from dpcape.core.protocols.cape import Cape
from dpcape.core.protocols.independent import Independent
from dpcape_papers.experiments.curves import Look, colours_of, draw_curves, legend_below, plain_ticks
from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.experiment import RUNS_PER_SEED, Cell, RunSetting, Verdict, Work
from dpcape_papers.experiments.results import EXACT, NON_PRIVATE, PUBLISHED, Results, Row, number, row
from dpcape_papers.figures.analytic.noise_measured import geometric_sizes, noise_variance, standard_error
from dpcape_papers.published.regression import classical_multiplier
from dpcape_papers.published.unequal import equal_weights_mu, largest_noise_ratio, noise_ratio, weighted_mu
from dpcape_papers.verdicts import outcome_of

N_SITES, SMALLEST = 5, 20
EPSILON, DELTA = 1.0, 1e-5
RATIO, REAL = "H(n)", "real epsilon"
NOISE_PANEL, EPSILON_PANEL = "noise variance over that of pooled data", "real epsilon where 1 is claimed"
EQUAL, BY_SIZE = "equal weights", "weights by size"
BOUND = "upper end of remark 3"
SCHEME_EQUAL, SCHEME_SIZE = "section 3.3.7, equal weights", "section 3.3.7, weights by size"


def ratios(data: DataFolder, *, skew: float, run: int, width: int) -> list[Row]:
    """Return the computed and measured ratios of noise variances, and the real epsilons of the published schemes."""
    sizes = geometric_sizes(N_SITES, skew, SMALLEST)
    return [*_measured(sizes, skew, run, width), *(_formulas(sizes, skew) if run % RUNS_PER_SEED == 0 else [])]


def _measured(sizes: list[int], skew: float, run: int, width: int) -> list[Row]:
    names = {f"site-{index}": size for index, size in enumerate(sizes)}
    mu, seed = mu_of(EPSILON, DELTA), 10 * sum(sizes) + run
    pooled = noise_variance(Independent(), {"pooled": sum(sizes)}, mu=mu, seed=seed, width=width)
    rows = []
    for curve, weights in ((EQUAL, dict.fromkeys(names, 1 / N_SITES)), (BY_SIZE, None)):
        found = noise_variance(Cape(n_colluding=0), names, mu=mu, seed=seed, width=width, weights=weights)
        rows.append({**_row(NOISE_PANEL, curve, EXACT, skew, RATIO, found / pooled, EPSILON, run), "width": width})
    return rows


def _formulas(sizes: list[int], skew: float) -> list[Row]:
    tau = classical_multiplier(EPSILON, DELTA)
    real = epsilon_of(DELTA, equal_weights_mu(sizes, tau, 0))
    total = sum(sizes)
    rows = [
        _row(NOISE_PANEL, EQUAL, PUBLISHED, skew, RATIO, noise_ratio(sizes), real),
        _row(EPSILON_PANEL, EQUAL, PUBLISHED, skew, REAL, real, real),
        row(panel=NOISE_PANEL, curve=BOUND, calibration=NON_PRIVATE, x=skew, measure=RATIO,
            value=largest_noise_ratio(total, N_SITES)),
    ]  # fmt: skip
    weights = {SCHEME_EQUAL: [1 / N_SITES] * N_SITES, SCHEME_SIZE: [size / total for size in sizes]}
    for curve, chosen in weights.items():
        for n_colluding in (0, 1):
            mu = weighted_mu(chosen, sizes, tau, n_colluding)
            if mu is None:  # negative variances: the scheme is infeasible
                continue
            name = curve + (", one colludes" if n_colluding else "")
            found = epsilon_of(DELTA, mu)
            rows.append(_row(EPSILON_PANEL, name, PUBLISHED, skew, REAL, found, found))
    return rows


def _row(panel: str, curve: str, kind: str, skew: float, measure: str, value: float, real: float, run: int = 0) -> Row:
    return row(
        panel=panel,
        curve=curve,
        calibration=kind,
        x=skew,
        measure=measure,
        value=value,
        claimed_epsilon=EPSILON,
        verified_epsilon=real,
        delta=DELTA,
        run=run,
    )


def cells(setting: RunSetting) -> list[Cell]:
    """Return one cell per skew and run."""
    skews = setting.choose((1.0, 2.0, 5.0, 20.0), (1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0))
    width = setting.choose(6000, 10_000)
    return [
        Cell(ratios, {"skew": skew, "run": run, "width": width}) for skew in skews for run in setting.run_numbers(3)
    ]


def draw(results: Results) -> Figure:
    """Draw noise and real epsilon against the skew of the sizes."""
    figure, grid = plt.subplots(1, 2, figsize=(11, 4.9), layout="constrained")
    for axes, (panel, label, log) in zip(
        grid, ((NOISE_PANEL, "H(n)", True), (EPSILON_PANEL, "real ε at the same δ", False)), strict=True
    ):
        look = Look("largest site over smallest site", label, log_y=log)
        draw_curves(
            axes, results.series(panel=panel), look, colours_of([str(curve) for curve in results.values("curve")])
        )
        plain_ticks(axes, x=sorted(set(results.numbers("x"))))
        axes.set_title(panel, fontsize="medium")
    grid[1].axhline(EPSILON, color="gray", lw=0.8)
    legend_below(figure)
    return figure


def judge(results: Results) -> list[Verdict]:
    """Judge proposition 3.2, remark 3 and section 3.3.7."""
    return [_least(results), _measured_formula(results), _by_size(results), _feasible(results), _private(results)]


def _values(results: Results, curve: str, kind: str) -> dict[float, float]:
    rows = results.where(curve=curve, calibration=kind)
    return {x: rows.where(measure=rows[0]["measure"]).mean(x=x) for x in dict.fromkeys(rows.numbers("x"))}


def _least(results: Results) -> Verdict:
    formula = _values(results.where(panel=NOISE_PANEL), EQUAL, PUBLISHED)
    bound = _values(results, BOUND, NON_PRIVATE)
    inside = [1 - 1e-9 <= formula[x] <= bound[x] * (1 + 1e-9) for x in formula]
    rising = sorted(formula) == sorted(formula, key=lambda x: formula[x])
    return Verdict(
        "H(n) is 1 for equal sites, larger otherwise, and never above the stated bound.",
        "proposition 3.2, remark 3",
        "holds" if all(inside) and rising and abs(formula[min(formula)] - 1) < 1e-9 else "fails",
        "H = " + ", ".join(f"{value:.3g} at {x:g}" for x, value in sorted(formula.items())),
        measured=False,
    )


def _measured_formula(results: Results) -> Verdict:
    """Compare the formula with the measured noise of the same guarantee at every site."""
    formula = _values(results.where(panel=NOISE_PANEL), EQUAL, PUBLISHED)
    measured = _values(results, EQUAL, EXACT)
    tolerance = _tolerance(results)
    met = [abs(measured[x] / formula[x] - 1) <= tolerance for x in formula]
    return Verdict(
        "With equal weights and the same guarantee at every site the noise is H(n) times that of pooled data.",
        "proposition 3.2",
        outcome_of(sum(met), len(met)),
        "measured "
        + ", ".join(f"{measured[x]:.3g} (formula {formula[x]:.3g}) at {x:g}" for x in sorted(formula))
        + ": the smallest site needs more noise than its share provides",
        measured=False,
    )


def _by_size(results: Results) -> Verdict:
    measured = _values(results, BY_SIZE, EXACT)
    met = [abs(value - 1) <= _tolerance(results) for value in measured.values()]
    return Verdict(
        "Unequal sites can have the noise of pooled data (weights by size, no site colludes).",
        "section 3.3.7",
        outcome_of(sum(met), len(met)),
        "measured " + ", ".join(f"{value:.3g} at {x:g}" for x, value in sorted(measured.items())),
        measured=False,
    )


def _feasible(results: Results) -> Verdict:
    skews = sorted(_values(results, BY_SIZE, EXACT))
    equal, by_size = (set(_values_or_none(results, name)) for name in (SCHEME_EQUAL, SCHEME_SIZE))
    missing = [x for x in skews if x not in equal]
    both = len(skews) - len(missing) + len(by_size)
    return Verdict(
        "The linear system for unequal sites gives noise variances for any weights.",
        "section 3.3.7",
        outcome_of(both, 2 * len(skews)),
        f"weights by size: {len(by_size)} of {len(skews)} feasible; equal weights: negative variances at "
        + (", ".join(f"{x:g}" for x in missing) or "none"),
        measured=False,
    )


def _values_or_none(results: Results, curve: str) -> dict[float, float]:
    return _values(results, curve, PUBLISHED) if len(results.where(curve=curve)) else {}


def _private(results: Results) -> Verdict:
    rows = results.where(panel=EPSILON_PANEL, calibration=PUBLISHED)
    schemes = [r for r in rows if str(r["curve"]).startswith("section")]
    kept = [r for r in schemes if number(r, "value") <= EPSILON]
    worst = max(schemes, key=lambda r: number(r, "value"))
    return Verdict(
        "Unequal sites: noise of the stated variance guarantees (epsilon, delta) to each site.",
        "section 3.3.7",
        "holds" if len(kept) == len(schemes) else "fails",
        f"real epsilon within the claimed 1 at {len(kept)} of {len(schemes)} settings; largest {worst['value']:.3g} "
        f"({worst['curve']}, {worst['x']:g}); proposition 3.2 itself: "
        + ", ".join(f"{r['value']:.3g}" for r in rows.where(curve=EQUAL)),
        measured=False,
    )


def _tolerance(results: Results) -> float:
    """Return the tolerance of measured variances; it allows for chance, so that one run of many numbers decides."""
    measured = results.where(calibration=EXACT)
    return 0.012 + 3 * standard_error(int(measured.numbers("width")[0]), len(measured.values("run")))


WORK = Work(cells, draw, judge)
