"""Claims about the analyses: what they compute, how accurately, and how much they send."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dpcape.core.privacy.gaussian import epsilon_of
from dpcape.postprocessing.eigen import canonical
from dpcape_papers.claims.claim import CONDITIONS, WRONG, Claim, Evidence, number
from dpcape_papers.published.pca import leading_directions, moment_scale, symmetric_noise
from dpcape_papers.published.regression import classical_multiplier


def _pca_bounds() -> Evidence:
    """Compare the energy lost with tau_pool K sqrt(D), where the eigengap is twice tau_pool sqrt(D)."""
    sizes = (1_000, 100_000, 10_000_000)
    lost = [_energy_lost(n) for n in sizes]
    printed = [n * value for n, value in zip(sizes, lost, strict=True)]
    lines = (
        "energy lost divided by tau_pool K sqrt(D), with A = X X' as printed: "
        + ", ".join(f"{number(value)} at N = {n:g}" for n, value in zip(sizes, printed, strict=True)),
        "with A = X X'/N: " + ", ".join(number(value) for value in lost),
    )
    return Evidence(lines, printed[-1] > 1000 * printed[0] and max(lost) < 1)


def _energy_lost(n_records: int, width: int = 20, n_components: int = 2, n_draws: int = 20) -> float:
    """Return the mean loss of captured energy of X X'/N at (1, 0.01), divided by tau_pool K sqrt(D)."""
    rng = np.random.default_rng(12)  # evidence on synthetic data; protects nothing
    scale = moment_scale(n_records, epsilon=1.0, delta=0.01)
    unit = scale * math.sqrt(width)
    moment = unit * np.diag([5.0] * n_components + [3.0] * (width - n_components))
    best = 5.0 * n_components * unit
    losses = []
    for _ in range(n_draws):
        found = leading_directions(moment + symmetric_noise(rng, width, scale), n_components)
        losses.append(best - float(np.trace(found @ moment @ found.T)))
    return float(np.mean(losses)) / (n_components * unit)


def _convergence() -> Evidence:
    """Follow the squared distance from the maximum of a parabola under noise of variance 1 or 1/4."""
    rounds = (10, 100, 1000)
    fixed, less = (_distances(rounds, noise, lambda _: 0.1) for noise in (1.0, 0.25))
    shrinking = _distances(rounds, 1.0, lambda j: 1 / j)
    settled = _settled([0.0, 0.0, 0.0, 10.0], clip=1.0)
    lines = (
        f"steps of 0.1: mean squared distance {_listed(fixed)} after 10, 100 and 1000 rounds",
        f"the same with a quarter of the noise variance (CAPE, four sites): {_listed(less)}",
        f"steps of 1/j: {_listed(shrinking)}",
        f"mean of 0, 0, 0 and 10 found with gradients clipped to 1: {number(settled)} instead of 2.5",
    )
    stays = abs(fixed[2] / fixed[1] - 1) < 1e-3 and abs(fixed[2] / less[2] - 4) < 1e-6
    return Evidence(lines, stays and shrinking[2] < 2e-3 and abs(settled - 1 / 3) < 1e-3)


def _distances(rounds: tuple[int, ...], noise: float, step: Callable[[int], float]) -> list[float]:
    found, distance = [], 1.0
    for j in range(1, max(rounds) + 1):
        rate = step(j)
        distance = (1 - rate) ** 2 * distance + rate**2 * noise
        if j in rounds:
            found.append(distance)
    return found


def _settled(values: list[float], clip: float) -> float:
    held, place = np.asarray(values), 0.0
    for _ in range(2000):
        place += 0.05 * float(np.clip(held - place, -clip, clip).mean())
    return place


def _listed(values: list[float]) -> str:
    return ", ".join(number(value) for value in values)


def _communication() -> Evidence:
    n_sites, n_components, n_rounds, width = 4, 20, 100, 100
    each = n_rounds * (n_components**2 + n_components)
    order = n_sites + n_components**2
    dealer = 3 * 10 * width**2
    lines = (
        f"capeDJICA, 4 sites, 20 components: in 100 rounds a site releases {each:,} numbers; S + R^2 is {order}",
        f"capeCCA paper, 10 sites, 100 features: 3 S D^2 is {dealer:,}, D^2 is {width**2:,}",
    )
    return Evidence(lines, each > 50 * order and dealer == 30 * width**2)


def _constraint() -> Evidence:
    """Solve CCA for known correlations, and compare U'Cxy V with the identity."""
    rng = np.random.default_rng(13)  # evidence on synthetic data; protects nothing
    turn_x, turn_y = (rng.standard_normal((3, 3)) for _ in range(2))
    cross = turn_x @ np.diag([0.8, 0.5, 0.2]) @ turn_y.T
    xx, yy = turn_x @ turn_x.T, turn_y @ turn_y.T
    moment = np.block([[xx, cross], [cross.T, yy]])
    u, v, _ = canonical(moment, (3, 3), 0.0)
    inside = u[:, :2].T @ cross @ v[:, :2]
    found = np.abs(np.diag(inside))
    raw = np.linalg.eig(np.linalg.solve(xx, cross) @ np.linalg.solve(yy, cross.T))[1]
    scaled = np.diag(raw.T @ xx @ raw).real
    lines = (
        f"correlations 0.8, 0.5 and 0.2, K = 2: under the other constraints the trace of U'Cxy V is at most "
        f"{number(found.sum())}; that of the identity is 2",
        f"at the solution U'Cxy V is diagonal: {number(found[0])} and {number(found[1])}",
        f"for eigenvectors of length 1 the diagonal of U'Cxx U is {_listed(sorted(scaled.tolist()))}, not 1",
    )
    diagonal = abs(inside[0, 1]) + abs(inside[1, 0]) < 1e-9
    return Evidence(lines, bool(diagonal and np.allclose(found, [0.8, 0.5]) and np.abs(scaled - 1).max() > 0.1))


