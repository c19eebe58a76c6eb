"""Claims about CAPE itself (dissertation, chapter 3; capeCCA paper)."""

from __future__ import annotations

import itertools
import math

import numpy as np

from dpcape.core.privacy.adversary_view import AdversaryView
from dpcape.core.privacy.gaussian import delta_of
from dpcape.core.protocols.zero_sum import zero_sum_view
from dpcape_papers.claims.claim import CONDITIONS, HOLDS, WRONG, Claim, Evidence, number
from dpcape_papers.published.cape import (
    published_split,
    theorem_delta,
    theorem_kappa,
    theorem_scale,
    true_delta,
    true_kappa,
)
from dpcape_papers.published.unequal import draw_system, draw_variances, largest_noise_ratio, noise_ratio, weighted_mu


def _theorem() -> Evidence:
    cases = ((10, 3, 1.0, 1e-9), (10, 3, 1.0, 1e-5), (100, 33, 1.0, 1e-5), (4, 1, 4.0, 1e-5))
    lines, broken = [], 0
    for n_sites, n_colluding, epsilon, delta in cases:
        scale = theorem_scale(epsilon, delta, n_sites=n_sites, n_colluding=n_colluding)
        true = true_delta(epsilon, scale, n_sites=n_sites, n_colluding=n_colluding)
        broken += true > delta
        lines.append(
            f"{n_sites} sites, {n_colluding} colluding: claimed ({epsilon:g}, {delta:g}), true delta {number(true)}"
        )
    kappas = [(s, c, theorem_kappa(s, c), true_kappa(s, c)) for s, c in ((4, 1), (5, 1), (10, 3), (100, 33))]
    closed = all(abs(true - _closed_kappa(s, c)) < 1e-9 for s, c, _, true in kappas)
    lines += [f"kappa for {s} sites, {c} colluding: printed {number(p)}, true {number(t)}" for s, c, p, t in kappas]
    return Evidence(tuple(lines), broken == len(cases) and closed)


def _closed_kappa(n_sites: int, n_colluding: int) -> float:
    honest = n_sites - n_colluding
    return n_sites / honest * (n_sites + honest) / (n_sites + 1)


def _no_collusion() -> Evidence:
    rows = [(s, theorem_kappa(s, 0), true_kappa(s, 0), 2 * s / (s + 1)) for s in (2, 3, 10)]
    lines = tuple(f"{s} sites: printed kappa {number(p)}, true {number(t)}" for s, p, t, _ in rows)
    return Evidence(lines, all(abs(t - c) < 1e-9 for *_, t, c in rows) and all(p < t for s, p, t, _ in rows if s > 2))


def _output_view(n_sites: int, n_known: int) -> float:
    """Return kappa against an adversary who sees the result and colludes with sites that know their own noise."""
    own, _ = published_split(n_sites)
    members = np.zeros((1, n_sites))
    members[0, : n_sites - n_known] = 1.0
    # The result is the mean; the adversary subtracts the noise of colluding sites.
    return float(AdversaryView(shift=members, mixing=members, variances=own**2).exposures()[0] ** 2)


def _output() -> Evidence:
    alone, with_three, aggregator = _output_view(10, 0), _output_view(10, 3), true_kappa(10, 0)
    lines = (
        f"10 sites: kappa against someone who sees only the result is {number(alone)}",
        f"if that adversary colludes with 3 sites: {number(with_three)} (S / S_H = {number(10 / 7)})",
        f"against the aggregator: {number(aggregator)}",
    )
    return Evidence(lines, abs(alone - 1) < 1e-9 and abs(with_three - 10 / 7) < 1e-9 and aggregator > 1.8)


def _gain() -> Evidence:
    lines, holds = [], True
    for n_sites in (3, 10, 100):
        own, _ = published_split(n_sites)
        conventional, cape = n_sites / n_sites**2, float(np.sum(own**2)) / n_sites**2
        lines.append(f"{n_sites} sites: variance ratio {number(conventional / cape)}")
        holds &= abs(conventional / cape - n_sites) < 1e-9
    exposure = math.sqrt(true_kappa(10, 0))
    lines.append(
        f"at equal true (epsilon, delta) and 10 sites the published split needs {number(exposure)} times the noise, "
        f"so the variance ratio is {number(10 / exposure**2)}; with cancelling noise 100 times larger it is "
        f"{number(_gain_of_ratio())}"
    )
    return Evidence(tuple(lines), holds)


