"""Whole studies of everyday analyses at four sites under CAPE against pooled, non-private peers; ratios of CPU time."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import scipy.linalg
from sklearn.cross_decomposition import PLSSVD
from timing import cpu_times, show

from dpcape import (
    PLS,
    Cape,
    Correlation,
    Cox,
    Federation,
    GeneralizedLinearModel,
    Harmonise,
    KaplanMeier,
    MassUnivariate,
    MultiCCA,
    Summary,
    in_process,
    labelled,
    rows,
    table,
    views,
)
from dpcape.core.errors import DpcapeWarning

NUMBERS = [f"x{number}" for number in range(5)]
# Below one over the number of records of the largest study.
DELTA = 1e-7
CATEGORIES = ["sex", "arm", "stage"]
COLUMNS = {**{name: (-4, 4) for name in NUMBERS}, **{name: ["a", "b", "c"] for name in CATEGORIES}}


def frame(n_records: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    levels = np.array(["a", "b", "c"], dtype=object)
    numbers = {name: rng.normal(size=n_records) for name in NUMBERS}
    return pd.DataFrame({**numbers, **{name: rng.choice(levels, n_records) for name in CATEGORIES}})


def ours(frames: list[pd.DataFrame]) -> Summary:
    held = {f"site-{at}": table(part, columns=COLUMNS) for at, part in enumerate(frames)}
    return Summary(by="stage", epsilon=1.0, delta=DELTA).fit(Federation(in_process(held), protocol=Cape(n_colluding=1)))


def peers(frames: list[pd.DataFrame]) -> list[object]:
    """Return the same figures from pooled records: quartiles, mean, SD, counts and missing, overall and by group."""
    pooled = pd.concat(frames)
    grouped = pooled.groupby("stage")
    found: list[object] = [pooled[NUMBERS].describe(), grouped[NUMBERS].describe()]
    found += [grouped[name].value_counts(dropna=False) for name in CATEGORIES[:2]]
    found += [pooled[name].value_counts(dropna=False) for name in CATEGORIES]
    return found


WIDTHS = (20, 20, 20)


def three_views(n_records: int, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(n_records, 2))
    parts = [rng.normal(size=(n_records, width)) for width in WIDTHS]
    for part in parts:
        part[:, :2] += shared
    return parts


def our_components(held: list[list[np.ndarray]]) -> MultiCCA:
    sites = {f"site-{at}": views(*parts, bounds=(6.0, 6.0, 6.0)) for at, parts in enumerate(held)}
    return MultiCCA(3, epsilon=1.0, delta=DELTA).fit(Federation(in_process(sites), protocol=Cape(n_colluding=1)))


def maxvar(held: list[list[np.ndarray]]) -> np.ndarray:
    """Return the directions of MAXVAR from pooled records: a covariance and one generalised eigenvalue problem."""
    covariance = np.cov(np.vstack([np.hstack(parts) for parts in held]), rowvar=False)
    ends = np.cumsum(WIDTHS)
    blocks = scipy.linalg.block_diag(*(covariance[e - w : e, e - w : e] for e, w in zip(ends, WIDTHS, strict=True)))
    last = len(covariance) - 1
    found: np.ndarray = scipy.linalg.eigh(covariance, blocks, subset_by_index=(last - 2, last))[1]
    return found


OUTCOMES = [f"y{number}" for number in range(68)]


def patients(n_records: int, site: int) -> pd.DataFrame:
    rng = np.random.default_rng(site)
    outcomes = {name: rng.normal(size=n_records) for name in OUTCOMES}
    others = {"dx": rng.integers(0, 2, n_records), "sex": rng.integers(0, 2, n_records)}
    return pd.DataFrame({**outcomes, **others, "age": rng.normal(50, 12, n_records), "site": site})


def our_contrasts(frames: list[pd.DataFrame]) -> MassUnivariate:
    levels = {name: {"levels": [0, 1]} for name in ("dx", "sex")}
    columns = {**dict.fromkeys(OUTCOMES, (-4, 4)), **levels, "age": (10, 90), "site": {"levels": list(range(4))}}
    held = {f"site-{at}": table(part, columns=columns) for at, part in enumerate(frames)}
    model = MassUnivariate("dx", covariates=["age", "sex"], site="site", epsilon=1.0, delta=DELTA)
    return model.fit(Federation(in_process(held), protocol=Cape(n_colluding=1)))


def pooled_contrasts(frames: list[pd.DataFrame]) -> list[float]:
    """Return the t statistics of ordinary least squares, column by column, with robust standard errors."""
    pooled = pd.concat(frames)
    dummies = np.eye(4)[pooled["site"].to_numpy()]
    design = np.column_stack([pooled[["dx", "age", "sex"]].to_numpy(dtype=float), dummies])
    found = []
    for name in OUTCOMES:
        outcome = pooled[name].to_numpy()
        coefficients, *_ = np.linalg.lstsq(design, outcome, rcond=None)
        residuals = outcome - design @ coefficients
        inverse = np.linalg.inv(design.T @ design)
        covariance = inverse @ ((design * residuals[:, np.newaxis] ** 2).T @ design) @ inverse
        found.append(float(coefficients[0] / np.sqrt(covariance[0, 0])))
    return found


def our_correlations(frames: list[pd.DataFrame]) -> Correlation:
    sites = {f"site-{at}": rows(part, ranges=[(-6, 6)] * part.shape[1]) for at, part in enumerate(frames)}
    return Correlation(epsilon=1.0, delta=DELTA).fit(Federation(in_process(sites), protocol=Cape(n_colluding=1)))


def correlations_of_tables(frames: list[pd.DataFrame]) -> Correlation:
    columns = dict.fromkeys(frames[0].columns, (-6, 6))
    sites = {f"site-{at}": table(part, columns=columns) for at, part in enumerate(frames)}
    return Correlation(epsilon=1.0, delta=1e-7).fit(Federation(in_process(sites), protocol=Cape(n_colluding=1)))


def correlations(n_records: int) -> None:
    names = [f"x{number}" for number in range(20)]
    drawn = [np.random.default_rng(seed).normal(size=(n_records, 20)) for seed in range(4)]
    frames = [pd.DataFrame(values, columns=names) for values in drawn]
    times = cpu_times(
        {
            "ours": lambda: our_correlations(frames),
            "of tables": lambda: correlations_of_tables(frames),
            "pandas": lambda: pd.concat(frames).corr(),
        }
    )
    for made, title in (("ours", "Correlation"), ("of tables", "Correlation of tables")):
        show(f"{title}, 20 columns, four sites of {n_records} / pandas", times[made] / times["pandas"], "<= 1.5")


def our_pairs(held: list[list[np.ndarray]]) -> PLS:
    sites = {f"site-{at}": views(*parts[:2], bounds=(6.0, 6.0)) for at, parts in enumerate(held)}
    return PLS(3, epsilon=1.0, delta=DELTA).fit(Federation(in_process(sites), protocol=Cape(n_colluding=1)))


# The fewest that can show a p-value of 0.05.
N_PERMUTATIONS = 19


def tested_pairs(X: np.ndarray, Y: np.ndarray) -> tuple[object, list[float]]:
    """Return PLSSVD of pooled records and a permutation test of its covariances, which the study gives too."""
    model = PLSSVD(3, scale=False).fit(X, Y)
    x_rows, y_rows, rng = X - X.mean(axis=0), Y - Y.mean(axis=0), np.random.default_rng(0)
    found = np.linalg.svd(x_rows.T @ y_rows, compute_uv=False)[:3]
    drawn = [
        np.linalg.svd(x_rows.T @ y_rows[rng.permutation(len(Y))], compute_uv=False)[:3] for _ in range(N_PERMUTATIONS)
    ]
    return model, list((1 + (np.array(drawn) >= found).sum(axis=0)) / (N_PERMUTATIONS + 1))


def pairs(n_records: int) -> None:
    held = [three_views(n_records, seed) for seed in range(4)]
    pooled = [np.vstack([parts[view] for parts in held]) for view in range(2)]
    peers = {"scikit-learn PLSSVD": lambda: PLSSVD(3, scale=False).fit(*pooled)}
    if n_records <= 25_000:
        peers[f"PLSSVD and {N_PERMUTATIONS} permutations"] = lambda: tested_pairs(*pooled)
    times = cpu_times({"ours": lambda: our_pairs(held), **peers})
    for peer in peers:
        show(f"PLS, 2 x 20, four sites of {n_records} / {peer}", times["ours"] / times[peer], "<= 1.5")


FOLLOWED = {"survival": {"time": "days", "event": "died", "range": [0, 1825]}, "arm": ["new", "usual"]}


def followed(n_records: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    arm = rng.choice(np.array(["new", "usual"], dtype=object), n_records)
    time, end = rng.exponential(np.where(arm == "new", 2600, 1500)), rng.uniform(300, 2500, n_records)
    return pd.DataFrame({"days": np.minimum(time, end), "died": (time <= end).astype(int), "arm": arm})


def our_curves(frames: list[pd.DataFrame]) -> KaplanMeier:
    held = {f"site-{at}": table(part, columns=FOLLOWED) for at, part in enumerate(frames)}
    model = KaplanMeier(by="arm", epsilon=1.0, delta=DELTA)
    return model.fit(Federation(in_process(held), protocol=Cape(n_colluding=1)))


def peer_curves(frames: list[pd.DataFrame]) -> object:
    """Return curves of all and of each arm, and the log-rank test, from pooled records."""
    from lifelines import KaplanMeierFitter
    from lifelines.statistics import logrank_test

    pooled = pd.concat(frames)
    parts = [pooled, *(part for _, part in pooled.groupby("arm"))]
    for part in parts:
        KaplanMeierFitter().fit(part["days"], part["died"])
    _, new, usual = parts
    return logrank_test(new["days"], usual["days"], new["died"], usual["died"])


COLUMNS_OF_MODELS, MOST_VISITS = 10, 60


def visits(n_records: int, seed: int, family: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_records, COLUMNS_OF_MODELS)) / np.sqrt(COLUMNS_OF_MODELS)
    line = X @ np.linspace(-0.5, 0.5, COLUMNS_OF_MODELS)
    if family == "poisson":
        return X, rng.poisson(np.exp(0.7 + line))
    return X, (rng.random(n_records) < 1 / (1 + np.exp(-line))).astype(int)


def our_model(held: list[tuple[np.ndarray, np.ndarray]], family: str) -> GeneralizedLinearModel:
    target = {"response": (0, MOST_VISITS)} if family == "poisson" else {"classes": [0, 1]}
    sites = {f"site-{at}": labelled(X, y, bound=1.2, **target) for at, (X, y) in enumerate(held)}
    model = GeneralizedLinearModel(family, epsilon=1.0, delta=DELTA)
    return model.fit(Federation(in_process(sites), protocol=Cape(n_colluding=1)))


def peer_model(held: list[tuple[np.ndarray, np.ndarray]], family: str) -> object:
    """Return coefficients, intervals and p-values from pooled records."""
    from statsmodels.genmod.families import Binomial, Poisson
    from statsmodels.genmod.generalized_linear_model import GLM

    X = np.vstack([X for X, _ in held])
    design = np.column_stack([np.ones(len(X)), X])
    law = Poisson() if family == "poisson" else Binomial()
    found = GLM(np.concatenate([y for _, y in held]), design, family=law).fit()
    return found.params, found.conf_int(), found.pvalues


def models() -> None:
    try:
        import statsmodels  # noqa: F401
    except ImportError:
        print("statsmodels is not installed: its ratio is left out (install it in an environment of its own)")
        return
    for family in ("logistic", "poisson"):
        for n_records in (2500, 25_000):
            held = [visits(n_records, seed, family) for seed in range(4)]
            times = cpu_times(
                {
                    "ours": lambda held=held, family=family: our_model(held, family),
                    "peer": lambda held=held, family=family: peer_model(held, family),
                }
            )
            title = f"GeneralizedLinearModel, {family}, four sites of {n_records} / statsmodels"
            show(title, times["ours"] / times["peer"], "<= 1.5")


COVARIATES = [f"x{number}" for number in range(5)]


def with_covariates(n_records: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n_records, len(COVARIATES)))
    time = rng.exponential(1500, n_records) * np.exp(-values @ [0.4, -0.3, 0.2, 0.0, 0.1])
    end = rng.uniform(300, 2500, n_records)
    seen = {"days": np.minimum(time, end), "died": (time <= end).astype(int)}
    return pd.DataFrame({**seen, **dict(zip(COVARIATES, values.T, strict=True))})


def our_ratios(frames: list[pd.DataFrame]) -> Cox:
    columns = {"survival": FOLLOWED["survival"], **dict.fromkeys(COVARIATES, (-4, 4))}
    held = {f"site-{at}": table(part, columns=columns) for at, part in enumerate(frames)}
    model = Cox(COVARIATES, epsilon=1.0, delta=DELTA)
    return model.fit(Federation(in_process(held), protocol=Cape(n_colluding=1)))


def peer_ratios(frames: list[pd.DataFrame]) -> object:
    from lifelines import CoxPHFitter

    return CoxPHFitter().fit(pd.concat(frames), "days", "died")


def scanned(n_records: int, site: int) -> pd.DataFrame:
    rng = np.random.default_rng(site)
    values = rng.normal(0.2 * site, 1, (n_records, len(NUMBERS)))
    return pd.DataFrame({**dict(zip(NUMBERS, values.T, strict=True)), "site": site})


def our_sites(frames: list[pd.DataFrame]) -> list[dict[str, np.ndarray]]:
    columns = {**dict.fromkeys(NUMBERS, (-5, 5)), "site": {"levels": list(range(4))}}
    held = {f"site-{at}": table(part, columns=columns) for at, part in enumerate(frames)}
    federation = Federation(in_process(held), protocol=Cape(n_colluding=1))
    model = Harmonise("site", epsilon=1.0, delta=DELTA).fit(federation)
    return [model.transform(part) for part in frames]


def pooled_sites(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """Return records with the location and scale of their site taken away, pooled."""
    pooled = pd.concat(frames)
    grouped = pooled.groupby("site")[NUMBERS]
    return (pooled[NUMBERS] - grouped.transform("mean")) / grouped.transform("std")


def combat(frames: list[pd.DataFrame]) -> np.ndarray:
    """Return pooled records harmonised by ComBat (Johnson et al. 2007): location and scale by empirical Bayes.

    The steps of neuroCombat and neuroHarmonize, which the estimates of the study are to be compared with.
    """
    pooled = pd.concat(frames)
    values, batch = pooled[NUMBERS].to_numpy(), np.eye(4)[pooled["site"].to_numpy()]
    means = np.linalg.lstsq(batch, values, rcond=None)[0]
    grand = batch.mean(axis=0) @ means
    spread = np.sqrt(np.mean((values - batch @ means) ** 2, axis=0))
    standard = (values - grand) / spread
    for site in range(4):
        chosen = batch[:, site] == 1
        standard[chosen] = _adjusted(standard[chosen])
    return standard * spread + grand


def _adjusted(rows: np.ndarray) -> np.ndarray:
    """Return standardised records of a site without its location and scale, shrunk to those of all columns."""
    n_rows, first, second = len(rows), rows.mean(axis=0), rows.var(axis=0, ddof=1)
    centre, width = first.mean(), first.var(ddof=1)
    mean, variance = second.mean(), second.var(ddof=1)
    shape, rate = (2 * variance + mean**2) / variance, (mean * variance + mean**3) / variance
    location, scale, change = first, second, 1.0
    while change > 1e-4:
        new = (width * n_rows * first + scale * centre) / (width * n_rows + scale)
        newer = (0.5 * ((rows - new) ** 2).sum(axis=0) + rate) / (n_rows / 2 + shape - 1)
        change = max(np.abs((new - location) / location).max(), np.abs((newer - scale) / scale).max())
        location, scale = new, newer
    return (rows - location) / np.sqrt(scale)


def main() -> None:
    warnings.simplefilter("ignore", DpcapeWarning)
    for n_records in (25_000, 250_000):
        correlations(n_records)
        pairs(n_records)
    for n_records in (50_000, 250_000):
        held = [three_views(n_records, seed) for seed in range(4)]
        times = cpu_times({"ours": lambda held=held: our_components(held), "numpy": lambda held=held: maxvar(held)})
        show(f"MultiCCA, 3 x 20, four sites of {n_records} / NumPy", times["ours"] / times["numpy"], "<= 1.5")
    for n_records in (25_000, 250_000):
        frames = [frame(n_records, seed) for seed in range(4)]
        times = cpu_times({"ours": lambda frames=frames: ours(frames), "pandas": lambda frames=frames: peers(frames)})
        show(f"Summary by group, four sites of {n_records} / pandas", times["ours"] / times["pandas"], "<= 1.5")
    for n_records in (1_250, 12_500):
        frames = [patients(n_records, site) for site in range(4)]
        times = cpu_times(
            {
                "ours": lambda frames=frames: our_contrasts(frames),
                "numpy": lambda frames=frames: pooled_contrasts(frames),
            }
        )
        show(
            f"MassUnivariate, 68 outcomes, four sites of {n_records} / numpy", times["ours"] / times["numpy"], "<= 1.5"
        )
    for n_records in (2500, 25_000, 250_000):
        frames = [scanned(n_records, site) for site in range(4)]
        times = cpu_times(
            {
                "ours": lambda frames=frames: our_sites(frames),
                "pandas": lambda frames=frames: pooled_sites(frames),
                "ComBat": lambda frames=frames: combat(frames),
            }
        )
        for peer in ("pandas", "ComBat"):
            title = f"Harmonise, 5 columns, four sites of {n_records} / {peer}"
            show(title, times["ours"] / times[peer], "<= 1.5")
    survival()
    models()


def survival() -> None:
    try:
        import lifelines  # noqa: F401
    except ImportError:
        print("lifelines is not installed: its ratio is left out (pip install lifelines in an environment of its own)")
        return
    for n_records in (2500, 25_000):
        frames = [followed(n_records, seed) for seed in range(4)]
        times = cpu_times(
            {"ours": lambda frames=frames: our_curves(frames), "peer": lambda frames=frames: peer_curves(frames)}
        )
        show(f"KaplanMeier by group, four sites of {n_records} / lifelines", times["ours"] / times["peer"], "<= 1.5")
        frames = [with_covariates(n_records, seed) for seed in range(4)]
        times = cpu_times(
            {"ours": lambda frames=frames: our_ratios(frames), "peer": lambda frames=frames: peer_ratios(frames)}
        )
        show(f"Cox, 5 columns, four sites of {n_records} / lifelines", times["ours"] / times["peer"], "<= 1.5")


if __name__ == "__main__":
    main()
