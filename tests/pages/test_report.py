"""Reports of every kind of run: what is on them, that they stand alone, and that everybody can read them."""

from __future__ import annotations

import csv
import itertools
import json
import re
import warnings
from dataclasses import fields, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import chi2
from tests.study.texts import audited

from dpcape import PCA, Correlation, Federation, Independent, in_process, rows
from dpcape.analyses.registry import analyses
from dpcape.charts import Forest, Weights, drawable, drawn_caption
from dpcape.cli import main
from dpcape.core.errors import DpcapeWarning, UtilityWarning
from dpcape.core.noise import Replay
from dpcape.estimators.linear.regression_base import Regression
from dpcape.estimators.site_adjusted import SiteAdjusted
from dpcape.pages.style import environment, stylesheet
from dpcape.pages.svg import svg_of
from dpcape.report import citations
from dpcape.report.coefficient_plots import coefficient_plot
from dpcape.report.component_plots import loadings, top_words
from dpcape.report.drawing import picture_of
from dpcape.report.map_plots import plot_slices
from dpcape.report.page import Picture, ReportSection, write_page
from dpcape.report.plots import WAYS, curves
from dpcape.report.release_plots import signal_bars
from dpcape.report.release_sections import noise_length, noise_section
from dpcape.results import Row
from dpcape.runs.folder import RunFolder
from dpcape.runs.in_process import run_in_process
from dpcape.statistics.moments import second_moment
from dpcape.study.study import Study
from dpcape.tables import Table
from dpcape_papers.experiments.curves import COLOURS as SCHEMES

from .html_reader import Node, data_of, read_html

ROOT = Path(__file__).parents[2]
HEAD = """\
[study]
name = "first"
analysis = "{analysis}"
epsilon = {epsilon}
delta = 1e-5
{parameters}
[protocol]
kind = "{protocol}"
[sites.lima]
records = 700
[sites.lyon]
records = 800
[sites.oslo]
records = 900
[data]
{data}
"""
ROWS = 'kind = "rows"\nbound = 1.0\ncolumns = ["age", "dose", "time", "score", "<b>left</b>", "right"]'
VIEWS = 'kind = "views"\nbounds = [1.0, 2.0]\n[data.x]\ncolumns = ["a", "b", "c"]\n[data.y]\ncolumns = ["p", "q"]'
SEVERAL = (
    'kind = "views"\nviews = ["x", "y", "z"]\nbounds = [1.0, 2.0, 1.0]\n[data.x]\ncolumns = ["a", "b", "c"]\n'
    '[data.y]\ncolumns = ["p", "q"]\n[data.z]\ncolumns = ["u", "<b>v</b>"]'
)
RESPONSE = 'kind = "labelled"\nfeatures = 5\nbound = 1.0\ntarget = "y"\nresponse = [0, 10]'
CLASSES = 'kind = "labelled"\nfeatures = 5\nbound = 1.0\ntarget = "y"\nclasses = ["a", "b"]'
THREE = 'kind = "labelled"\nfeatures = 5\nbound = 1.0\ntarget = "y"\nclasses = ["a", "b", "c"]'
DOCUMENTS = 'kind = "documents"\nfeatures = 20'
VOXELS = 'kind = "rows"\nbound = 1.0\nfeatures = 80'
SERIES = 'kind = "subjects"\nfeatures = 6\nbound = 1.0\nunit = "record"'
TABLE = (
    'kind = "table"\n[data.columns]\nage = { range = [18, 90] }\n"<b>left</b>" = { levels = ["no", "yes"] }\n'
    'seen = { range = ["2020-01-01", "2024-12-31"] }\narm = { levels = ["new", "old"] }'
)

COHORT = (
    'kind = "table"\n[data.columns]\nweight = { range = [40, 120] }\nheight = { range = [140, 210] }\n'
    'arm = { levels = ["new", "old"] }\nscanner = { levels = ["a", "b"] }\n'
    'survival = { time = "days", event = "died", range = [0, 2000] }'
)