def _gain_of_ratio(n_sites: int = 10, ratio: float = 100.0) -> float:
    own = np.ones(n_sites)
    kappa = zero_sum_view(n_sites, range(n_sites), own, own * np.sqrt(n_sites * ratio)).exposures()[0] ** 2
    # Own noise gamma: exposure^2 = kappa / gamma^2, and the mean has variance gamma^2 / S. With independent noise each
    # site needs variance 1, and the mean has 1 / S.
    return float(1 / kappa)


def _unequal() -> Evidence:
    sizes = np.array([100.0, 300.0, 600.0, 1000.0])
    n_sites, total = sizes.size, sizes.sum()
    ratio = noise_ratio(sizes)
    weighted = np.sum((sizes / total) ** 2 * (1 / n_sites) / sizes**2) * total**2
    found = [noise_ratio(split) for split in itertools.product(range(1, 11), repeat=3) if sum(split) == 12]
    bound = largest_noise_ratio(12, 3)
    lines = (
        f"sizes 100, 300, 600, 1000 with equal weights: H = {number(ratio)}, although the sensitivity 1/N satisfies "
        "the proposition's condition",
        f"over all splits of 12 records among 3 sites H ranges from {number(min(found))}, at equal sizes, to "
        f"{number(max(found))} (remark 3: {number(bound)})",
        f"weighted by number of records, as in dpcape: H = {number(weighted)}",
    )
    within = abs(min(found) - 1) < 1e-12 and abs(max(found) - bound) < 1e-12
    return Evidence(lines, ratio > 1 and within and bool(abs(weighted - 1) < 1e-12))


def _tail_formula() -> Evidence:
    below = theorem_delta(1.0, 1.6)
    pairs = [(1.0, 0.25), (1.0, 0.5), (4.0, 1.0)]
    factors = [theorem_delta(e, mu) / delta_of(e, mu) for e, mu in pairs]
    lines = (
        f"epsilon 1, below mu_z = 1.28: 'delta' = {number(below)}",
        "where epsilon exceeds mu_z it is safe, and too large by factors of " + ", ".join(number(f) for f in factors),
    )
    return Evidence(lines, below < 0 and all(f > 1 for f in factors))


def _noise_generator() -> Evidence:
    n_sites = 10
    aggregator, two_honest = true_kappa(n_sites, 0), true_kappa(n_sites, 8)
    generator = n_sites  # against an aggregator who knows every draw, only own noise of variance tau^2 / S protects
    own, shared = published_split(n_sites)
    known = zero_sum_view(n_sites, [0], own, shared).exposures()[0] ** 2
    lines = (
        f"10 sites, against the aggregator: kappa {number(aggregator)}",
        f"against the aggregator and 8 sites (two honest): {number(two_honest)}; the noise is too small by a factor of "
        f"{number(two_honest**0.5)}",
        f"against the noise generator and the aggregator together: {number(known)}",
    )
    supports = abs(aggregator - 20 / 11) < 1e-9 and abs(two_honest - 60 / 11) < 1e-9 and abs(known - generator) < 1e-9
    return Evidence(lines, supports)


def _asymmetric() -> Evidence:
    sizes = np.array([100.0, 300.0, 600.0, 1000.0])
    by_records, pooled = sizes / sizes.sum(), 1 / sizes.sum()
    equal = draw_variances(np.full(4, 0.25), 1 / sizes, pooled)
    mu = weighted_mu(by_records, sizes, 1.0, 0)
    determinant = float(np.linalg.det(draw_system(np.full(2, 0.5))))
    assert mu is not None  # weights by records are feasible
    lines = (
        "sizes 100, 300, 600, 1000, equal weights: sigma^2 = " + ", ".join(number(v) for v in equal),
        f"weights by size are feasible, but mu is {number(mu)} times what tau suggests",
        f"two sites: the matrix of the linear system has determinant {number(determinant)}",
    )
    return Evidence(lines, bool((equal < 0).any() and mu > 1.2 and abs(determinant) < 1e-12))


