"""What a description names as its grounds is there: page, section, paper, statistics with their proofs, law, audits."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from pathlib import Path

import pytest

from dpcape.analyses.description import VERIFIED, Analysis, AuditCase
from dpcape.analyses.registry import own_analyses
from dpcape.audit import cases as audited
from dpcape.core.statistic import statistic_class
from dpcape.planning.page.schedule_script import ways

ROOT = Path(__file__).parents[2]
OWN = list(own_analyses().values())
# Classes that a reason names, unlike acronyms and words at the beginning of a sentence.
CLASS_NAME = re.compile(r"\b(?:[A-Z][a-z]+){2,}\b")


def anchors(page: Path) -> dict[str, str]:
    """Return the text of each section of a page, by its anchor."""
    parts = re.split(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    titles, texts = parts[::2], parts[1::2]
    slugs = [re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in titles]
    return dict(zip(slugs, texts, strict=True))


def released(analysis: Analysis) -> set[str]:
    """Return the names of all statistics that variants release, on every way through the schedule."""
    extents: dict[str, int] = {}
    for variant in analysis.variants:
        ways(analysis, variant, extents)
    return {json.loads(text.partition("name: ")[2].partition(", ")[0]) for text in extents}


def states_diameter(name: str) -> bool:
    """Tell whether a statistic, one that it refines, or their module says what the diameter is."""
    kinds = [kind for kind in statistic_class(name).__mro__ if kind.__module__.startswith("dpcape.statistics.")]
    texts = [text for kind in kinds for text in (kind.__doc__, sys.modules[kind.__module__].__doc__)]
    return any("iameter" in text for text in texts if text)


def missing_reference(analysis: Analysis) -> list[str]:
    """Return what is wrong with where an analysis says that its grounds stand."""
    where, *papers = analysis.reference.split("; ")
    name, _, anchor = where.partition("#")
    page = ROOT / name
    if not page.is_file():
        return [f"page {name}"]
    sections = anchors(page)
    found = [] if anchor in sections else [f"section {where}"]
    # A page that does not speak of the analysis is not its page; a model of one process has none of its own.
    if analysis.in_studies and f"`{analysis.python}" not in page.read_text(encoding="utf-8"):
        found.append(f"{analysis.python} on {name}")
    listed = "".join(text for title, text in sections.items() if title == "references")
    for paper in papers:
        named = re.fullmatch(r"(\w+).* (\d{4})(?: \((.+)\))?", paper)
        if named is None or not all(word in listed for word in named.groups() if word):
            found.append(f"paper {paper} in the references of {name}")
    return found


def missing_law(analysis: Analysis) -> list[str]:
    """Return the law if there is no such test."""
    name, _, function = analysis.law.partition("::")
    is_there = (ROOT / name).is_file() and f"\ndef {function}(" in (ROOT / name).read_text(encoding="utf-8")
    return [] if is_there or not analysis.law else [f"law {analysis.law}"]


def missing(analysis: Analysis) -> list[str]:
    """Return everything that an analysis names as grounds of its status and that is not there."""
    found = missing_reference(analysis) + missing_law(analysis)
    statistics = released(analysis)
    classes = {statistic_class(name).__name__ for name in statistics}
    found += [f"statistic {name}" for name in CLASS_NAME.findall(analysis.reason) if name not in classes]
    if analysis.standing == VERIFIED:
        found += [f"diameter of {name}" for name in sorted(statistics) if not states_diameter(name)]
    for case in analysis.audit:
        known = case.name in audited.CASES and case.records in audited._MAKERS
        found += [] if known else [f"audit {case.name} of {case.records}"]
    return found


@pytest.mark.parametrize("analysis", OWN, ids=lambda entry: entry.name)
def test_what_a_status_rests_on_is_there(analysis: Analysis) -> None:
    assert missing(analysis) == []


MISSPELLED = {
    "page": {"reference": "docs/analyses/contrast.md#privacy"},
    "section": {"reference": "docs/analyses/contrasts.md#privcy"},
    "no section": {"reference": "docs/analyses/contrasts.md"},
    "another's page": {"reference": "docs/analyses/regression.md#privacy"},
    "paper": {"reference": "docs/analyses/contrasts.md#privacy; Frish and Waugh 1933"},
    "file of the law": {"law": "tests/laws/test_statistic.py::test_no_contribution_is_longer_than_the_radius"},
    "law": {"law": "tests/laws/test_statistics.py::test_no_contribution_is_longer"},
    "statistic": {"reason": "proved at DesignMoment"},
    "another's statistic": {"reason": "proved at SiteMoments"},
    "audit": {"audit": (AuditCase("group-contrasts", {}, "table", 4),)},
    "records of the audit": {"audit": (AuditCase("group-contrast", {}, "tables", 4),)},
}


@pytest.mark.parametrize("name", MISSPELLED)
def test_a_misspelled_ground_is_noticed(name: str) -> None:
    wrong = dataclasses.replace(own_analyses()["group_contrast"], **MISSPELLED[name])  # type: ignore[arg-type]  # of any field
    assert len(missing(wrong)) == 1


def test_a_statistic_without_a_proof_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = statistic_class("site_moments")
    monkeypatch.setattr(moments, "__doc__", "Counts, sums and squares of standardised rows, by site.")
    assert missing(own_analyses()["harmonise"]) == ["diameter of site_moments"]
