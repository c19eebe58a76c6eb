"""The papers' algorithms across sites."""

from __future__ import annotations

from dpcape_papers.names.name import LARGER_NOISE, NO_CONSEQUENCE, NO_GUARANTEE, PaperName
from dpcape_papers.names.schemes import TABLES

_PAIRS = """\
rng = np.random.default_rng(0)  # two of the four columns of both views are the same
shared = {name: 0.15 * rng.normal(size=(6000, 6)) for name in ("lyon", "oslo", "lima")}
pairs = {name: (Z[:, :4], Z[:, 2:]) for name, Z in shared.items()}"""
_SERIES = """\
from dpcape.datasets import simulated_fmri

study = simulated_fmri(np.random.default_rng(0), n_subjects=60, n_components=2, shape=(6, 6), n_timepoints=150)
people = {name: study.arrays[k::3] for k, name in enumerate(("lyon", "oslo", "lima"))}"""
_FEDERATION = """\
from dpcape import Cape, Federation, JointICA, in_process, subjects
sites = in_process({name: subjects(X, bound=4.0, unit="record") for name, X in people.items()})"""
_WORDS = """\
rng, topics = np.random.default_rng(0), np.array([[0.3, 0.3, 0.2, 0.1, 0.1, 0.0], [0.0, 0.1, 0.1, 0.2, 0.3, 0.3]])
words = {name: rng.multinomial(9, topics[rng.integers(2, size=4000)]) for name in ("lyon", "oslo", "lima")}"""
_ROWS = "np.random.default_rng(k).laplace(size=(300, 6))"