def _other_functions() -> Evidence:
    """Estimate a distribution at four sites, with CAPE and with independent noise."""
    # Imported here because listing the claims does not need them.
    from dpcape.core.noise import Replay
    from dpcape.core.protocols.cape import Cape
    from dpcape.core.protocols.independent import Independent
    from dpcape.federation.federation import Federation
    from dpcape.records import rows
    from dpcape.site.in_process import in_process
    from dpcape.statistics.moments import first_moments

    rng = np.random.default_rng(33)  # evidence on synthetic data; protects nothing
    shares = np.array([0.1, 0.2, 0.3, 0.4])
    held = {f"site {index}": np.eye(4)[rng.choice(4, 500, p=shares)] for index in range(4)}
    errors = {}
    for name, protocol in (("CAPE", Cape(n_colluding=1)), ("independent noise", Independent())):
        found = []
        for seed in range(30):
            sites = in_process({key: rows(x, bound=1.0) for key, x in held.items()}, noise=Replay(seed))
            federation = Federation(sites, protocol=protocol)
            private = federation.allow(1.0, 1e-5).mean(first_moments(federation.facts))
            exact = np.mean(np.vstack(list(held.values())), axis=0)
            found.append(np.asarray(private)[:4] - exact)
        errors[name] = float(np.std(found))
    ratio = errors["independent noise"] / errors["CAPE"]
    lines = (
        "a distribution over four classes, 4 sites of 500 records, (1, 1e-5), one site colluding: independent noise "
        f"has {ratio:.1f} times the error of CAPE; sqrt(S - 1) = {math.sqrt(3):.1f}",
    )
    return Evidence(lines, 1.4 < ratio < 2.1)


def _poster() -> Evidence:
    cases = ((0.1, 0.01), (1.0, 1e-5), (10.0, 0.01))
    real = [epsilon_of(d, 1 / classical_multiplier(e, d)) for e, d in cases]
    lines = tuple(f"claimed ({e:g}, {d:g}): real epsilon {number(r)}" for (e, d), r in zip(cases, real, strict=True))
    return Evidence(lines, real[0] <= 0.1 and real[1] <= 1 and real[2] > 10)


CLAIMS = (
    Claim(
        "cape-other-functions",
        "dissertation, section 3.3.6",
        "CAPE applies to k-means and to estimating probability distributions.",
        CONDITIONS,
        "True of every function that is a sum of bounded contributions of the records. A distribution is the mean of "
        "indicators, in one release. K-means sums rows and counts by cluster, in every round, so that its rounds share "
        "the budget: `KMeans`. dpcape has both, and `Summary` releases the distributions of a whole table.",
        _other_functions,
    ),
    Claim(
        "pca-bounds",
        "dissertation, section 4.2.2",
        "Captured energy, subspace and low-rank approximation of A = X X' differ from the best by "
        "O(tau_pool K sqrt(D)) or similar bounds.",
        WRONG,
        "tau_pool is the noise of X X'/N. So A and its eigengap must be divided by N too, or tau_pool multiplied by N. "
        "With this correction they are the bounds of Dwork et al. (2014).",
        _pca_bounds,
        ("dissertation-4.1",),
    ),
    Claim(
        "ica-convergence",
        "dissertation, section 6.4.2",
        "The noise of the gradients has mean zero, so capeDJICA converges, and faster than the conventional scheme.",
        CONDITIONS,
        "True for step sizes that shrink as 1/j. With step sizes that do not shrink, as in algorithm 6.1, the iterates "
        "keep fluctuating around the solution, with a variance S times smaller than in the conventional scheme, and "
        "they get there no faster. Clipping moves the solution itself.",
        _convergence,
    ),
    Claim(
        "communication",
        "dissertation, table 3.1, sections 3.3.5, 4.2.3, 5.3.3, 6.4.3 and 7.2.2; capeCCA paper, section 3",
        "For D numbers a site sends O(S + D) and the aggregator O(S^2 + S D); capeDJICA O(S + R^2); capeCCA with a "
        "noise generator 3 S D^2 or O(D^2).",
        CONDITIONS,
        "True of one release; the reproduced table 3.1 counts bytes. The figure for capeDJICA is per round, and the "
        "total grows with the number of rounds. 3 S D^2 is O(S D^2), not O(D^2).",
        _communication,
        ("dissertation-table-3.1",),
    ),
    Claim(
        "cca-constraint",
        "capeCCA paper, section 2; poster; dissertation, section 7.1",
        "CCA minimises |U'X - V'Y| subject to U'Cxx U = I, V'Cyy V = I and U'Cxy V = I, and eigenvectors solve it.",
        WRONG,
        "U'Cxy V = I is infeasible unless all canonical correlations are 1; the constraint must be that U'Cxy V is "
        "diagonal. The eigenvectors solve that problem once they are scaled and paired.",
        _constraint,
    ),
    Claim(
        "poster-privacy",
        "poster, algorithm and remarks",
        "Noise of sqrt(2)/N sqrt(2 ln(1.25/delta))/epsilon makes the moment and what is computed from it "
        "(epsilon, delta)-DP; projections and clusters are not covered by the guarantee.",
        CONDITIONS,
        "True wherever the classical formula is (see gaussian-classical), for one holder of all records, with public "
        "bounds and centres. The last part is right, too.",
        _poster,
        ("poster-1",),
    ),
)
