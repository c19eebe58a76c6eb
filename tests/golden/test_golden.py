"""Plans, shares, messages, digests and ledgers are what they were, bit for bit; so are help and pages.

Words change when they are improved, and are then recorded again: ``python tests/golden/renew.py help cards``. Whatever
is in ``cases.LASTING`` is recorded again only by a change that says so.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .cases import LASTING, WORDS, computed, difference, stored


@pytest.mark.parametrize("family", LASTING)
def test_vectors_are_as_recorded(family: str, tmp_path: Path) -> None:
    found = difference(family, stored(family), computed(family, tmp_path))
    assert not found, f"{found}\n(these must stay; of a new analysis: python tests/golden/renew.py new)"


@pytest.mark.filterwarnings("ignore::dpcape.core.errors.DpcapeWarning")
@pytest.mark.parametrize("family", WORDS)
def test_words_and_pages_are_as_recorded(family: str, tmp_path: Path) -> None:
    found = difference(family, stored(family), computed(family, tmp_path))
    assert not found, f"{found}\n(if words were improved: python tests/golden/renew.py {family})"