# label -> (analysis, parameters, data, sections the page must have, pictures besides the card's two)
KINDS: dict[str, tuple[str, str, str, tuple[str, ...], int]] = {
    "summary": ("summary", 'by = ["arm"]', TABLE, ("Table 1",), 1),
    "contrast": (
        "group_contrast",
        'contrast = "arm"\noutcomes = ["weight"]\ncovariates = ["height"]',
        COHORT,
        ("Adjusted differences",),
        2,
    ),
    "many": ("mass_univariate", 'contrast = "arm"\nsite = "scanner"', COHORT, ("Adjusted differences",), 2),
    "curves": ("kaplan_meier", 'by = ["arm"]', COHORT, ("Survival", "Log-rank test"), 2),
    "compared": ("log_rank", 'by = ["arm"]', COHORT, ("Log-rank test",), 1),
    "ratios": ("cox", 'columns = ["weight", "arm"]', COHORT, ("Hazard ratios",), 3),
    "harmonised": ("harmonise", 'site = "scanner"', COHORT, ("Sites",), 2),
    "heterogeneous": (
        "heterogeneity",
        'site = "scanner"\ncolumns = ["weight"]',
        COHORT,
        ("Differences between sites",),
        2,
    ),
    "mean": ("mean", "", ROWS, ("Means",), 2),
    "pca": ("pca", "n_components = 3", ROWS, ("Strength of the components", "Components"), 3),
    "wide": (
        "pca",
        'n_components = 2\nbasis = ["cosines", [4, 5, 4], [2, 2, 2]]\nmaps = true',
        VOXELS,
        ("Strength of the components", "Components"),
        3,
    ),
    "adjusted": (
        "pca",
        'n_components = 3\nadjust = "site"',
        ROWS,
        ("Strength of the components", "Components"),
        3,
    ),
    "correlation": ("correlation", "", ROWS, ("Correlations",), 2),
    "related": ("correlation", 'columns = ["weight", "height", "arm"]', COHORT, ("Correlations",), 2),
    "cca": (
        "cca",
        "n_components = 2",
        VIEWS,
        ("Canonical correlations", "Directions in the first view", "Directions in the second view"),
        4,
    ),
    "wide_cca": (
        "cca",
        'n_components = 1\nbasis = [["cosines", [4, 5, 4], [2, 2, 2]], []]\nmaps = true',
        'kind = "views"\nbounds = [1.0, 2.0]\n[data.x]\nfeatures = 80\n[data.y]\ncolumns = ["p", "q"]',
        ("Canonical correlations", "Loadings of the first view", "Directions in the second view"),
        4,
    ),
    "pls": (
        "pls",
        "n_components = 2",
        VIEWS,
        ("Covariances of the scores", "Directions in the first view", "Directions in the second view"),
        4,
    ),
    "multi_cca": (
        "multi_cca",
        "n_components = 2",
        SEVERAL,
        ("Correlations of the views", "Directions in the views"),
        5,
    ),
    "kmeans": ("kmeans", "n_clusters = 3\nn_iter = 3", ROWS, ("Sizes of the clusters", "Centres of the clusters"), 3),
    "linear": ("linear_regression", "", RESPONSE, ("Coefficients",), 2),
    "logistic": ("logistic_regression", "", CLASSES, ("Coefficients",), 3),
    "classes": ("generalized_linear_model", 'family = "multinomial"', THREE, ("Coefficients",), 3),
    "model": ("generalized_linear_model", 'family = "poisson"', RESPONSE, ("Coefficients",), 3),
    "polynomial": ("polynomial_loss", 'loss = "poisson"', RESPONSE, ("Coefficients",), 2),
    "network": (
        "network_classifier",
        "n_hidden = 4\nn_iter = 4",
        THREE,
        ("Weights of the hidden units", "Learning curve"),
        3,
    ),
    "topics": ("topic_model", "n_components = 3", DOCUMENTS, ("Topics", "Strength of the components"), 4),
    "mixture": (
        "mixture_model",
        "n_components = 2\nnoise_variance = 0.002",
        ROWS,
        ("Means of the components", "Strength of the components"),
        4,
    ),
    "wide_ica": (
        "joint_ica",
        'n_components = 2\nbasis = ["cosines", [4, 5, 4], [2, 2, 2]]\nmaps = true',
        'kind = "subjects"\nfeatures = 80\nbound = 1.0\nunit = "record"',
        ("Maps of the sources",),
        2,
    ),
    "ica": ("joint_ica", "n_components = 3", SERIES, ("Maps of the sources",), 2),
    "infomax": (
        "joint_ica",
        'n_components = 3\nsolver = "infomax"\nn_iter = 4',
        SERIES,
        ("Maps of the sources", "Learning curve"),
        3,
    ),
}
# An analysis that is not in the list is tried as it is audited: its result says what the page must have.
TRIED = {entry[0] for entry in KINDS.values()}
AS_AUDITED = {name: audited(name) for name, entry in analyses().items() if name not in TRIED and entry.audit}
ALWAYS = ("Who took part", "Noise of the releases", "Warnings", "How to cite", "Contents of the result file")


