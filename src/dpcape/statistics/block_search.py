"""A search for records whose contributions depend on other records of their block.

The diameter of a loss is about one record. If row i of what a loss returns also depends on other records of the block
(on their mean, on the row before, on how many there are), replacing one record moves many rows, and the diameter says
nothing. The search permutes, replaces, splits and lengthens blocks. Finding nothing proves nothing; finding something
stops the release. Records are synthetic, the same at every site.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dpcape.core.arrays import FloatArray, IntArray
from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import BLOCK_ROWS
from dpcape.core.facts import PublicFacts
from dpcape.statistics.diameter_search import candidate_records
from dpcape.statistics.losses import RecordLoss

# Matrix products round differently in blocks of different length; relative to the bound of a contribution.
TOLERANCE = 1e-9
_BLOCK = 48


def require_separate_records(loss: RecordLoss, facts: PublicFacts) -> None:
    """Refuse a loss if a search shows that the coefficients of a record depend on other records.

    Parameters
    ----------
    loss : RecordLoss
        The loss, called as sites call it.
    facts : PublicFacts
        The public bounds; synthetic records are made within them.
    """
    largest, change = largest_change(loss, facts)
    if not largest <= TOLERANCE * loss.bound(facts):
        raise InvalidParameter(
            f"the coefficients of the loss {loss.name!r}",
            "depend on their own record only",
            f"coefficients that moved by {largest:.6g} (their bound is {loss.bound(facts):.6g}) when {change}",
            "Compute row i from record i and public facts only.",
        )


def largest_change(loss: RecordLoss, facts: PublicFacts) -> tuple[float, str]:
    """Return the largest distance found between coefficients of the same record, and what was done to its block."""
    # Ordinary and extreme synthetic records mixed, always in the same order.
    rows, targets = candidate_records(facts)
    chosen = np.random.default_rng(1).permutation(len(rows))[:_BLOCK]  # protects nothing
    rows, targets = rows[chosen], None if targets is None else targets[chosen]
    alone = _contributions(loss, rows, targets, facts)
    largest, words = 0.0, "nothing was changed"
    for change, positions, compared in _blocks(len(rows)):
        block = _contributions(loss, rows[positions], None if targets is None else targets[positions], facts)
        moved = np.linalg.norm(block[compared] - alone[positions[compared]], axis=1)
        if float(moved.max()) > largest:
            largest, words = float(moved.max()), change
    return largest, words


def _blocks(n_records: int) -> Iterator[tuple[str, IntArray, Any]]:
    """Yield what is done to the block, which records are in it then, and which rows are compared."""
    order = np.arange(n_records)
    everything = slice(None)
    yield "the same block was computed again", order, everything
    yield "records were permuted", order[::-1], everything
    yield "records were permuted", np.roll(order, 1), everything
    for at in (0, n_records // 2, n_records - 1):
        for other in ((at + 1) % n_records, (at + n_records // 2) % n_records):
            replaced = order.copy()
            replaced[at] = other
            yield "another record of the block was replaced", replaced, np.flatnonzero(order != at)
    for size in (1, 2, n_records // 2, n_records - 1):
        yield "the block was split", order[:size], everything
        yield "the block was split", order[-size:], everything
    yield "the block was made longer", np.resize(order, BLOCK_ROWS), everything


def _contributions(loss: RecordLoss, rows: FloatArray, targets: Any, facts: PublicFacts) -> FloatArray:
    """Return packed contributions as a site adds them: a record without finite coefficients contributes zero."""
    with np.errstate(all="ignore"):
        packed = loss.packed(rows.copy(), None if targets is None else targets.copy(), facts)
    packed[~np.isfinite(packed).all(axis=1)] = 0.0
    return packed
