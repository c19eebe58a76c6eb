"""CAPE and the other ways to add noise across sites."""

from __future__ import annotations

from dpcape_papers.names.name import LARGER_NOISE, NO_CONSEQUENCE, NO_GUARANTEE, OTHER_MECHANISM, PaperName

TABLES = """\
rng, spread = np.random.default_rng(0), [0.5, 0.3, 0.1, 0.05, 0.05, 0.05]
tables = {name: 0.1 + spread * rng.normal(size=(3000, 6)) for name in ("lyon", "oslo", "lima")}"""

SCHEMES = (
    PaperName(
        "CAPE",
        "dissertation, chapter 3",
        "Cape",
        "../concepts.md",
        TABLES,
        """\
from dpcape import Cape, Federation, Mean, in_process, rows
sites = in_process({name: rows(X, bound=2.0) for name, X in tables.items()})
model = Mean(epsilon=1.0, delta=1e-5).fit(Federation(sites, protocol=Cape(n_colluding=1)))""",
        "dpcape_papers.published.cape.theorem_scale",
        ("dissertation-3.2", "dissertation-3.3", "dissertation-prop-3.1"),
        ("cape-theorem", "cape-no-collusion", "cape-gain", "floating-point"),
        "Theorem 3.1 ignores what colluding sites know of their own noise; noise in floating point has gaps.",
        LARGER_NOISE,
        "1.35 times the published noise at 10 sites without collusion; cancelling noise 100 times larger restores the "
        "gain. The sum over the sites is computed in integers.",
    ),
    PaperName(
        "SecureAgg",
        "dissertation, algorithm 3.1",
        "SecureSum",
        "../secure_sum.md",
        TABLES,
        """\
from dpcape import Federation, Mean, SecureSum, in_process, rows
sites = in_process({name: rows(X, bound=2.0) for name, X in tables.items()})
model = Mean(epsilon=1.0, delta=1e-5).fit(Federation(sites, protocol=SecureSum(n_colluding=1)))""",
        "",
        ("dissertation-table-3.1",),
        ("communication", "floating-point"),
        "The papers use secure aggregation to agree on noise that cancels. SecureSum adds up the results themselves, "
        "so that the aggregator sees only the noisy sum.",
        OTHER_MECHANISM,
        "The noise of Cape, within 0.5%, and the aggregator sees less. Cape agrees on its noise in the papers' way.",
    ),
    PaperName(
        "dealer scheme",
        "capeCCA paper, section 3 and algorithm 1 (noise generator)",
        "Dealer",
        "../concepts.md",
        TABLES,
        """\
from dpcape import Dealer, Federation, Mean, in_process, rows
sites = in_process({name: rows(X, bound=2.0) for name, X in tables.items()})
model = Mean(epsilon=1.0, delta=1e-5).fit(Federation(sites, protocol=Dealer(n_colluding=1)))""",
        "",
        (),
        ("capecca-collusion", "cape-drop-outs-privacy"),
        "Theorem 1 of the capeCCA paper holds for one honest pair of sites only with more noise. The aggregator's own "
        "noise protects nobody from the aggregator.",
        LARGER_NOISE,
        "You say how many sites may collude, and the noise follows; the dealer must be trusted.",
    ),
    PaperName(
        "nomographic functions",
        "dissertation, section 3.3.6",
        "Mean",
        "../analyses/mean.md",
        TABLES,
        """\
from dpcape import Cape, Federation, Mean, in_process, rows
sites = in_process({name: rows(np.log1p(np.abs(X)), ranges=[(0, 1)] * 6) for name, X in tables.items()})
geometric_mean = np.expm1(Mean(epsilon=1.0, delta=1e-5).fit(Federation(sites, protocol=Cape(n_colluding=1))).mean_)""",
        "",
        (),
        ("cape-other-functions", "functional-polynomial"),
        "A function psi(sum of phi(x)) costs what its inner sum costs: apply phi at the sites, with public ranges, and "
        "psi to the released sum.",
        NO_CONSEQUENCE,
        "Post-processing is free. A function that needs several inner sums shares the budget among them.",
    ),
    PaperName(
        "DP-CCA",
        "poster; dissertation, section 7.1",
        "CCA",
        "../analyses/cca.md",
        """\
Z = 0.15 * np.random.default_rng(0).normal(size=(20_000, 6))  # two of the four columns of both views are the same
X, Y = Z[:, :4], Z[:, 2:]""",
        """\
from dpcape import CCA, Federation, Independent, in_process, views
holder = Federation(in_process({"holder": views(X, Y, bounds=[1.0, 1.0])}), protocol=Independent())
model = CCA(2, epsilon=2.0, delta=1e-5, center=False).fit(holder)""",
        "dpcape_papers.published.cca.canonical_directions",
        ("poster-1", "poster-2", "poster-3"),
        ("poster-privacy", "cca-constraint", "gaussian-classical"),
        "The classical formula of the noise is proved only for epsilon below 1.",
        NO_CONSEQUENCE,
        "dpcape's exact calibration needs 0.77 times the noise at (1, 1e-5), and more only from epsilon 8.4.",
    ),
    PaperName(
        "FA release",
        "factor paper (Kundu and Suthaharan)",
        "factor_release.FactorRelease",
        "../factor_release.md",
        "X = np.random.default_rng(0).normal(size=(60, 1)) + np.random.default_rng(1).normal(size=(60, 90))",
        """\
from dpcape.factor_release import FactorRelease
model = FactorRelease(1, n_burn_in=200, n_draws=200, random_state=1).fit(X[:40, 1:], X[:40, 0], X_test=X[40:, 1:])
paths = model.release("out")""",
        "",
        ("factor-2", "factor-3", "factor-4"),
        ("factor-guarantee", "factor-equations-5-9", "factor-equation-10", "factor-equation-12", "factor-theorem-1"),
        "Privacy is not 'fully guaranteed': the release is a function of the records. Some equations are misprinted.",
        NO_GUARANTEE,
        "Nor has FactorRelease: every release comes with a measured risk instead. PrivateFactorModel has a guarantee.",
    ),
)
