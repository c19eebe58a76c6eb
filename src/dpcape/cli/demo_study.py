"""The demonstration: a CAPE study of scikit-learn's handwritten digits at four sites, with a report."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table as TerminalTable

from dpcape.core.arrays import FloatArray
from dpcape.core.errors import DpcapeWarning, UndeterminedWarning
from dpcape.core.noise import NoiseSource, OsNoise, Replay
from dpcape.core.protocols.cape import Cape
from dpcape.core.protocols.exact import Exact
from dpcape.core.protocols.independent import Independent
from dpcape.core.protocols.protocol import Protocol
from dpcape.estimators.pca import PCA
from dpcape.estimators.views.cca import CCA
from dpcape.federation.federation import Federation
from dpcape.guarantee.card import card_of, card_terminal
from dpcape.metrics import captured_ratio
from dpcape.pages.numbers import round_up
from dpcape.postprocessing.verdicts import Verdict
from dpcape.records import rows, views
from dpcape.report.page import Picture, ReportSection, write_page
from dpcape.report.plots import curves, images, scatter, scree
from dpcape.report.release_sections import noise_section
from dpcape.site.in_process import in_process
from dpcape.tables import Table

SITES = ("lima", "lyon", "oslo", "rome")
EPSILONS = (0.3, 1.0, 3.0, 10.0)
EPSILON, DELTA = 1.0, 1e-5
N_COMPONENTS, N_CORRELATIONS = 8, 4
REPEATS = 5
# The data set's documentation says that pixels are 0 to 16, so division by 16 and these bounds are public choices.
BOUND, HALF_BOUND = 4.0, 3.0

WAYS: Mapping[str, tuple[int, Protocol]] = {
    "pooled, private": (1, Independent()),
    "CAPE, 4 sites": (4, Cape(n_colluding=1)),
    "conventional, 4 sites": (4, Independent()),
    "one site alone": (0, Independent()),
}


def run_demo(out: Path, replay: int | None = None) -> None:
    """Run the study and write ``out/report.html``."""
    console = Console()
    pixels = _digits()
    noise: NoiseSource = OsNoise() if replay is None else Replay(replay)
    console.print(
        f"4 sites ({', '.join(SITES)}), {len(pixels)} handwritten digits · protocol CAPE, up to 1 colluding · "
        f"epsilon {EPSILON:g}, delta {DELTA:g}"
    )
    n_runs = 2 * len(EPSILONS) * len(WAYS) * REPEATS
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("running studies", total=n_runs)
        energy = _compare(noise, _pca_score(pixels), lambda: progress.advance(task))
        correlation = _compare(noise, _cca_score(pixels), lambda: progress.advance(task))
    with warnings.catch_warnings():
        # Verdicts are printed below.
        warnings.simplefilter("ignore", UndeterminedWarning)
        pca = _pca(pixels, 4, Cape(n_colluding=1), EPSILON, noise)
        cca = _cca(pixels, 4, Cape(n_colluding=1), EPSILON, noise)
        exact = _pca(pixels, 1, Exact(), EPSILON, noise)
    _print_table(console, f"PCA: energy of {N_COMPONENTS} components", energy)
    _print_table(console, f"CCA: correlation of {N_CORRELATIONS} pairs", correlation)
    console.print(f"CAPE at epsilon {EPSILON:g}: {_said(pca.verdicts_)}; {_said(cca.verdicts_)}.")
    _write_report(out / "report.html", pixels, pca, cca, exact, energy, correlation)
    pca.save(out / "pca.npz")
    (out / "guarantee.json").write_text(pca.guarantee_.to_json() + "\n", encoding="utf-8")
    console.print(card_terminal(card_of(pca.guarantee_, releases=pca.releases_)))
    console.print(f"Report: {out / 'report.html'}", soft_wrap=True)


def _said(verdicts: Sequence[Verdict]) -> str:
    """Return verdicts on numbered quantities in words, those that are alike together."""
    phrases = []
    for word, alike in itertools.groupby(verdicts, lambda verdict: verdict.word):
        names = [verdict.quantity.rpartition(" ") for verdict in alike]
        (noun, _, first), (_, _, last) = names[0], names[-1]
        phrases.append(f"{noun} {first} {word}" if first == last else f"{noun}s {first} to {last} {word}")
    return ", ".join(phrases)


def _digits() -> FloatArray:
    from sklearn.datasets import load_digits

    pixels: FloatArray = load_digits().data / 16.0
    # The file is nearly sorted by writer; interleaving gives each site a similar share.
    return np.concatenate([pixels[start::4] for start in range(4)])


def _split(pixels: FloatArray, n_sites: int) -> dict[str, FloatArray]:
    """Return the records of each site; ``n_sites=0`` means the first of four sites only."""
    blocks = np.array_split(pixels, max(n_sites, 1) if n_sites else 4)
    return dict(zip(SITES, blocks, strict=False)) if n_sites else {SITES[0]: blocks[0]}


def _pca(pixels: FloatArray, n_sites: int, protocol: Protocol, epsilon: float, noise: NoiseSource) -> PCA:
    records = {name: rows(block, bound=BOUND) for name, block in _split(pixels, n_sites).items()}
    federation = Federation(in_process(records, noise=noise), protocol=protocol)
    return PCA(N_COMPONENTS, epsilon=epsilon, delta=DELTA).fit(federation)


def _cca(pixels: FloatArray, n_sites: int, protocol: Protocol, epsilon: float, noise: NoiseSource) -> CCA:
    records = {
        name: views(block[:, :32], block[:, 32:], bounds=(HALF_BOUND, HALF_BOUND))
        for name, block in _split(pixels, n_sites).items()
    }
    federation = Federation(in_process(records, noise=noise), protocol=protocol)
    return CCA(N_CORRELATIONS, epsilon=epsilon, delta=DELTA).fit(federation)


def _clip(block: FloatArray, bound: float) -> FloatArray:
    norms = np.maximum(np.linalg.norm(block, axis=1, keepdims=True), bound)
    clipped: FloatArray = block * (bound / norms)
    return clipped


def _pca_score(pixels: FloatArray) -> Callable[..., float]:
    covariance = np.cov(_clip(pixels, BOUND), rowvar=False, bias=True)
    return lambda *setting: captured_ratio(_pca(pixels, *setting).components_, covariance)


def _cca_score(pixels: FloatArray) -> Callable[..., float]:
    """Return a score: mean correlation of the found directions on the pooled data, over the best possible."""
    top, bottom = (_clip(half, HALF_BOUND) for half in (pixels[:, :32], pixels[:, 32:]))
    best = _true_correlation(_cca(pixels, 1, Exact(), EPSILON, OsNoise()), top, bottom)
    return lambda *setting: _true_correlation(_cca(pixels, *setting), top, bottom) / best


def _true_correlation(model: CCA, top: FloatArray, bottom: FloatArray) -> float:
    x_scores, y_scores = model.transform(top, bottom)
    pairs = zip(x_scores.T, y_scores.T, strict=True)
    return float(np.mean([abs(np.corrcoef(x, y)[0, 1]) for x, y in pairs]))


def _compare(noise: NoiseSource, score: Callable[..., float], step: Callable[[], None]) -> dict[str, list[float]]:
    """Return mean scores over repeated runs, per method and epsilon."""
    result: dict[str, list[float]] = {}
    for way, (n_sites, protocol) in WAYS.items():
        result[way] = []
        for epsilon in EPSILONS:
            scores = []
            for repeat in range(REPEATS):
                # Some methods are meant to fail at some epsilon: the table shows it.
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", DpcapeWarning)
                    scores.append(score(n_sites, protocol, epsilon, noise.child(way, str(epsilon), repeat)))
                step()
            result[way].append(float(np.mean(scores)))
    return result


def _print_table(console: Console, title: str, scores: Mapping[str, list[float]]) -> None:
    table = TerminalTable(title=f"{title}, relative to no privacy (mean of {REPEATS} runs)", title_justify="left")
    table.add_column("")
    for epsilon in EPSILONS:
        table.add_column(f"epsilon {epsilon:g}", justify="right")
    for way, values in scores.items():
        table.add_row(way, *(f"{value:.3f}" for value in values))
    console.print(table)


def _write_report(
    path: Path,
    pixels: FloatArray,
    pca: PCA,
    cca: CCA,
    exact: PCA,
    energy: Mapping[str, list[float]],
    correlation: Mapping[str, list[float]],
) -> None:
    write_page(
        path,
        kind="Demonstration",
        title="Four sites, one analysis, no pooled data",
        lead=(
            "Each of four sites holds a quarter of scikit-learn's 1,797 handwritten digits. Together they compute "
            "principal components and canonical correlations under CAPE, whose noise is large at each site and cancels "
            "in the sum."
        ),
        guarantee=pca.guarantee_,
        data={
            "guarantee": pca.guarantee_.to_dict(),
            "epsilons": list(EPSILONS),
            "captured_energy": dict(energy),
            "canonical_correlation": dict(correlation),
        },
        sections=[
            _benefit_section(energy, correlation),
            ReportSection(
                title=f"Components at epsilon {EPSILON:g}",
                pictures=[
                    Picture(
                        images(np.vstack([exact.components_, pca.components_]), (8, 8)),
                        "Sixteen small images: components without privacy above, with CAPE below",
                        "Above: without privacy. Below: CAPE with 4 sites. Signs are fixed; scales differ.",
                    ),
                    Picture(
                        scree(pca.explained_variance_, pca.noise_norm_).figure,  # type: ignore[arg-type]  # no subfigure
                        "Eigenvalues of the released matrix and the norm of the noise",
                        "Eigenvalues above the dashed line exceed the noise.",
                    ),
                ],
            ),
            _pairs_section(pixels, cca),
        ],
        card=card_of(pca.guarantee_, releases=pca.releases_),
        details=[_who_section(pca), noise_section(pca.releases_)],
    )


def _benefit_section(energy: Mapping[str, list[float]], correlation: Mapping[str, list[float]]) -> ReportSection:
    """Return the section that compares methods at equal guarantees."""
    header = ["", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS)]
    names = ("epsilon (smaller is more private)", "share of the non-private result")
    return ReportSection(
        title="The benefit of cancelling noise",
        text=[
            "At each epsilon, all curves have the same guarantee. Conventionally, each site adds enough noise "
            "to protect itself; under CAPE the sum has little more noise than pooled data would need."
        ],
        pictures=[
            Picture(
                curves(EPSILONS, energy, labels=names).figure,  # type: ignore[arg-type]  # no subfigure
                "Captured energy of eight principal components against epsilon, for four methods",
                "PCA: energy captured by 8 components, relative to PCA without privacy.",
            ),
            Picture(
                curves(EPSILONS, correlation, labels=names).figure,  # type: ignore[arg-type]  # no subfigure
                "Canonical correlation of the top and bottom halves against epsilon, for four methods",
                "CCA of top and bottom halves: mean correlation of 4 pairs, relative to CCA without privacy.",
            ),
        ],
        tables=[
            Table(header, [[way, *(f"{v:.3f}" for v in values)] for way, values in scores.items()], title)
            for title, scores in (("PCA", energy), ("CCA", correlation))
        ],
    )


def _pairs_section(pixels: FloatArray, cca: CCA) -> ReportSection:
    """Return the section with scores of the first pair; the digits are public, so scores may be shown."""
    top, bottom = (_clip(half, HALF_BOUND) for half in (pixels[:, :32], pixels[:, 32:]))
    x_scores, y_scores = cca.transform(top, bottom)
    axes = scatter(x_scores[:, 0], y_scores[:, 0], labels=("top halves, first pair", "bottom halves, first pair"))
    correlations = ", ".join(f"{value:.2f}" for value in cca.correlations_)
    return ReportSection(
        title=f"Top and bottom halves at epsilon {EPSILON:g}",
        text=[
            f"The canonical correlations of the CAPE study are {correlations}. The plot shows scores of public data; "
            "scores of private records would not be released."
        ],
        pictures=[
            Picture(
                axes.figure,  # type: ignore[arg-type]  # no subfigure
                "Scores of the top halves against scores of the bottom halves, for the first pair of directions",
                "One point per digit.",
            )
        ],
    )


def _who_section(pca: PCA) -> ReportSection:
    guarded = pca.guarantee_.sites.items()
    rows = [[name, str(site.n_records), round_up(site.epsilon), round_up(site.mu, 5)] for name, site in guarded]
    return ReportSection(
        title="Who took part",
        text=[
            "Each of the two studies, PCA and CCA, has the guarantee on the card; a site that runs both spends both. "
            "The comparison runs use the same data again; in a real study each would be charged."
        ],
        tables=[Table(["site", "records", "epsilon", "mu"], rows)],
    )