def _dropped() -> Evidence:
    n_sites, tau = 10, 1.0
    left = n_sites - 1
    full = tau**2 / n_sites**2
    uncorrected = tau**2 / left * (1 - (left - 1) / n_sites)
    corrected_kappa = _closed_dropout_kappa(n_sites, left)
    # The zero-sum noise of the sites that are left cancels; their own noise has variance tau^2 / S each.
    before = [(tau**2 / n) / (tau**2 / n_sites / n) for n in (9, 5, 2)]
    lines = (
        f"10 sites, one lost after the noise was agreed: variance of the mean {number(uncorrected / full)} times "
        "larger",
        "gain over the conventional scheme with 1, 5 and 8 of 10 sites lost before the noise was agreed: "
        + ", ".join(number(value) for value in before),
        "the same, lost afterwards, with 0, 1, 5 and 8 of 10, without correction: "
        + ", ".join(number(1 / (1 - (10 - lost - 1) / 10)) for lost in (0, 1, 5, 8)),
        f"with a correction kappa rises from {number(true_kappa(10, 0))} to {number(corrected_kappa)}: a lost site "
        "costs as much as a colluding one",
    )
    kept = max(abs(value - n_sites) for value in before) < 1e-9
    return Evidence(lines, kept and uncorrected > 2 * full and abs(corrected_kappa - true_kappa(10, 1)) < 1e-9)


def _closed_dropout_kappa(n_sites: int, n_left: int) -> float:
    return n_sites / n_left * (n_sites + n_left) / (n_sites + 1)


def _dropped_message() -> Evidence:
    n_sites = 10
    own, shared = published_split(n_sites)
    draw, noise = np.eye(n_sites, 2 * n_sites), np.eye(n_sites, 2 * n_sites, n_sites)
    present = np.arange(1, n_sites)
    releases = draw[present] - draw.mean(axis=0) + noise[present]
    variances = np.concatenate([shared, own]) ** 2
    shift = np.eye(n_sites)[present]
    uncorrected = AdversaryView(
        shift=np.vstack([shift, np.zeros((1, n_sites))]),
        mixing=np.vstack([releases, draw.sum(axis=0)]),
        variances=variances,
    )
    corrected = AdversaryView(
        shift=np.vstack([shift, np.zeros((2, n_sites))]),
        mixing=np.vstack([releases, draw.sum(axis=0), draw[present].sum(axis=0)]),
        variances=variances,
    )
    before, after = (float(view.exposures()[1] ** 2) for view in (uncorrected, corrected))
    lines = (
        f"10 sites, one lost, no correction published: kappa {number(before)} instead of {number(true_kappa(10, 0))}",
        f"with the sum of the survivors' draws published: {number(after)}",
    )
    return Evidence(lines, before < true_kappa(10, 0) < after)


