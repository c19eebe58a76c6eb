"""The computation of figures 2 to 4: fits of the release and its competitors, and attacks on the release."""

from __future__ import annotations

import math

from dpcape.factor_release.factor_release import FactorRelease
from dpcape_papers.data import factor as prepared
from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.results import NON_PRIVATE, PUBLISHED, Row, row

ERROR = "test mean squared error"
REBUILT, GUESSED = "variance of others' features rebuilt", "the same, records shuffled"
FOUND, CHANCE = "people found by 20 features", "the same by guessing"
N_FACTORS = "number of factors"
CREDIBLE, PREDICTIVE = "responses in 95% credible intervals", "responses in 95% predictive intervals"
PROPOSED, SVD, TWO_STAGE = "proposed", "SVD", "two-stage"
BEST, WORST = "ridge on features", "covariates only"
# The names that the release uses for the two bounds.
_NAMES = {"best case: ridge on features": BEST, "worst case: covariates only": WORST}


def simulation(
    data: DataFolder,
    *,
    n: int,
    n_features: int,
    n_factors: int | str,
    along: str,
    run: int,
    n_burn_in: int,
    n_draws: int,
    thin: int,
    attack: bool,
) -> list[Row]:
    """Return the rows of one simulated data set; ``along`` is the horizontal coordinate, "n" or "n_factors"."""
    subjects = prepared.simulated(n, n_features, run)
    model, errors = prepared.fit(
        subjects, n_factors, n_burn_in=n_burn_in, n_draws=n_draws, n_chains=1, seed=run, thin=thin
    )
    panel = f"simulated, p = {n_features:,}" + ("" if along == "n" else f", n = {n}")
    x = float(n if along == "n" else int(n_factors))
    return _rows(model, errors, prepared.covered(model, subjects), panel=panel, x=x, run=run, attack=attack)


def connectivity(
    data: DataFolder,
    *,
    n: int,
    n_factors: int,
    run: int,
    every: int,
    n_burn_in: int,
    n_draws: int,
    thin: int,
    attack: bool,
) -> list[Row]:
    """Return the rows of one split of ABIDE (each ``every``-th connection), or of simulated subjects."""
    if data.has(prepared.CONNECTIVITY) and data.has(prepared.PHENOTYPES):
        subjects = prepared.abide(data, n, run, every=every)
        name = f"ABIDE (for PNC): age from {subjects.X.shape[1]:,} connections"
    else:
        subjects, name = prepared.simulated(n, 2_000, run), "simulated in place of PNC and ABIDE"
    model, errors = prepared.fit(
        subjects, n_factors, n_burn_in=n_burn_in, n_draws=n_draws, n_chains=1, seed=run, thin=thin
    )
    shares = prepared.covered(model, subjects)
    return _rows(model, errors, shares, panel=f"{name}, n = {n}", x=float(n_factors), run=run, attack=attack)


def _rows(
    model: FactorRelease,
    errors: dict[str, float],
    shares: tuple[float, float],
    *,
    panel: str,
    x: float,
    run: int,
    attack: bool,
) -> list[Row]:
    measured = {ERROR: {_NAMES.get(name, name): value for name, value in errors.items()}}
    measured[N_FACTORS] = {PROPOSED: float(model.n_factors_)}
    measured |= {CREDIBLE: {PROPOSED: shares[0]}, PREDICTIVE: {PROPOSED: shares[1]}}
    if attack:
        leak = model.assess_risk(n_repeats=3).leaks[-1]
        measured |= {
            REBUILT: {PROPOSED: leak.reconstruction.value},
            GUESSED: {PROPOSED: leak.reconstruction.chance},
            FOUND: {PROPOSED: leak.identified_few.value},
            CHANCE: {PROPOSED: leak.identified_few.chance},
        }
    return [
        _row(panel, curve, x, measure, value, run)
        for measure, values in measured.items()
        for curve, value in values.items()
    ]


def _row(panel: str, curve: str, x: float, measure: str, value: float, run: int) -> Row:
    """Return a row; released schemes have no noise and claim no epsilon, so their real epsilon is infinite."""
    bound = curve in (BEST, WORST)
    return row(
        panel=panel,
        curve=curve,
        calibration=NON_PRIVATE if bound else PUBLISHED,
        x=x,
        measure=measure,
        value=value,
        verified_epsilon=None if bound else math.inf,
        run=run,
    )