def study_of(label: str, folder: Path, *, epsilon: float = 2.0, protocol: str = 'cape"\nn_colluding = "1') -> Study:
    analysis, parameters, data, *_ = KINDS.get(label) or (label, *AS_AUDITED[label])
    text = HEAD.format(analysis=analysis, parameters=parameters, data=data, epsilon=epsilon, protocol=protocol)
    return Study.parse(text.replace('n_colluding = "1"', "n_colluding = 1"), path=folder / "study.toml")


def rehearsed(label: str, folder: Path, **options: Any) -> RunFolder:
    noise = options.pop("noise", None)
    with warnings.catch_warnings():
        # How useful made-up records are is not the question here.
        warnings.simplefilter("ignore", DpcapeWarning)
        return run_in_process(study_of(label, folder, **options), folder / "run", rehearse=True, noise=noise)


@pytest.fixture(autouse=True)
def no_figures_of_others() -> None:
    """Open figures are counted below; those of other tests of the same process are not meant."""
    plt.close("all")


def page_of(run: RunFolder) -> Node:
    return read_html((run.path / "report.html").read_text(encoding="utf-8"))


def headings(page: Node) -> list[tuple[int, str]]:
    return [(int(node.name[1]), node.text) for node in page.all("h1", "h2", "h3", "h4", "h5", "h6")]