CLAIMS = (
    Claim(
        "cape-theorem",
        "dissertation, theorem 3.1, eqs. 3.3 and 3.4",
        "CAPE with at most ceil(S/3) - 1 colluding sites is (epsilon, delta)-DP for each site, with the printed mu_z "
        "and sigma_z.",
        WRONG,
        "With S_H honest sites, sigma_z^2 = 2 mu_z = kappa (sensitivity / tau)^2 where kappa = (S/S_H)(S+S_H)/(S+1). "
        "Colluding sites know their own draws, and the printed inverse covariance is right only for S_H = 2(S+1)/3. "
        "dpcape computes mu from everything the adversary sees.",
        _theorem,
        ("dissertation-3.2", "dissertation-3.3"),
    ),
    Claim(
        "cape-no-collusion",
        "dissertation, theorem 3.1 with no colluding site",
        "kappa is (S+2)/(S+1).",
        WRONG,
        "It is 2S/(S+1), which follows from the theorem's own covariance. The printed value is right only for two "
        "sites.",
        _no_collusion,
        ("dissertation-3.3",),
    ),
    Claim(
        "cape-output",
        "dissertation, theorem 3.1 (last sentence of the proof) and lemma 3.1",
        "The result is as private as the sites' messages, with the noise that pooled data would need.",
        CONDITIONS,
        "True against someone who sees only the result. Against someone who also colludes with S_C sites kappa is "
        "S/S_H, and against the aggregator 2S/(S+1).",
        _output,
    ),
    Claim(
        "cape-gain",
        "dissertation, proposition 3.1, repeated in sections 4.2.1, 5.3.1, 7.2.1 and 8.3.2; capeCCA paper, section 3",
        "The variance of the result is S times smaller than in the conventional scheme, whatever the sites' sizes.",
        HOLDS,
        "True if each site's message has the same noise in both schemes. At equal true (epsilon, delta) the published "
        "split gains (S+1)/2. Larger cancelling noise restores S to within one per cent (dpcape's default).",
        _gain,
        ("dissertation-prop-3.1",),
    ),
    Claim(
        "cape-unequal",
        "dissertation, proposition 3.2, lemma 3.2 and remark 3",
        "CAPE has the noise of pooled data, H(n) = 1, if the sensitivity is convex and that of N/S records is S times "
        "that of N; for means 1 <= H(n) <= N^2/S^3 (1/(N-S+1)^2 + S - 1).",
        CONDITIONS,
        "The proposition also needs sites of equal size. Lemma 3.2 and the bounds of remark 3 are right for equal "
        "weights. If sites are weighted by number of records, with equal noise in the weighted totals, unequal sizes "
        "cost nothing.",
        _unequal,
        ("dissertation-prop-3.2",),
    ),
    Claim(
        "cape-tail",
        "dissertation, theorem 3.1, delta = 2 sigma_z / (epsilon - mu_z) phi(.)",
        "This delta holds for every epsilon.",
        CONDITIONS,
        "It needs epsilon > mu_z (otherwise it is negative) and the true sigma_z, and it is loose. dpcape uses the "
        "exact delta of a Gaussian release.",
        _tail_formula,
        ("dissertation-3.3",),
    ),
    Claim(
        "capecca-collusion",
        "capeCCA paper, theorem 1",
        "With a trusted noise generator every site is protected from the aggregator as long as two sites are honest.",
        WRONG,
        "Against the aggregator kappa = 2S/(S+1); with only two honest sites S(S+2)/(2(S+1)); if the generator "
        "colludes with the aggregator, S. The aggregator's own noise F protects nobody from the aggregator.",
        _noise_generator,
    ),
    Claim(
        "cape-asymmetric",
        "dissertation, section 3.3.7",
        "Sites with different sizes and weights get noise from a linear system, with the privacy of theorem 3.1.",
        WRONG,
        "The system gives negative variances for skewed sizes with equal weights, and is singular for two sites. "
        "Matching the variance of a message does not guarantee privacy. dpcape calibrates against everything the "
        "adversary sees, for any sizes; an analysis takes an epsilon and a delta per site.",
        _asymmetric,
        ("dissertation-prop-3.2",),
    ),
    Claim(
        "cape-drop-outs-gain",
        "dissertation, note after proposition 3.1; section 7.2.1 and capeCCA paper, section 3",
        "The gain is the same however many sites drop out (note); the noise falls back to the conventional scheme's "
        "(7.2.1, capeCCA paper).",
        CONDITIONS,
        "The gain is S if the sites are lost before the noise is agreed: the others then agree on noise that cancels "
        "among them. Once noise has been agreed neither statement is true: the remaining noise no longer cancels, and "
        "the gain is S/(1 + lost sites). Correcting for a lost site costs as much privacy as a colluding site. dpcape "
        "sizes noise for the smallest number of sites that may finish.",
        _dropped,
        ("dissertation-prop-3.1",),
    ),
    Claim(
        "cape-drop-outs-privacy",
        "capeCCA paper and dissertation 7.2.1",
        "A site's message remains (epsilon, delta)-DP however many sites drop out.",
        CONDITIONS,
        "It gets no worse as long as nothing is published to correct the result: kappa falls, but not to the value 1 "
        "that the papers assume. A correction is one more value that the adversary sees.",
        _dropped_message,
    ),
)
