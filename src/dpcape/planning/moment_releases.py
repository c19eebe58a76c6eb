"""What topic and mixture models release: a second moment, then a third, whole or in few coordinates.

With ``design="auto"`` the first result chooses between the two designs, so each is planned by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpcape.errors import InvalidParameter
from dpcape.facts import Facts
from dpcape.planning.release import AT_MOST, EXACT, RELATIVE, PlannedRelease, Setting
from dpcape.statistics import (
    second_moment,
    third_moment,
    whitened_third_moment,
    whitened_word_triples,
    word_pairs,
    word_shares,
    word_triples,
)

Options = Mapping[str, Any]
Planned = tuple[PlannedRelease, ...]
_SHORTEST = 3


def mixture(facts: Facts, options: Options, setting: Setting) -> Planned:
    """Return both moments of rows, the third one whole."""
    share = _share(options["n_components"], facts.n_features)
    third = third_moment(facts, noise_variance=float(options["noise_variance"]))
    return PlannedRelease(second_moment(facts), share), PlannedRelease(third, 1 - share)


def whitened_mixture(facts: Facts, options: Options, setting: Setting) -> Planned:
    """Return both moments of rows, the third one in coordinates that the second one gives."""
    share = _share(options["n_components"], facts.n_features)
    third = whitened_third_moment(facts, _coordinates(facts.n_features, options), clip=1.0, noise_variance=0.0)
    return PlannedRelease(second_moment(facts), share), PlannedRelease(third, 1 - share, known=RELATIVE)


def topics(facts: Facts, options: Options, setting: Setting) -> Planned:
    """Return the moments of words, the third one whole."""
    from dpcape.estimators.topic_model import triple_clip

    words, length, known = _words(facts, options)
    third = word_triples(facts, clip=triple_clip(length), words=words)
    return _of_documents(facts, options, PlannedRelease(third, known=known))


def whitened_topics(facts: Facts, options: Options, setting: Setting) -> Planned:
    """Return the moments of words, the third one in coordinates that the second one gives."""
    words, _, _ = _words(facts, options)
    third = whitened_word_triples(facts, _coordinates(words.size, options), clip=1.0, words=words)
    return _of_documents(facts, options, PlannedRelease(third, known=RELATIVE))


def _of_documents(facts: Facts, options: Options, last: PlannedRelease) -> Planned:
    from dpcape.estimators.topic_model import WORD_SHARE, pair_clip

    words, length, known = _words(facts, options)
    share, given = _share(options["n_components"], words.size), options["document_length"]
    left = 1.0 if options["n_words"] is None else 1 - WORD_SHARE
    pairs = PlannedRelease(word_pairs(facts, clip=pair_clip(length), words=words), left * share, known=known)
    last = PlannedRelease(last.statistic, left * (1 - share), known=last.known)
    if options["n_words"] is None:
        return pairs, last
    clip = 1.0 if given is None else given**-0.5
    return PlannedRelease(word_shares(facts, clip=clip), WORD_SHARE), pairs, last


def _words(facts: Facts, options: Options) -> tuple[Any, int | None, str]:
    """Return as many words as are kept, the length clip radii are for, and how well that is known."""
    n_words, length = options["n_words"], options["document_length"]
    _require("n_words", n_words, 1, facts.n_features)
    _require("document_length", length, _SHORTEST, 10**6)
    words = np.arange(n_words or facts.n_features, dtype=np.int64)
    _share(options["n_components"], words.size)
    if n_words is None or length in (None, _SHORTEST):
        return words, length, EXACT
    # How many words of a document are left is known when the words are found; radii are largest for the fewest.
    return words, _SHORTEST, AT_MOST


def _share(n_components: int, n_features: int) -> float:
    # Imported here: a site that reads a study needs no estimators.
    from dpcape.estimators.moment_decomposition import check_number, second_moment_share

    checked = check_number(n_components, n_features)
    return second_moment_share("auto", n_features=n_features, n_components=checked)


def _coordinates(n_rows: int, options: Options) -> Any:
    return np.eye(n_rows, options["n_components"])


def _require(subject: str, value: int | None, least: int, largest: int) -> None:
    if value is not None and not least <= value <= largest:
        raise InvalidParameter(f"{subject} must be None or a whole number from {least} to {largest}; got {value!r}.")
