"""What an auditor reads, in order: each file of the trusted part, its claim, and the test that would catch its failure.

``python tests/core/reading_list.py`` writes ``src/dpcape/core/README.md`` again.
"""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[2]
CORE = ROOT / "src" / "dpcape" / "core"

HEAD = """\
# The trusted part, as a reading list

What must be right for a guarantee to hold, in the order in which it reads best. It imports nothing else of dpcape.
Plans, estimators and reports are not trusted: a site computes every scale itself, from its own code and public facts.
Besides this folder, a guarantee rests on the statistics that a study names (`statistics/`, each with the proof of its
diameter) and on clipping and reading (`records/`, `schema/`); that records stay at a site rests on `site/` too.

This page is generated (`python tests/core/reading_list.py`); `tests/core` holds it to the code. Lines are
lines of code, without comments and documentation.
"""

# File, what it claims, the test that would catch its failure.
SECTIONS: dict[str, list[tuple[str, str, str]]] = {
    "The law: what a release costs": [
        ("privacy/unit.py", "A guarantee says what one neighbouring data set replaces.", "privacy/test_units.py"),
        (
            "privacy/gaussian.py",
            "Epsilon and delta of a Gaussian release with parameter mu are exact, and compose.",
            "vectors/test_vectors.py",
        ),
        (
            "privacy/adversary_view.py",
            "mu is the distance that one record moves everything the adversary sees.",
            "laws/test_protocols.py",
        ),
        (
            "privacy/integer_gap.py",
            "Integer noise costs at most the stated gap more than ideal noise.",
            "noise/test_integer_gap.py",
        ),
        (
            "privacy/terms.py",
            "Terms determine the noise of an allowance, and have one digest.",
            "laws/test_bindings.py",
        ),
        (
            "privacy/site_deltas.py",
            "Sites with deltas of their own get the mu of one delta that covers all.",
            "privacy/test_site_deltas.py",
        ),
        (
            "privacy/calibration.py",
            "The noise of a release gives at most the mu that its share of the budget allows.",
            "privacy/test_regression.py",
        ),
        (
            "privacy/ledger.py",
            "Nothing is released that would pass a ceiling; a charge precedes its release.",
            "laws/test_accounting.py",
        ),
        (
            "privacy/collusion.py",
            "The guarantee against other numbers of colluding sites is that of their view.",
            "laws/test_accounting.py",
        ),
        ("privacy/inference.py", "Bounds on guesses follow from mu.", "laws/test_guarantees.py"),
        (
            "privacy/unused_epsilon.py",
            "A site is told of an epsilon that brings nothing; no scale depends on it.",
            "flow/test_asked_budgets.py",
        ),
    ],
    "Noise": [
        (
            "noise.py",
            "Draws have the stated integer distribution, and come from the operating system or a replayed key.",
            "noise/test_distribution.py",
        ),
    ],
    "Statistics: what may be asked of records": [
        ("facts.py", "What is public of records is listed here, and nothing else is.", "laws/test_leaks.py"),
        (
            "extent.py",
            "The sensitivity of a total is its diameter and the rounding of both totals.",
            "laws/test_extents.py",
        ),
        (
            "statistic.py",
            "A statistic cannot be requested without its sensitivity; a name belongs to one class.",
            "laws/test_statistics.py",
        ),
        ("statistic_names.py", "The table is what modules define, in both directions.", "laws/test_tables.py"),
        (
            "grid.py",
            "A row on the grid is in its ball, and what is computed of it depends on that row alone.",
            "laws/test_kernel.py",
        ),
        ("fine_grid.py", "Products in several steps are exact in each.", "laws/test_kernel_bases.py"),
        (
            "contributions.py",
            "Sums of what records contribute are those of whole numbers.",
            "laws/test_kernel.py",
        ),
        (
            "word_counts.py",
            "What is computed of a document depends on that document alone.",
            "laws/test_kernel_words.py",
        ),
        ("tiles.py", "The shape of a tile follows from public numbers.", "laws/test_kernel.py"),
        (
            "kernel.py",
            "Totals of neighbouring data sets differ by what the replaced record contributes.",
            "laws/test_neighbours.py",
        ),
        ("record_blocks.py", "Statistics see records through these methods alone.", "laws/test_statistics.py"),
        (
            "enclosed.py",
            "A bound on what code of other packages contributes holds whatever it computes.",
            "laws/test_enclosed.py",
        ),
        (
            "totals.py",
            "What leaves a site before noise is the total that the statistic's sensitivity is about.",
            "laws/test_parts.py",
        ),
    ],
    "Protocols: noise that is large at a site and small in the sum": [
        (
            "protocols/parameters.py",
            "A protocol's parameters are those of its constructor.",
            "laws/test_protocol_descriptions.py",
        ),
        (
            "protocols/protocol.py",
            "Scales and guarantee follow from the view that a protocol states.",
            "laws/test_protocols.py",
        ),
        ("protocols/names.py", "The table is what modules define.", "laws/test_tables.py"),
        (
            "protocols/registry.py",
            "A message finds a protocol by name only, with parameters that were checked.",
            "laws/test_protocol_descriptions.py",
        ),
        ("protocols/independent.py", "Each site's own noise protects its own release.", "laws/test_protocols.py"),
        ("protocols/exact.py", "Results without noise say so.", "laws/test_guarantees.py"),
        (
            "protocols/secure_session.py",
            "A sum is opened once, for one set of survivors that enough sites signed.",
            "laws/test_bindings.py",
        ),
        (
            "protocols/secure_sum.py",
            "The aggregator sees the sum with the noise of all honest sites.",
            "laws/test_protocols.py",
        ),
        (
            "protocols/zero_sum.py",
            "Cancelling noise hides each site; the view counts what is left in the sum.",
            "laws/test_protocols.py",
        ),
        (
            "protocols/cape.py",
            "Sites agree on noise that cancels; different agreements cannot be opened together.",
            "privacy/test_audit.py",
        ),
        (
            "protocols/dealt_noise.py",
            "Boxes of a dealer are bound to terms, release and site, and shares sum to zero.",
            "flow/test_dishonest_dealer.py",
        ),
        (
            "protocols/noise_dealer.py",
            "A dealer deals once for a release, and only among sites with the same terms.",
            "flow/test_dealer.py",
        ),
        (
            "protocols/dealer.py",
            "A site uses dealt noise only if it was signed for it and sums to zero.",
            "flow/test_dishonest_dealer.py",
        ),
    ],
    "Secure sum: addends that nobody sees": [
        (
            "secure_sum/transcript.py",
            "Different lists of parts never have the same digest.",
            "secure_sum/test_primitives.py",
        ),
        (
            "secure_sum/sealed.py",
            "Objects with secrets show nothing and cannot be copied.",
            "secure_sum/test_hygiene.py",
        ),
        ("secure_sum/identity.py", "Only the pinned key of a site signs for it.", "secure_sum/test_primitives.py"),
        (
            "secure_sum/config.py",
            "Sites with different configurations have no session together.",
            "secure_sum/test_setup.py",
        ),
        (
            "secure_sum/graph.py",
            "Colluding sites cannot separate honest ones in a set that is certified.",
            "secure_sum/test_graph_attacks.py",
        ),
        ("secure_sum/keystream.py", "A key masks one vector only.", "secure_sum/test_primitives.py"),
        (
            "secure_sum/links.py",
            "A pair's secret is bound to the session, in which every site had its part.",
            "secure_sum/test_setup.py",
        ),
        ("secure_sum/fixed_point.py", "Sums on the grid are exact, or refused.", "secure_sum/test_fixed_point.py"),
        ("secure_sum/messages.py", "Messages are plain data.", "secure_sum/test_fuzz.py"),
        (
            "secure_sum/masking.py",
            "A masked vector alone is uniform; a round is masked once per attempt.",
            "secure_sum/test_retry.py",
        ),
        (
            "secure_sum/shamir.py",
            "Fewer shares than the threshold tell nothing about a secret.",
            "secure_sum/test_shamir.py",
        ),
        (
            "secure_sum/rebuild.py",
            "A secret is rebuilt correctly although some shares are wrong, or not at all.",
            "secure_sum/test_shares.py",
        ),
        (
            "secure_sum/offers.py",
            "Secrets belong to one round, and only their receivers can open shares.",
            "secure_sum/test_offers.py",
        ),
        ("secure_sum/round_keys.py", "Keys and signed texts of a round are bound to it.", "vectors/test_labels.py"),
        (
            "secure_sum/site_epoch.py",
            "Secrets of a round are used once and then overwritten.",
            "secure_sum/test_hygiene.py",
        ),
        (
            "secure_sum/recover.py",
            "A site reveals either the key or the self-mask of another, never both.",
            "secure_sum/test_secrecy.py",
        ),
        (
            "secure_sum/session.py",
            "A site's session refuses every message that is out of order.",
            "secure_sum/test_refusals.py",
        ),
        ("secure_sum/aggregator_epoch.py", "The aggregator holds public parts alone.", "secure_sum/test_aggregator.py"),
        (
            "secure_sum/aggregate.py",
            "The aggregator learns the sum over one settled set of survivors.",
            "secure_sum/test_hostile_aggregator.py",
        ),
        (
            "secure_sum/box.py",
            "A sealed box opens for its receiver and its context only.",
            "secure_sum/test_bindings.py",
        ),
        ("secure_sum/signed_head.py", "A ledger's head is the site's own statement.", "site_folder/test_peer_heads.py"),
        ("secure_sum/certificate_request.py", "A site signs which TLS key is its own.", "vectors/test_labels.py"),
    ],
    "Messages and the site": [
        ("messages.py", "What crosses the wire is frozen, versioned and not executable.", "golden/test_golden.py"),
        ("limits.py", "A release that does not fit is refused before it is charged.", "flow/test_limits.py"),
        ("plain_text.py", "Text from elsewhere is safe to show and to log.", "hostile/test_words.py"),
        ("peer_heads.py", "A restored ledger is noticed by what peers were shown.", "site_folder/test_peer_heads.py"),
        (
            "site.py",
            "A site answers only what it agreed to, charged and counted; records enter one line.",
            "flow/test_attacks.py",
        ),
    ],
    "Tools": [
        ("arrays.py", "Work on rows does not depend on other rows.", "laws/test_records.py"),
        ("errors.py", "What weakens a guarantee is an exception.", "laws/test_guarantees.py"),
        ("files.py", "A file is replaced whole or not at all, and is private.", "site_folder/test_durable.py"),
        ("lazy.py", "Asking for one name loads one module.", "core/test_reading_list.py"),
        ("_version.py", "The version that messages state.", "architecture/test_wheel.py"),
    ],
}