def check_everybody_can_read(page: Node) -> None:
    """Check landmarks, headings, tables, pictures, identifiers and links."""
    assert page.one("html").attributes["lang"] == "en"
    for landmark in ("header", "main", "footer", "h1"):
        page.one(landmark)
    assert page.one("head").one("title").text == page.one("h1").text
    levels = [level for level, _ in headings(page)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert all(text for _, text in headings(page))
    first = next(node for node in page.one("body").content if isinstance(node, Node))
    assert (first.name, first.attributes["href"]) == ("a", "#content")
    known = [node.attributes["id"] for node in page.walk() if "id" in node.attributes]
    assert len(set(known)) == len(known)
    for node in page.walk():
        for attribute in ("href", "xlink:href", "aria-labelledby"):
            value = node.attributes.get(attribute, "")
            if value.startswith("#") or (value and attribute == "aria-labelledby"):
                assert value.lstrip("#") in known
        for value in re.findall(r"url\(#([^)]*)\)", " ".join(node.attributes.values())):
            assert value in known
    for table in page.all("table"):
        assert all(node.attributes.get("scope") in ("row", "col") for node in table.all("th"))
        assert all(len([node for node in row.content if isinstance(node, Node)]) for row in table.all("tr"))
        widths = {len(row.all("th", "td")) for row in table.all("tr")}
        assert len(widths) == 1
    for picture in page.all("svg"):
        assert picture.attributes["role"] == "img"
        titles = picture.all("title")
        assert titles[0].text == " ".join(picture.attributes["aria-label"].split())
        assert len(titles[0].text) > 20


def check_stands_alone(text: str) -> None:
    """Check that nothing is asked of a network, and that a browser is told not to."""
    assert "Content-Security-Policy" in text
    assert "default-src 'none'" in text
    for address in re.findall(r"https?://[^\s\"'<)]+", text):
        assert address.startswith("http://www.w3.org/"), address
    assert "@import" not in text
    page = read_html(text)
    assert not page.all("link", "iframe", "object", "embed", "img")
    # Attributes as parsed, not text searched: base64 of a picture may well read "on...=".
    assert not [name for node in page.walk() for name in node.attributes if name.startswith("on")]
    assert re.findall(r"<script[^>]*>", text) == ['<script type="application/json" id="dpcape-data">']


def check_files_people_open(run: RunFolder) -> None:
    """Check that figures, their JSON and the paragraph on methods are there and agree."""
    with (run.path / "results.csv").open(encoding="utf-8", newline="") as file:
        written = list(csv.DictReader(file))
    content = json.loads((run.path / "results.json").read_text(encoding="utf-8"))
    assert written
    assert len(written) == len(content["results"])
    assert {tuple(row) for row in written} == {tuple(entry.name for entry in fields(Row))}
    for row, entry in zip(written, content["results"], strict=True):
        assert row["quantity"] == entry["quantity"]
        if isinstance(entry["estimate"], float):
            assert float(row["estimate"]) == pytest.approx(entry["estimate"], rel=1e-9)
        if isinstance(entry["low"], float) and isinstance(entry["high"], float):
            assert entry["low"] <= entry["high"]
    model = run.model()
    assert model.to_csv() == (run.path / "results.csv").read_text(encoding="utf-8")
    assert all(row["estimand"] for row in written)
    assert content["assumptions"] == list(model.result().assumptions)
    assert content["guarantee"] == model.guarantee_.sentence()
    methods = (run.path / "methods.md").read_text(encoding="utf-8")
    n_records = sum(site.n_records for site in model.guarantee_.sites.values())
    where = f"{n_records:,} records of 3 sites (lima, lyon, oslo)"
    for words in (model.guarantee_.sentence(), where, citations.software()):
        assert words in methods
    assert content["methods"] in methods
    check_what_figures_rest_on(run, content, methods)


def check_what_figures_rest_on(run: RunFolder, content: dict[str, Any], methods: str) -> None:
    """Check that the console, the results, the report and the methods print what the figures rest on."""
    model = run.model()
    rests_on = list(model.result().assumptions)
    assert set(model.assumptions_) <= set(rests_on)
    assert content["assumptions"] == rests_on
    printed = CliRunner().invoke(main, ["report", str(run.path)])
    assert printed.exit_code == 0, printed.output
    page = page_of(run).text
    for text in rests_on:
        assert text in methods
        assert text in printed.output
        assert f"Assumed: {text}." in page
    # Those with a mean to subtract, or with intervals that assume something, say so.
    says = isinstance(model, SiteAdjusted | Regression) and not isinstance(model, Correlation)
    assert bool(model.assumptions_) is (says and getattr(model, "purpose", "") != "prediction")


@pytest.mark.parametrize("label", sorted([*KINDS, *AS_AUDITED]))
def test_every_kind_has_its_page(label: str, tmp_path: Path) -> None:
    run = rehearsed(label, tmp_path)
    written = (run.path / "report.html").read_text(encoding="utf-8")
    page = read_html(written)
    check_everybody_can_read(page)
    check_stands_alone(written)
    found = [text for level, text in headings(page) if level == 2]
    model = run.model()
    result = model.result()
    analysis = KINDS[label][0] if label in KINDS else label
    sections = KINDS[label][3] if label in KINDS else [section.title for section in result.sections]
    assert {*sections, *ALWAYS} <= set(found)
    n_drawn = sum(len(section.charts) for section in result.sections)
    assert len(page.all("svg")) >= 2 + n_drawn
    if label in KINDS:
        assert len(page.all("svg")) == 2 + KINDS[label][4]
    data = data_of(page)
    assert data["guarantee"] == json.loads(model.guarantee_.to_json())
    assert data["analysis"] == analysis.replace("_", "-")
    assert data["participants"].keys() == {"lima", "lyon", "oslo"}
    assert len(data["releases"]) == len(model.releases_)
    assert data["result"].keys() == {name for name in model._fitted if hasattr(model, name)}
    assert not plt.get_fignums()
    check_files_people_open(run)
    # Rebuilt from the folder, by the command, byte for byte.
    (run.path / "report.html").unlink()
    assert CliRunner().invoke(main, ["report", str(run.path)], catch_exceptions=False).exit_code == 0
    assert (run.path / "report.html").read_text(encoding="utf-8") == written


def test_the_page_of_a_prediction_has_coefficients_without_intervals(tmp_path: Path) -> None:
    parameters, protocol = 'purpose = "prediction"', 'cape"\nn_colluding = 1 # "'
    text = HEAD.format(
        analysis="linear_regression", parameters=parameters, data=RESPONSE, epsilon=2.0, protocol=protocol
    )
    study = Study.parse(text, path=tmp_path / "study.toml")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DpcapeWarning)
        page = page_of(run_in_process(study, tmp_path / "run", rehearse=True))
    table = next(node for node in page.all("table") if "coefficient" in node.text)
    assert "interval" not in table.text
    assert "intercept" in table.text


