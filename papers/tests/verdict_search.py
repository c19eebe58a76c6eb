"""Look up verdicts by a few words of their claim, so that tests do not depend on whole sentences."""

from __future__ import annotations

from collections.abc import Mapping


def about(outcomes: Mapping[str, str], *words: str) -> str:
    """Return the outcome of the only claim that contains all the words."""
    (found,) = (outcome for claim, outcome in outcomes.items() if all(word in claim for word in words))
    return found
