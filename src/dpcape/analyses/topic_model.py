"""Description of the topic model: moments of words, the third one whole or in few coordinates."""

from __future__ import annotations

import math
from typing import Any

from dpcape.analyses.description import ENTRY, LAW, MODELS, Analysis, AuditCase, Public, Variant
from dpcape.analyses.footprint import whole_tensors
from dpcape.analyses.moment_shares import (
    DESIGN,
    DESIGN_NOTE,
    RELATIVE_NOTE,
    SECOND_MOMENT_SHARE,
    SYMMETRIC_MOMENTS,
    chosen_design,
    second_moment_share,
)
from dpcape.analyses.parameters import WHOLE, Parameter
from dpcape.analyses.release import AT_MOST, EXACT, RELATIVE, Refusal, Release, Steps
from dpcape.core.errors import InvalidParameter
from dpcape.statistics.packing import packed_tensor_size
from dpcape.statistics.word_moments import LARGEST_TENSOR

# Share of mu^2 for finding the most frequent words, if n_words is given.
WORD_SHARE = 0.05
_SHORTEST = 3
_LENGTH_NOTE = (
    "If both n_words and document_length are given, the number of kept words per document is known only after the "
    "first release, so the noise of pairs and triples is an upper bound."
)
_OPTIONS = ("n_components", "n_words", "document_length")


def share_clip(length: Any) -> float:
    """Return the clip radius of word shares for documents with ``length`` different words."""
    radius: float = length**-0.5 if length is not None else 1.0
    return radius


def pair_clip(length: Any) -> float:
    """Return the norm of the pair matrix of a document with ``length`` different words."""
    return 1 / math.sqrt(length * (length - 1)) if length is not None else 1.0


def triple_clip(length: Any) -> float:
    """Return the norm of the triple tensor of a document with ``length`` different words."""
    return 1 / math.sqrt(length * (length - 1) * (length - 2)) if length is not None else 1.0


def _width(p: Public) -> float:
    width: float = p.n_words if p.n_words is not None else p.n_features
    return width


def _schedule(p: Public) -> Steps:
    chosen, width = p.n_words is not None, _width(p)
    share = second_moment_share(p.second_moment_share, n_features=width, n_components=p.n_components)
    remaining = 1 - WORD_SHARE if chosen else 1.0
    # The number of kept words per document is known only after the first release; radii are largest for the fewest.
    guessed = (chosen and p.document_length is not None) and p.document_length != _SHORTEST
    length, known = _SHORTEST if guessed else p.document_length, (AT_MOST if guessed else EXACT)
    if p.design == "full":
        must, remedy = "have at most {most} entries", "Use design='whitened', or fewer words."
        text = InvalidParameter("A third moment released whole", must, "{size} for {width} words", remedy)
        size = packed_tensor_size(width)
        yield Refusal(size > LARGEST_TENSOR, text, {"most": LARGEST_TENSOR, "size": size, "width": width})
    shares = {"n_features": p.n_features, "clip": share_clip(p.document_length)}
    yield Release("word_shares", shares, WORD_SHARE, when=chosen)
    pairs = {"n_features": p.n_features, "n_words": width, "clip": pair_clip(length)}
    yield Release("word_pairs", pairs, remaining * share, known=known)
    triples = {"n_features": p.n_features, "n_words": width, "clip": triple_clip(length)}
    full = Release("word_triples", triples, remaining * (1 - share), known=known)
    few = {"n_features": p.n_features, "n_components": p.n_components, "clip": 1.0}
    whitened = Release("whitened_word_triples", few, remaining * (1 - share), known=RELATIVE)
    yield chosen_design(p.design, full, whitened)


TOPIC_MODEL = Analysis(
    name="topic_model",
    estimator="dpcape.estimators.topic_model:TopicModel",
    group=MODELS,
    place=2,
    kinds=frozenset({"documents"}),
    records="documents",
    parameters=(
        Parameter("n_words", WHOLE, None, 1, lambda p: p.n_features, optional=True, title="Words kept", left_out="all"),
        Parameter(
            "document_length",
            WHOLE,
            None,
            _SHORTEST,
            10**6,
            optional=True,
            title="Words in a document",
            left_out="not used",
        ),
        Parameter("n_components", WHOLE, least=1, most=_width, planned=5, title="Components"),
        DESIGN,
        SECOND_MOMENT_SHARE,
    ),
    schedule=_schedule,
    workspace=whole_tensors,
    variants=(
        Variant(
            "topic-model",
            "Topics of documents",
            _OPTIONS,
            {"design": "full"},
            yardstick=ENTRY,
            note=f"{DESIGN_NOTE} {_LENGTH_NOTE}",
        ),
        Variant(
            "whitened-topic-model",
            "Topics, few coordinates (many words)",
            _OPTIONS,
            {"design": "whitened"},
            yardstick=ENTRY,
            note=f"{RELATIVE_NOTE} {_LENGTH_NOTE}",
        ),
    ),
    measure="noise_of_word_moments",
    audit=(AuditCase("topic-model", {"n_components": 2}, "documents", 3),),
    law=LAW,
    reason=SYMMETRIC_MOMENTS,
    reference="docs/analyses/topics_and_mixtures.md#privacy",
)