def code_lines(path: Path) -> int:
    """Return how many lines of a file are neither documentation, comments nor blank."""
    text = path.read_text(encoding="utf-8")
    lines, left_out = text.splitlines(), set[int]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                left_out |= set(range(first.lineno, (first.end_lineno or 0) + 1))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and lines[token.start[0] - 1].lstrip().startswith("#"):
            left_out.add(token.start[0])
    return sum(1 for number, line in enumerate(lines, start=1) if line.strip() and number not in left_out)


def _counted(name: str) -> int:
    """Return the lines to read of a file; a table of names has none, so that a new name is no change of this page."""
    return 0 if name.endswith("names.py") else code_lines(CORE / name)


def readme() -> str:
    """Return the reading list as Markdown."""
    parts, total = [HEAD], sum(_counted(str(path.relative_to(CORE))) for path in CORE.rglob("*.py"))
    for title, rows in SECTIONS.items():
        n_lines = sum(_counted(name) for name, *_ in rows)
        table = [f"| `{name}` | {_counted(name) or 'table'} | {claim} | `{test}` |" for name, claim, test in rows]
        head = ["| file | lines | what it claims | caught by `tests/` |", "|---|---|---|---|"]
        parts.append("\n".join([f"## {title} ({n_lines} lines)", "", *head, *table, ""]))
    return "\n".join(parts) + f"\nIn all {total} lines of code in {len(list(CORE.rglob('*.py')))} files.\n"


if __name__ == "__main__":
    (CORE / "README.md").write_text(readme(), encoding="utf-8")