def test_every_analysis_is_tried_here() -> None:
    # A module is code of one's own, which no study here can name.
    assert set(analyses()) - {"torch_classifier"} == TRIED | set(AS_AUDITED)


def test_a_page_says_who_when_and_what(tmp_path: Path) -> None:
    run = rehearsed("pca", tmp_path)
    page = page_of(run)
    head = page.one("header").text
    year = run.events()[0]["time"][:4]
    said = ("first: PCA", "2,400 records of 3 sites", "lima, lyon, oslo", "CAPE, up to 1 colluding")
    for words in (*said, "epsilon 2, delta 0.00001", year):
        assert words in head
    assert run.study().digest()[:16] in head
    assert "REHEARSAL ON SYNTHETIC RECORDS" in page.one("main").text
    assert "<b>left</b>" in page.text
    card = next(node for node in page.all("section") if "dpcape-card" in node.attributes.get("class", ""))
    assert "Verified" in card.text
    assert "centred moments" in card.text
    quotes = [node.text for node in page.all("blockquote")]
    assert run.model().guarantee_.sentence() in quotes
    assert citations.software() in quotes
    assert citations.CAPE_PAPER in quotes


def test_warnings_are_kept_shown_and_issued(tmp_path: Path) -> None:
    study = study_of("mixture", tmp_path, epsilon=0.01)
    with pytest.warns(UtilityWarning) as issued:
        run = run_in_process(study, tmp_path / "run", rehearse=True)
    kept = run.model().warnings_
    assert kept == [str(entry.message) for entry in issued if issubclass(entry.category, DpcapeWarning)]
    page = page_of(run)
    (section,) = (node for node in page.all("section") if node.attributes.get("class") == "warning")
    assert section.one("h2").text == "Warnings"
    for text in kept:
        assert " ".join(text.split()) in section.text
    assert data_of(page)["warnings"] == kept
    # Valid records are counted, so that nothing is uncertain.
    calm = rehearsed("kmeans", tmp_path / "calm", epsilon=20.0)
    assert calm.model().warnings_ == []
    assert "There were no warnings during the run." in page_of(calm).text


def test_warnings_that_are_errors_leave_no_guarantee(tmp_path: Path) -> None:
    study = study_of("mixture", tmp_path, epsilon=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DpcapeWarning)
        with pytest.raises(UtilityWarning):
            run_in_process(study, tmp_path / "run", rehearse=True)
    assert not (tmp_path / "run" / "model.npz").exists()


def test_pages_of_what_protects_nobody_say_so_first(tmp_path: Path) -> None:
    exact = page_of(rehearsed("pca", tmp_path / "exact", protocol="exact"))
    assert "No bound on what is revealed" in exact.text
    assert "No noise was added" in exact.text
    assert "no bound" in exact.one("header").text
    assert "colluding" not in exact.one("header").text
    replayed = page_of(rehearsed("pca", tmp_path / "replayed", noise=Replay(1)))
    assert "replayable: no protection" in replayed.one("header").text
    assert "No protection; with fresh noise it would be" in replayed.text


