"""Generator of docs/papers/claims.md's list: ``python -m dpcape_papers.claims.page docs/papers/claims.md``."""

from __future__ import annotations

import sys
from pathlib import Path

from dpcape_papers.claims.claim import Claim
from dpcape_papers.claims.consequences import CONSEQUENCE_OF
from dpcape_papers.claims.registry import CLAIMS
from dpcape_papers.names.name import CONSEQUENCES

BEGIN, END = "<!-- claims: begin -->", "<!-- claims: end -->"


def claims_text() -> str:
    """Return a table of verdicts and a section for every claim, with newly computed numbers."""
    rows = [
        f"| [{c.key}](#{c.key}) | {c.source} | **{c.verdict}** | {CONSEQUENCE_OF[c.key]} |" for c in CLAIMS.values()
    ]
    table = "\n".join(["| Claim | Source | Verdict | For a user |", "|---|---|---|---|", *rows])
    parts = [table]
    for consequence, meaning in CONSEQUENCES.items():
        parts.append(f"## {consequence.capitalize()}\n\n{meaning}")
        parts += [_section(c) for c in CLAIMS.values() if CONSEQUENCE_OF[c.key] == consequence]
    return "\n\n".join(parts)


def renewed(page: str) -> str:
    """Return the page with the part between the markers replaced by newly computed text."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n\n{claims_text()}\n\n{END}{tail}"


def _section(claim: Claim) -> str:
    numbers = "\n".join(f"* {line}" for line in claim.evidence().lines)
    figures = f" and `dpcape reproduce {' '.join(claim.figures)} --quick --out out`" if claim.figures else ""
    return "\n\n".join(
        [
            f"### {claim.key}",
            f"*{claim.source}*: {claim.says}",
            f"**{claim.verdict.capitalize()}.** {claim.correct}",
            numbers,
            f"Reproduce with `dpcape mechanisms --claim {claim.key}`{figures}.",
        ]
    )


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.write_text(renewed(target.read_text(encoding="utf-8")), encoding="utf-8")
