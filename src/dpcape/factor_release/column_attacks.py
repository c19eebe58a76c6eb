"""Attacks by someone who knows released columns of a person, covariates or the response, and no features."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.factor_release import evidence
from dpcape.factor_release.attack_result import (
    FIND,
    INFER_RESPONSE,
    INFER_UNRELEASED,
    MEMBER,
    AttackResult,
    mean_attack,
)
from dpcape.factor_release.attacks import area_under_curve
from dpcape.factor_release.knowledge import Knowledge, plural
from dpcape.factor_release.released_parts import ReleasedParts

FEWEST_TARGETS = 5
SHARE_OUT = 1 / 3


def uniqueness(knowledge: Knowledge) -> AttackResult:
    """Find people by released columns alone: a person is found with probability one over the size of the class."""
    people = knowledge.complete
    _, sizes = evidence.joint_classes([codes[people] for codes in knowledge.columns])
    n = len(people)
    unique = int(np.sum(sizes == 1))
    return AttackResult(
        FIND, knowledge.words, len(sizes) / n, 0.0, 1.0 / n, n, knowledge.uses_response, n_unique=unique
    )


def response_by_class(knowledge: Knowledge, response: FloatArray) -> AttackResult:
    """Infer released responses: the most frequent third among the people who share the known columns."""
    people = np.flatnonzero(~np.isnan(response))
    classes = evidence.thirds(response[people])
    member, _ = evidence.joint_classes([codes[people] for codes in knowledge.columns])
    counts = np.zeros((member.max() + 1, classes.max() + 1))
    np.add.at(counts, (member, classes), 1)
    right = float(counts.max(axis=1).sum() / len(people))
    return AttackResult(INFER_RESPONSE, knowledge.words, right, 0.0, evidence.largest_share(classes), len(people))


def unreleased_response(parts: ReleasedParts) -> list[AttackResult]:
    """Infer responses that are not released, and find rows by them, through the recommended model."""
    if parts.response is None or parts.held_out is None or parts.covariates_only is None:
        return []
    n = len(parts.held_out)
    y = parts.response[:n]
    classes = evidence.thirds(y)
    right = float(np.mean(evidence.ranked_guess(parts.held_out, classes) == classes))
    plain = float(np.mean(evidence.ranked_guess(parts.covariates_only, classes) == classes))
    baseline = max(evidence.largest_share(classes), plain)
    table = evidence.predicted(y, parts.held_out, float(np.mean((y - parts.held_out) ** 2)))
    q = parts.covariates.shape[1]
    if q:
        codes = evidence.joined([evidence.roughly(column) for column in parts.covariates.T])[:n]
        table = table + evidence.matching(codes, codes)
    known = f", and {plural(q)} roughly" if q else ""
    words = f"the person's response, which is not released{known}"
    finding = AttackResult(FIND, words, evidence.found_rate(table), 0.0, 1.0 / n, n, uses_response=True)
    return [finding, AttackResult(INFER_UNRELEASED, "which row is the person's", right, 0.0, baseline, n)]


def columns_membership(knowledge: Knowledge, rng: np.random.Generator, n_repeats: int) -> AttackResult | None:
    """Tell members by whether a released row has the columns known of them, over random splits of the people."""
    people = knowledge.complete
    n_out = int(len(people) * SHARE_OUT)
    if n_out < FEWEST_TARGETS:
        return None
    values = []
    for _ in range(n_repeats):
        order = people[rng.permutation(len(people))]
        scores = evidence.membership(knowledge.table(order, order[n_out:]))
        values.append(area_under_curve(scores[n_out:], scores[:n_out]))
    attack = mean_attack(
        MEMBER, knowledge.words, values, baseline=0.5, n_people=len(people), uses_response=knowledge.uses_response
    )
    return replace(attack, n_unique=uniqueness(knowledge).n_unique)
