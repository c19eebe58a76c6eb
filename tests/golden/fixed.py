"""What sites derive from studies, digests of studies, and a ledger written by a script."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from .places import KNOWN_STATISTICS, Ceiling, Charge, SiteFolder, Study, errors, statistic_names
from .repeated import repeated

ROOT = Path(__file__).parents[2]

HEAD = """\
[study]
name = "golden"
analysis = "{analysis}"
epsilon = 2.0
delta = 1e-6
{parameters}
[protocol]
kind = "cape"
n_colluding = 1
[sites.a]
[sites.b]
[sites.c]
[sites.d]
[data]
{data}
"""
ROWS = 'kind = "rows"\nfeatures = 12\nbound = 1.0'
VIEWS = 'kind = "views"\nbounds = [1.0, 2.0]\n[data.x]\nfeatures = 4\n[data.y]\ncolumns = ["p", "q", "r"]'
SEVERAL = (
    'kind = "views"\nviews = ["mri", "genes", "scores"]\nbounds = [1.0, 2.0, 0.5]\n[data.mri]\nfeatures = 4\n'
    '[data.genes]\ncolumns = ["p", "q", "r"]\n[data.scores]\nfeatures = 2'
)
RESPONSE = 'kind = "labelled"\nfeatures = 5\nbound = 1.0\ntarget = "y"\nresponse = [0, 10]'
CLASSES = 'kind = "labelled"\nfeatures = 5\nbound = 1.0\ntarget = "y"\nclasses = ["a", "b"]'
DOCUMENTS = 'kind = "documents"\nfeatures = 30'
TABLE = (
    'kind = "table"\n[data.columns]\nage = { range = [18, 90] }\nseen = { range = ["2020-01-01", "2024-12-31"] }\n'
    'sex = { levels = ["F", "M"] }\ndied = { time = "days", event = "dead", range = [0, 900] }'
)
TIME_POINTS = 'kind = "subjects"\nunit = "record"\nfeatures = 6\nbound = 3.0'
PEOPLE = 'kind = "subjects"\nunit = "subject"\nrows_per_subject = 40\nfeatures = 6\nbound = 3.0'
BASIS = "basis = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0]]"

STUDIES: list[tuple[str, str, str]] = [
    ("mean", "", ROWS),
    ("pca", "n_components = 3", ROWS),
    ("pca", "n_components = 3\ncenter = false", ROWS),
    ("pca", 'n_components = "auto"\ncenter = true', ROWS),
    ("pca", 'n_components = 2\nbasis = ["cosines", [2, 3], [2, 2]]\nmaps = true', ROWS),
    ("correlation", "", ROWS),
    ("correlation", 'confidence = 0.9\nscale = "none"', RESPONSE),
    ("correlation", "", TABLE),
    ("correlation", 'columns = ["age", "sex", "days"]\nscale = "none"', TABLE),
    ("correlation", 'columns = ["age"]', TABLE),
    ("cca", "n_components = 2", VIEWS),
    ("cca", "n_components = 2\ncenter = false", VIEWS),
    ("cca", "n_components = 2\ncenter = true", VIEWS),
    ("cca", 'n_components = 2\nscale = "private"', VIEWS),
    ("cca", 'n_components = 1\nbasis = [["cosines", [2, 2], [2, 1]], []]\nmaps = true\ncenter = true', VIEWS),
    ("cca", 'n_components = 1\nbasis = [["cosines", [2, 2], [2, 1]], []]\nscale = "private"', VIEWS),
    ("cca", 'n_components = 1\nbasis = ["cosines", [2, 2], [2, 1]]', VIEWS),
    ("pls", "n_components = 2", VIEWS),
    ("pls", 'n_components = 2\nscale = "private"', VIEWS),
    ("multi_cca", "n_components = 2", SEVERAL),
    ("multi_cca", "n_components = 2\ncenter = false", SEVERAL),
    ("multi_cca", 'n_components = "auto"\ncenter = true', SEVERAL),
    ("multi_cca", 'n_components = 2\nscale = "private"', SEVERAL),
    ("cca", "n_components = 1", SEVERAL),
    ("linear_regression", "", RESPONSE),
    ("linear_regression", "fit_intercept = false", RESPONSE),
    ("logistic_regression", "", CLASSES),
    ("polynomial_loss", 'loss = "poisson"', RESPONSE),
    ("network_classifier", "n_hidden = 4\nn_iter = 3", CLASSES),
    ("kmeans", "n_clusters = 4\nn_iter = 11", ROWS),
    ("kmeans", 'n_clusters = 4\nscale = "private"', ROWS),
    ("topic_model", "n_components = 3", DOCUMENTS),
    ("topic_model", 'n_components = 3\ndesign = "full"', DOCUMENTS),
    ("topic_model", 'n_components = 3\ndesign = "whitened"\nn_words = 10', DOCUMENTS),
    ("topic_model", "n_components = 3\nn_words = 10\ndocument_length = 20\nsecond_moment_share = 0.5", DOCUMENTS),
    ("mixture_model", "n_components = 2\nnoise_variance = 0.002", ROWS),
    ("mixture_model", 'n_components = 2\nnoise_variance = 0.002\ndesign = "full"', ROWS),
    ("mixture_model", 'n_components = 2\nnoise_variance = 0.002\ndesign = "whitened"', ROWS),
    ("joint_ica", "n_components = 3", TIME_POINTS),
    ("joint_ica", f"n_components = 2\n{BASIS}", TIME_POINTS),
    ("joint_ica", 'n_components = 2\nbasis = ["cosines", [2, 3], [2, 2]]\nmaps = true', TIME_POINTS),
    ("joint_ica", 'n_components = 2\nbasis = ["cosines", [2, 3], [2, 2]]\nmaps = true', PEOPLE),
    ("joint_ica", 'n_components = 3\nsolver = "infomax"\nn_iter = 7', TIME_POINTS),
    ("joint_ica", "n_components = 3", PEOPLE),
    ("joint_ica", "n_components = 6", PEOPLE),
    ("joint_ica", 'n_components = 3\nkurtosis = "mixed"', PEOPLE),
    ("joint_ica", 'n_components = 3\nsolver = "infomax"\nn_iter = 7', PEOPLE),
    ("pca", "n_components = 13", ROWS),
    ("joint_ica", "n_components = 1", PEOPLE),
    ("topic_model", "n_components = 31", DOCUMENTS),
    ("kmeans", "n_clusters = 4\nrounds = 11", ROWS),
    ("summary", "", TABLE),
    ("summary", 'by = ["sex"]\nbins = 16\nweights = [1, 1, 2, 1]', TABLE),
    ("summary", 'by = ["age"]', TABLE),
    ("group_contrast", 'contrast = "sex"\noutcomes = ["age"]', TABLE),
    ("mass_univariate", 'contrast = "age"\ncovariates = ["seen"]\nsite = "sex"\nassumed_effect = 1', TABLE),
    ("mass_univariate", 'contrast = "height"', TABLE),
    ("generalized_linear_model", 'family = "gaussian"', RESPONSE),
    ("generalized_linear_model", 'family = "poisson"\nscale = "private"', RESPONSE),
    ("generalized_linear_model", 'family = "logistic"', CLASSES),
    ("generalized_linear_model", 'family = "poisson"', CLASSES),
    ("generalized_linear_model", 'family = "gamma"\noffset = 1\nridge = 0.5', RESPONSE),
    ("generalized_linear_model", 'family = "multinomial"', CLASSES),
    ("kaplan_meier", 'by = ["sex"]\nhorizon = 800', TABLE),
    ("log_rank", 'by = ["sex"]\nbins = 8', TABLE),
    ("log_rank", 'by = ["dead"]', TABLE),
    ("cox", 'columns = ["age", "sex"]\nhorizon = 800', TABLE),
    ("cox", 'columns = ["dead"]', TABLE),
    ("heterogeneity", 'site = "sex"\ncolumns = ["age"]', TABLE),
    ("pca", 'n_components = 2\nadjust = "site"', ROWS),
    ("cca", 'n_components = 1\nadjust = "site"', VIEWS),
    ("harmonise", 'site = "sex"\ncolumns = ["age"]\nscale = false', TABLE),
]
PROTOCOLS = {
    "secure-sum": 'kind = "secure-sum"\nn_colluding = 1\nminimum_sites = 4',
    "independent": 'kind = "independent"\nminimum_sites = 3',
    "dealer": 'kind = "dealer"\nn_colluding = 2\ncancelling_ratio = 50.0',
    "exact": 'kind = "exact"',
}


def studies() -> dict[str, Any]:
    """Return shares, names of statistics, charge and digest of each study, or the class of the refusal."""
    found = {}
    for analysis, parameters, data in STUDIES:
        kind = data.split('"')[1] + (" per person" if data is PEOPLE else "")
        label = f"{analysis} {parameters} {kind}".replace("\n", ", ")
        assert label not in found
        found[label] = _derived(HEAD.format(analysis=analysis, parameters=parameters, data=data))
    for name, lines in PROTOCOLS.items():
        text = HEAD.format(analysis="pca", parameters="n_components = 3", data=ROWS)
        found[f"pca by {name}"] = _derived(text.replace('kind = "cape"\nn_colluding = 1', lines))
    return found


def _derived(text: str) -> Any:
    try:
        study = Study.parse(text)
        sizes = dict(zip(study.sites, (50, 700, 33, 1200), strict=True))
        names, charge = sorted(statistic_names(study)), study.charge("a")
        assert set(names) <= set(KNOWN_STATISTICS)
        return {
            "digest": study.digest(),
            "statistics": names,
            "shares": list(study.shares(sizes)),
            "charge": [charge.mu, charge.gap, charge.tail, charge.n_releases],
            "protocol": study.settings,
        }
    except errors.DpcapeError as error:
        return {"refused": type(error).__name__, "text": str(error)}


def study_texts() -> dict[str, str]:
    """Return the studies that stand in the documentation and the examples, by page and order."""
    found = {}
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.ipynb")]
    pages += [path for path in (ROOT / "examples").rglob("*") if path.suffix in (".sh", ".py", ".toml")]
    for page in sorted(path for path in pages if not {"_build", "generated"} & set(path.parts)):
        text = page.read_text(encoding="utf-8")
        if page.suffix == ".ipynb":
            text = "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
        # From the head of a study to what ends the text it stands in.
        for number, match in enumerate(re.finditer(r"^\[study\]\n.*?(?=^```|^END|\"\"\"|^'''|\Z)", text, re.M | re.S)):
            found[f"{page.relative_to(ROOT).as_posix()} {number + 1}"] = match[0]
    return found


def digests(texts: dict[str, str]) -> dict[str, Any]:
    """Return the digest of each text; null where it is no whole study."""
    found: dict[str, Any] = {}
    for name, text in texts.items():
        try:
            found[name] = Study.parse(text).digest()
        except errors.DpcapeError:
            found[name] = None
    return found


LYON_STUDY = HEAD.format(analysis="pca", parameters="n_components = 3", data=ROWS).replace("[sites.a]", "[sites.lyon]")


def ledger(folder: Path) -> dict[str, Any]:
    """Write a ledger with every kind of row; return its head, its rows as they are hashed, and what they mean."""
    with repeated("ledger"):
        place = written_site(folder)
        study, other = (Study.parse(LYON_STUDY.replace("golden", name)) for name in ("golden", "second"))
        place.approve(study, "cohort", runs=3)
        place.deny(other)
        spending = place.ledger(study, "cohort")
        spending.charge(Charge(allowance="one", mu=0.125, gap=1e-7, tail=1e-13, n_releases=2))
        spending.next_release("one", 0)
        spending.next_release("one", 1)
        spending.charge(study_charge := study.charge("lyon"))
        place.revoke(study)
        place.set_ceiling("cohort", Ceiling(3.5, 1e-5, 1.5))
        place.chain.append("note", {"text": "naïve"}, check=lambda entries: None)
        gone = type(place.chain.head())(99, "ff" * 32)
        place.accept_head(reason="a restored backup", lost={"cohort": (0.5, 1e-6)}, seen=gone)
        head, state = place.chain.verify(), place.state()
        connection = place.chain._connection
        rows = [list(row) for row in connection.execute("SELECT number, time, kind, body, hash FROM entries")]
        place.chain.close()
    return {
        "head": list(head),
        "rows": rows,
        "files": sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()),
        "spent": [state.spent("cohort", delta) for delta in (1e-6, 1e-5)],
        "study's charge": [study_charge.allowance, study_charge.mu, study_charge.gap, study_charge.tail],
    }


def written_site(folder: Path) -> SiteFolder:
    """Make the folder of a site with pinned peers and one data set."""
    table = np.random.default_rng(3).integers(-4, 5, size=(40, 12)) / 16
    folder.mkdir(parents=True, exist_ok=True)
    np.savetxt(folder / "cohort.csv", table, delimiter=",", fmt="%.4f", header=",".join("abcdefghijkl"), comments="")
    place = SiteFolder.create(folder / "lyon", name="lyon")
    for number, peer in enumerate(("b", "c", "d")):
        place.pin(peer, bytes([number + 1] * 32).hex())
    place.add_data("cohort", folder / "cohort.csv", epsilon=6.0, delta=1e-5)
    return place