def test_no_share_of_signal_is_stated() -> None:
    """A long release is no finding: the mean of ones is long whatever the coefficients are."""
    for releases in (rehearsed_releases(epsilon=50.0), rehearsed_releases(epsilon=0.02)):
        assert "%" not in " ".join(noise_section(releases).text)
        assert noise_length(releases[0]) == pytest.approx(releases[0].scale * np.sqrt(releases[0].size - 1))
    plt.close("all")


def rehearsed_releases(epsilon: float) -> list[Any]:
    generator = np.random.default_rng(4)
    records = {"lyon": rows(generator.normal(size=(500, 4)) * 0.4, bound=1.0)}
    federation = Federation(in_process(records, noise=Replay(2)), protocol=Independent())
    return PCA(2, epsilon=epsilon, delta=1e-5, center=False).fit(federation).releases_


def test_the_length_of_noise_is_what_noise_has() -> None:
    """Release zeros: the squared length over its expectation is chi-square; alpha = 1e-6, and 10 % are caught."""
    federation = Federation(
        in_process({"lyon": rows(np.zeros((50, 140)), bound=1.0)}, noise=Replay(6)), protocol=Independent()
    )
    allowance = federation.allow(1.0, 1e-5)
    allowance.mean(second_moment(federation.facts))
    release = allowance.releases[0]
    # One number more leaves: that of the valid records, which is not part of the length.
    n_entries = release.size - 1
    assert n_entries == 9870
    assert release.length is not None
    low, high = chi2.ppf([5e-7, 1 - 5e-7], n_entries) / n_entries
    ratio = (release.length / noise_length(release)) ** 2
    assert low < ratio < high
    assert not low < ratio * 0.81 < high
    assert not low < ratio * 1.21 < high


def test_maps_are_drawn_on_a_mask() -> None:
    inside = np.zeros((5, 6, 4), dtype=bool)
    inside[1:4, 1:5, 1:3] = True
    generator = np.random.default_rng(7)
    mixing = generator.normal(size=(int(inside.sum()), 7))

    chart = Weights(values=mixing.T, names=[str(at) for at in range(24)], row="source", may_be_image=True)
    assert "Slices of the mask" in picture_of(chart, inside).alt
    assert "Heat map" in picture_of(chart, np.ones((2, 2, 2), dtype=bool)).alt
    assert "Images of 7 sources" in picture_of(chart, shape=(4, 6)).alt
    assert "Slices" in picture_of(chart, shape=(2, 3, 4)).alt
    # Where columns are pixels by the analysis itself, no study needs to say so; others are never taken for images.
    assert "Slices" in picture_of(replace(chart, inside=inside, may_be_image=False)).alt
    assert "Heat map" in picture_of(replace(chart, may_be_image=False), inside).alt
    image = plot_slices(mixing, inside).get_images()[0].get_array()
    assert image is not None
    # Seven sources in rows of five slices, each 5 wide and 6 high; every drawn slice holds its map's largest value.
    assert image.shape == (12, 25)
    tiles = [
        np.ma.filled(image, np.nan)[row : row + 6, column : column + 5] for row in (0, 6) for column in range(0, 25, 5)
    ]
    assert [bool(np.nanmax(np.abs(tile)) == 1.0) for tile in tiles[:7]] == [True] * 7
    plt.close("all")