ALGORITHMS = (
    PaperName(
        "capePCA",
        "dissertation, algorithm 4.1",
        "PCA",
        "../analyses/pca.md",
        TABLES,
        """\
from dpcape import PCA, Cape, Federation, in_process, rows
sites = in_process({name: rows(X, bound=1.0) for name, X in tables.items()})
model = PCA(2, epsilon=1.0, delta=1e-5, center=False).fit(Federation(sites, protocol=Cape(n_colluding=1)))""",
        "dpcape_papers.published.pca.cape_moment",
        ("dissertation-4.1",),
        ("second-moment", "reused-theorem", "preparation", "pca-bounds"),
        "One person changes the moment by sqrt(2)/N, not 1/N; the mean and the largest norm are released too.",
        LARGER_NOISE,
        "sqrt(2) times the noise for the moment, beside that of CAPE. Give a public bound; centring is paid for.",
    ),
    PaperName(
        "DPdisPCA",
        "dissertation, section 4.3 (a baseline)",
        "PCA",
        "../analyses/pca.md",
        TABLES,
        """\
from dpcape import PCA, Federation, Independent, in_process, rows
sites = in_process({name: rows(X, bound=1.0) for name, X in tables.items()})
model = PCA(2, epsilon=1.0, delta=1e-5, center=False).fit(Federation(sites, protocol=Independent()))""",
        "dpcape_papers.published.pca.dpdis_pca",
        ("dissertation-4.1",),
        ("second-moment", "preparation"),
        "The sensitivity, as in capePCA. The baseline averages noisy subspaces; PCA with Independent() averages the "
        "noisy moments, which loses less.",
        LARGER_NOISE,
        "The same protocol without cancelling noise; Cape needs less.",
    ),
    PaperName(
        "capeAGN",
        "dissertation, algorithm 5.1 (capeAGN; capeOTD in the authors' programs)",
        "TopicModel, MixtureModel",
        "../analyses/topics_and_mixtures.md",
        _WORDS,
        """\
from dpcape import Cape, Federation, TopicModel, documents, in_process
sites = in_process({name: documents(counts) for name, counts in words.items()})
model = TopicModel(2, epsilon=5.0, delta=1e-5).fit(Federation(sites, protocol=Cape(n_colluding=1)))""",
        "dpcape_papers.published.tensor.agn",
        ("dissertation-5.1", "dissertation-5.2", "dissertation-5.3"),
        ("topic-moments", "mixture-second-moment", "mixture-third-moment", "tensor-theorem", "preparation"),
        "Topics: symmetric noise on moments that are not symmetric releases their differences without noise. Mixtures: "
        "the sensitivity of M2 and the composition of both moments; the noise variance is taken from the records.",
        NO_GUARANTEE,
        "TopicModel and MixtureModel release symmetric moments with noise for both together; MixtureModel takes the "
        "noise variance from you.",
    ),
    PaperName(
        "capeCCA",
        "capeCCA paper, algorithm 1; dissertation, algorithm 7.1",
        "CCA",
        "../analyses/cca.md",
        _PAIRS,
        """\
from dpcape import CCA, Cape, Federation, in_process, views
sites = in_process({name: views(X, Y, bounds=[1.0, 1.0]) for name, (X, Y) in pairs.items()})
model = CCA(2, epsilon=1.0, delta=1e-5, center=False).fit(Federation(sites, protocol=Cape(n_colluding=1)))""",
        "dpcape_papers.published.cca.canonical_directions",
        ("capecca-2", "capecca-3", "dissertation-7.1", "dissertation-7.2"),
        ("second-moment", "capecca-collusion", "replicated-records", "preparation", "cca-constraint"),
        "One person changes the joint moment by sqrt(2)/N, not 1/N; copies of a record are not people; the constraint "
        "U'Cxy V = I cannot be met.",
        LARGER_NOISE,
        "sqrt(2) times the noise for the moment, beside that of CAPE; copying records p times does not reduce it.",
    ),
    PaperName(
        "capeDJICA",
        "dissertation, algorithm 6.1",
        "JointICA",
        "../analyses/joint_ica.md",
        _SERIES,
        f"""\
{_FEDERATION}
model = JointICA(2, epsilon=5.0, delta=1e-5, solver="infomax").fit(Federation(sites, protocol=Cape(n_colluding=1)))""",
        "dpcape_papers.published.ica.clipped_infomax",
        tuple(f"dissertation-6.{number}" for number in range(1, 7)),
        ("ica-unit", "ica-moments-accountant", "ica-gradient", "ica-basic-composition", "ica-renyi", "ica-convergence"),
        "The guarantee is for one time point, not for a person; the moments accountant is wrong, its epsilon up to 40 "
        "times too small. Algorithm 6.1 as printed adds no noise to the gradient.",
        NO_GUARANTEE,
        "unit='subject' protects people, and needs far more noise; solver='moment' needs one release instead of one "
        "per round.",
    ),
    PaperName(
        "djICA",
        "DP-djICA paper, section 2 (not private)",
        "JointICA",
        "../analyses/joint_ica.md",
        f"whitened = [{_ROWS} for k in range(3)]",
        """\
from dpcape_papers.published.ica import djica
unmixing = djica(whitened, n_iter=50)
sources = [X @ unmixing.T for X in whitened]""",
        "dpcape_papers.published.ica.djica",
        ("djica-1", "djica-2", "dissertation-6.2"),
        (),
        "Nothing: it makes no claim of privacy. It is the yardstick of DP-djICA and capeDJICA.",
        NO_CONSEQUENCE,
        "For private sources use JointICA.",
    ),
    PaperName(
        "DP-djICA",
        "DP-djICA paper, algorithms 1 to 3",
        "JointICA",
        "../analyses/joint_ica.md",
        _SERIES,
        f"""\
{_FEDERATION}
model = JointICA(2, epsilon=5.0, delta=1e-5).fit(Federation(sites, protocol=Cape(n_colluding=1)))""",
        "dpcape_papers.published.ica.dp_djica",
        ("djica-1", "djica-2"),
        ("wishart", "djica-laplace", "ica-unit"),
        "Wishart noise with d + 1 degrees of freedom is not (epsilon, 0)-DP: delta is 1 - exp(-epsilon / (4 D)) for "
        "the paper's rows, and its authors retracted the result. The guarantee is for one time point.",
        NO_GUARANTEE,
        "JointICA has no Wishart noise and no noise per sample; its guarantee is (epsilon, delta).",
    ),
    PaperName(
        "capeFM",
        "dissertation, chapter 8",
        "LinearRegression, LogisticRegression, PolynomialLoss",
        "../analyses/regression.md",
        TABLES,
        """\
from dpcape import Cape, Federation, LinearRegression, in_process, labelled
sites = in_process({name: labelled(X[:, 1:], X[:, 0], bound=1.0, response=(-1, 1)) for name, X in tables.items()})
"""
        "federation = Federation(sites, protocol=Cape(n_colluding=1))\n"
        'model = LinearRegression(epsilon=1.0, delta=1e-5, purpose="prediction", n_iter=0).fit(federation)',
        "dpcape_papers.published.regression.capefm",
        ("dissertation-8.1", "dissertation-8.2", "dissertation-8.3"),
        ("functional-joint", "functional-degrees", "functional-laplace", "functional-polynomial"),
        "Theorem 8.1 gives every degree of the polynomial the whole budget.",
        LARGER_NOISE,
        "The degrees share the budget: one joint release with its own sensitivity. purpose='inference' also gives "
        "intervals.",
    ),
)
