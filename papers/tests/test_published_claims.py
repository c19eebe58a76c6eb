"""The papers' claims: every verdict is borne out by numbers, and the page says the same as the computation."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from dpcape.analyses.description import CONDITIONAL
from dpcape.analyses.mechanisms import BROKEN, PUBLISHED, VERIFIED, mechanisms
from dpcape.audit.cases import CASES
from dpcape.cli import main
from dpcape_papers.claims import CLAIMS
from dpcape_papers.claims.claim import HOLDS, WRONG
from dpcape_papers.claims.mechanisms import MECHANISMS as OF_THE_PAPERS
from dpcape_papers.claims.page import renewed
from dpcape_papers.published.cape import theorem_delta, theorem_kappa, theorem_scale, true_delta, true_kappa

MECHANISMS = (*mechanisms(), *OF_THE_PAPERS)
PAGE = Path(__file__).parents[2] / "docs" / "papers" / "claims.md"


@pytest.mark.parametrize("key", CLAIMS)
def test_numbers_bear_the_verdict_out(key: str) -> None:
    evidence = CLAIMS[key].evidence()
    assert evidence.supports, evidence.lines
    assert evidence.lines


def test_the_page_is_what_is_computed() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert renewed(page) == page, "run python -m dpcape_papers.claims.page docs/papers/claims.md"


@pytest.mark.parametrize(
    ("n_sites", "n_colluding", "printed", "true"),
    [
        (3, 0, 1.25, 1.5),
        (4, 1, 1.4745, 1.866667),
        (5, 1, 1.3194, 1.875),
        (10, 0, 1.0909, 1.818182),
        (10, 3, 1.2956, 2.207792),
        (100, 33, 1.0409, 2.4679),
    ],
)
def test_kappa_of_theorem_3_1(n_sites: int, n_colluding: int, printed: float, true: float) -> None:
    assert theorem_kappa(n_sites, n_colluding) == pytest.approx(printed, abs=5e-5)
    assert true_kappa(n_sites, n_colluding) == pytest.approx(true, abs=5e-5)


@pytest.mark.parametrize(
    ("n_sites", "n_colluding", "epsilon", "delta", "true"),
    [(4, 1, 1.0, 1e-9, 9.4e-10), (10, 3, 1.0, 1e-9, 7.0e-8), (5, 1, 4.0, 1e-5, 3.6e-5), (100, 33, 4.0, 1e-5, 1.8e-3)],
)
def test_what_theorem_3_1_is_worth(n_sites: int, n_colluding: int, epsilon: float, delta: float, true: float) -> None:
    scale = theorem_scale(epsilon, delta, n_sites=n_sites, n_colluding=n_colluding)
    mu = theorem_kappa(n_sites, n_colluding) ** 0.5 / scale
    assert theorem_delta(epsilon, mu) == pytest.approx(delta, rel=1e-6)
    found = true_delta(epsilon, scale, n_sites=n_sites, n_colluding=n_colluding)
    assert found == pytest.approx(true, rel=0.02)


def test_mechanisms_and_claims_agree() -> None:
    audited = {name for entry in MECHANISMS for name in entry.analyses}
    assert audited == set(CASES)
    for entry in MECHANISMS:
        assert entry.status in (VERIFIED, CONDITIONAL, PUBLISHED, BROKEN)
        assert entry.reason
        assert entry.reference
        assert set(entry.claims) <= set(CLAIMS)
        if entry.status == PUBLISHED:
            assert all(CLAIMS[key].verdict != HOLDS for key in entry.claims)
        if entry.status == BROKEN:
            assert [CLAIMS[key].verdict for key in entry.claims] == [WRONG] * len(entry.claims)
            assert entry.claims


def command(*words: str, columns: int = 160) -> str:
    result = CliRunner().invoke(main, ["mechanisms", *words], catch_exceptions=False, env={"COLUMNS": str(columns)})
    assert result.exit_code == 0
    return result.stdout


@pytest.mark.parametrize("words", [(), ("--claims",), ("--claim", "cape-theorem")])
def test_a_narrow_terminal_cuts_no_name(words: tuple[str, ...]) -> None:
    shown = command(*words, columns=80)
    assert max(map(len, shown.splitlines())) <= 80
    keys = {"--claims": CLAIMS, "--claim": ["cape-theorem"]}.get(
        words[0] if words else "", [m.name for m in MECHANISMS]
    )
    for key in keys:
        assert f"{key}: " in shown


def test_the_command_prints_all_three_lists() -> None:
    text = " ".join(command().split())
    assert "Wishart" in text
    assert BROKEN in text
    assert len(json.loads(command("--json"))) == len(MECHANISMS)
    assert {entry["key"] for entry in json.loads(command("--claims", "--json"))} == set(CLAIMS)
    assert "wishart: wrong" in command("--claim", "wishart")
    assert json.loads(command("--claim", "cape-gain", "--json"))["borne_out"] is True


def test_an_unknown_claim_gets_a_hint() -> None:
    result = CliRunner().invoke(main, ["mechanisms", "--claim", "cape-theorm"])
    assert result.exit_code == 2
    assert "cape-theorem" in result.stderr.rpartition("mean")[2]


STATEMENTS = (
    *(f"theorem {number}" for number in ("3.1", "4.1", "5.1", "6.1", "7.1", "8.1")),
    *(f"proposition {number}" for number in ("3.1", "3.2", "6.3", "6.4", "6.5")),
    *(f"lemma {number}" for number in ("3.1", "3.2")),
    "capeCCA paper, theorem 1",
    "DP-djICA paper, theorem 1",
    "factor paper, theorem I",
    "poster",
    *(f"section {number}" for number in ("3.3.7", "4.2.2", "5.2", "6.3.1", "6.3.2", "6.4.2", "8.2.2", "8.4.1")),
)


def test_no_statement_of_the_papers_is_left_out() -> None:
    """Every numbered statement, and every section that makes a claim, is the source of a claim."""
    sources = "\n".join(_spelt_out(entry.source) for entry in CLAIMS.values())
    assert [statement for statement in STATEMENTS if statement not in sources] == []


def _spelt_out(source: str) -> str:
    """Return a source with what lists and ranges leave out: "theorems 4.1 and 7.1" also names "theorem 7.1"."""
    whole = source.replace("propositions 6.3 to 6.5", "propositions 6.3, 6.4 and 6.5").replace(" (capeCCA)", "")
    found = [whole]
    for kind, listed in re.findall(r"(theorem|proposition|section)s ([\d.]+(?:(?:, and |, | and )[\d.]+)*)", whole):
        found += [f"{kind} {number}" for number in re.findall(r"[\d.]+\d", listed)]
    return "\n".join(found)