def test_pages_of_others_still_work(tmp_path: Path) -> None:
    figure = plt.subplots()[0]
    other = plt.subplots()[0]
    table = Table(["name", "value", "note"], [["a", "1.5", "x"], ["b", "-2e-3", "y"]], "numbers")
    assert table.numeric == [False, True, False]
    assert Table(["only"], []).numeric == [False]
    write_page(
        tmp_path / "deep" / "page.html",
        title="A & B",
        lead="Nothing <here>.",
        sections=[
            ReportSection("Same", text=["one"], pictures=[Picture(figure, "An empty picture, first of two", "c")]),
            ReportSection("Same", tables=[table], pictures=[Picture(other, "An empty picture, second of two", "c")]),
        ],
        guarantee=None,
        data={"end": "</script><!--", "nan": float("nan"), "nested": [{"inf": float("inf")}], "tuple": (1, 2)},
    )
    text = (tmp_path / "deep" / "page.html").read_text(encoding="utf-8")
    page = read_html(text)
    check_everybody_can_read(page)
    check_stands_alone(text)
    assert data_of(page) == {"end": "</script><!--", "nan": None, "nested": [{"inf": None}], "tuple": [1, 2]}
    assert page.one("h1").text == "A & B"
    assert "Privacy card" not in page.text


def test_figures_follow_the_page() -> None:
    axes = plt.subplots()[1]
    axes.plot([0, 1], [0, 1], color="#0072B2", label="line")
    axes.set_title("words")
    svg = svg_of(axes.figure, alt="A <line> & words", prefix="p-")
    assert "#000000" not in svg
    assert "var(--series-1, #0072b2)" in svg
    assert "<metadata" not in svg
    assert "<style" not in svg
    tree = read_html(svg)
    assert tree.all("title")[0].text == "A <line> & words"
    assert "width" not in tree.one("svg").attributes
    assert all(node.attributes["id"].startswith("p-") for node in tree.walk() if "id" in node.attributes)
    assert not plt.get_fignums()


def test_labels_stay_as_they_are() -> None:
    names = ["black", "race=#000000", "#0072B2", 'a" id="q', "font: 10px sans;", "url(#x)", "$\\frac$", "a$b$c"]
    svg = svg_of(loadings(np.eye(2, len(names)), ["one", "two"], names).figure)
    assert [node.text for node in read_html(svg).all("text")][: len(names)] == names
    panels = top_words([[(name, 0.1) for name in names]], np.ones(1))
    svg = svg_of(panels[0].figure)
    assert set(names) <= {node.text for node in read_html(svg).all("text")}
    svg = svg_of(coefficient_plot(np.ones(len(names)), None, names).figure)
    assert set(names) <= {node.text for node in read_html(svg).all("text")}


# Colours.

PAIRS = [
    *(("ink", ground, 7.0) for ground in ("paper", "panel", "sunk", "warn-soft")),
    *(("soft", ground, 4.5) for ground in ("paper", "panel")),
    *(("accent", ground, 4.5) for ground in ("paper", "panel")),
    *((name, f"{name}-soft", 4.5) for name in ("good", "warn", "bad")),
    *((f"series-{number}", "paper", 3.0) for number in range(1, 8)),
    ("paper", "ink", 7.0),
    ("accent", "accent-soft", 3.0),
]


def luminance(colour: str) -> float:
    """Relative luminance by WCAG 2.2."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    bright, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_is_enough(scheme: str) -> None:
    module = environment().get_template("colours.css").module
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", str(getattr(module, scheme)())))
    for front, ground, least in PAIRS:
        assert contrast(colours[front], colours[ground]) >= least, (front, ground)
    assert contrast("#ffffff", "#000000") == pytest.approx(21)


def test_the_stylesheet_uses_colours_it_has() -> None:
    css = stylesheet()
    assert "{%" not in css
    known = set(re.findall(r"--([\w-]+):", css))
    assert set(re.findall(r"var\(--([\w-]+)", css)) <= known
    assert "prefers-color-scheme: dark" in css
    assert "@media print" in css
    assert css.count("{") == css.count("}")


# Citations.


def test_citations_are_those_of_the_project() -> None:
    about = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f'title: "{citations.TITLE}"' in about
    assert f'name: "{citations.AUTHORS}"' in about
    title = re.findall(r'- type: article\n    title: "([^"]*)"', about)[0]
    assert title in citations.CAPE_PAPER
    for analysis in analyses().values():
        found = citations.papers(analysis.load(), "Cape")
        assert len(found) >= 2
        assert all(text.endswith(".") for text in found)
        assert not any("*" in text or "\n" in text for text in found)


def test_templates_are_part_of_the_package() -> None:
    names = {entry.name for entry in files("dpcape.pages").joinpath("templates").iterdir()}
    assert {"page.html", "card.html", "style.css", "card.css", "colours.css"} <= names


def test_a_way_of_working_has_one_colour_everywhere() -> None:
    schemes = {"pooled": "pooled", "cape": "CAPE", "conventional": "conventional", "alone": "local"}
    assert {way: colour for way, (colour, _) in WAYS.items()} == {way: SCHEMES[name] for way, name in schemes.items()}
    by_name = {name: [1.0, 2.0] for name in ("one site alone", "CAPE, 4 sites", "pooled, private", "other")}
    lines = curves([1.0, 2.0], by_name, labels=("epsilon", "error")).get_lines()
    assert [line.get_color() for line in lines[:3]] == [WAYS[way][0] for way in ("alone", "cape", "pooled")]
    assert len({line.get_linestyle() for line in lines[:3]}) == 3
    plt.close("all")


def test_releases_too_far_apart_for_bars_are_points() -> None:
    near = signal_bars(["a", "b"], [2.0, 1.0], [0.1, 0.1])
    assert (near.get_xscale(), len(near.patches), len(near.lines)) == ("linear", 4, 0)
    far = signal_bars(["a", "b"], [2.0, 1e-5], [0.1, 1e-6])
    assert (far.get_xscale(), len(far.patches), len(far.lines)) == ("log", 0, 2)
    none = signal_bars(["a", "b"], [2.0, 1e-5], [0.0, 0.0])
    assert none.get_xscale() == "linear"
    plt.close("all")


def test_no_coefficient_lies_on_the_axis() -> None:
    low, high = coefficient_plot(np.arange(5.0), None).get_ylim()
    assert low >= 4.5
    assert high <= -0.5
    plt.close("all")


def test_intervals_name_their_level_and_say_when_some_are_left_out(tmp_path: Path) -> None:
    page = page_of(rehearsed("linear", tmp_path))
    assert "95% interval" in [node.text for node in page.all("th")]
    assert "95% intervals" in page.text
    assert "are drawn" not in page.text
    names = [str(at) for at in range(31)]
    drawn = picture_of(
        Forest(values=np.arange(31.0), interval=None, names=names, label="coefficient", caption=drawn_caption(31))
    )
    assert drawn.caption == "The 30 largest of 31 are drawn."
    assert len(drawn.figure.axes[0].get_yticklabels()) == 30
    plt.close("all")


def test_columns_without_names_are_numbered_from_one(tmp_path: Path) -> None:
    page = page_of(rehearsed("topics", tmp_path))
    (words,) = (table for table in page.all("table") if "words, by number" in table.text)
    numbers = [int(word) for row in words.all("tr")[1:] for word in row.all("td")[-1].text.split(", ")]
    assert min(numbers) >= 1
    assert max(numbers) <= 20


def test_short_cells_are_kept_on_one_line() -> None:
    fingerprint = "722d 05a8 9f19 ad3f 1582 a9f6 e081 17f0"
    assert Table(["site", "identity"], [["lima", fingerprint]]).is_compact
    assert not Table(["unit", "features"], [["1", "a (+0.1), " * 6]]).is_compact


def test_open_intervals_end_in_arrows() -> None:
    """An interval that is not known to end is not drawn as if it did, nor one that ends far away."""
    values = np.array([0.5, -0.2, 0.1])
    ends = drawable(np.array([[0.1, -np.inf, -0.3], [40.0, 0.1, 0.4]]), values, 3.0)
    assert np.isinf(ends).tolist() == [[False, True, False], [True, False, False]]
    axes = coefficient_plot(values, ends, ["a", "b", "c"])
    arrows = {line.get_marker(): line.get_xydata() for line in axes.lines if line.get_marker() in {"<", ">"}}
    edges = {marker: points[0, 0] for marker, points in arrows.items()}
    assert [len(points) for points in arrows.values()] == [1, 1]
    assert edges["<"] < -0.5
    assert edges[">"] > 0.5
