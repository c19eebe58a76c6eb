"""Attacks by someone who knows features of a person, and the full records of a few released people.

The leaked records teach how the released parts of a row turn into features. What is known of the person is
then compared with the features rebuilt from each row, and with the released columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpcape.core.arrays import FloatArray
from dpcape.factor_release import evidence
from dpcape.factor_release.attack_result import FIND, INFER_FEATURES, INFER_RESPONSE, MEMBER, AttackResult, mean_attack
from dpcape.factor_release.attacks import area_under_curve, learn_best_map
from dpcape.factor_release.column_attacks import FEWEST_TARGETS
from dpcape.factor_release.evidence import UNKNOWN
from dpcape.factor_release.knowledge import Knowledge, knowledge_of
from dpcape.factor_release.released_parts import ReleasedParts

Rows = NDArray[np.intp]
_measured = partial(mean_attack, uses_features=True)

AUXILIARY_SCALE = 0.5  # error of what the adversary knows of a target, in standard deviations of each feature
FEW_FEATURES = 20
MOST_FEATURES = 1000
MOST_INFERRED = 200


@dataclass(frozen=True)
class Twin:
    """The same release made for some of the people only; the others are known to be outside."""

    inside: Rows
    outside: Rows
    draws: FloatArray  # n_draws x n_inside x K


@dataclass(frozen=True)
class JointKnowledge:
    """Features and other columns known together."""

    words: str
    many: bool
    other: Knowledge | None

    @property
    def uses_response(self) -> bool:
        """Whether the adversary knows the response of the target."""
        return self.other is not None and self.other.uses_response


def _variants(parts: ReleasedParts, n_features: int, n_leaked: int) -> list[JointKnowledge]:
    few, many = min(FEW_FEATURES, n_features), min(MOST_FEATURES, n_features)
    rough = knowledge_of(parts, rough=True)
    options: list[tuple[int, Knowledge | None]] = [(few, None)]
    options += [(few, known) for known in rough if not known.uses_response or len(known.columns) > 1 or len(rough) == 1]
    options += [(many, rough[-1] if rough else None)] if many > few else []
    return [
        JointKnowledge(_words(count, n_features, known, n_leaked), count == many, known) for count, known in options
    ]


def _words(count: int, n_features: int, known: Knowledge | None, n_leaked: int) -> str:
    features = f"all {count}" if count == n_features else f"{count:,}"
    columns = "" if known is None else f", {known.short}"
    return f"{features} of the person's features{columns}, and the full records of {n_leaked} other released people"


@dataclass(frozen=True)
class FeatureAttacks:
    """Attacks by someone who knows features of the target and the full records of some released people."""

    parts: ReleasedParts
    features: FloatArray  # n x p, standardised
    n_leaked: int
    n_repeats: int

    @property
    def variants(self) -> list[JointKnowledge]:
        """Combinations of knowledge that are tried."""
        return _variants(self.parts, self.features.shape[1], self.n_leaked)

    def _rebuilt(self, tables: list[FloatArray], features: FloatArray, order: Rows) -> FloatArray:
        """Rebuild the features of rows after the leaked ones."""
        learnt, best = learn_best_map(tables, features, order[: self.n_leaked])
        return learnt.rebuild(tables[best][order[self.n_leaked :]])

    def _scores(
        self, variant: JointKnowledge, known: FloatArray, rebuilt: FloatArray, targets: Rows, rows: Rows
    ) -> FloatArray:
        few = slice(None) if variant.many else slice(FEW_FEATURES)
        table = evidence.closeness(known[:, few], rebuilt[:, few], self.parts.factors.shape[1])
        return table if variant.other is None else table + variant.other.table(targets, rows)

    def find(self, rng: np.random.Generator) -> list[AttackResult]:
        """Find rows, rebuild features, and read responses off the rows found."""
        tables, variants = self.parts.tables(), self.variants
        rates_by_variant: list[list[float]] = [[] for _ in variants]
        thirds, responses = [], []
        n_others = len(self.features) - self.n_leaked
        for _ in range(self.n_repeats):
            order, columns = rng.permutation(len(self.features)), self._columns(rng)
            features = self.features[:, columns]
            others = order[self.n_leaked :]
            rebuilt = self._rebuilt(tables, features, order)
            known = features[others] + AUXILIARY_SCALE * rng.standard_normal((n_others, len(columns)))
            scores = [self._scores(v, known, rebuilt, others, others) for v in variants]
            for rates, table in zip(rates_by_variant, scores, strict=True):
                rates.append(evidence.found_rate(table))
            inferred = (rebuilt[:, :MOST_INFERRED], features[others, :MOST_INFERRED])
            thirds.append(float(np.mean(np.equal(*map(_thirds_by_rank, inferred)))))
            responses += self._read_responses(scores[0], others)
        leaked = f"which row is the person's, and the full records of {self.n_leaked} other released people"
        attacks = [
            _measured(FIND, v.words, r, baseline=1.0 / n_others, n_people=n_others, uses_response=v.uses_response)
            for v, r in zip(variants, rates_by_variant, strict=True)
        ]
        attacks.append(_measured(INFER_FEATURES, leaked, thirds, baseline=_third_chance(n_others), n_people=n_others))
        if responses and self.parts.response is not None:
            classes = evidence.thirds(self.parts.response)
            chance = evidence.largest_share(classes[classes != UNKNOWN])
            words = variants[0].words
            attacks.append(_measured(INFER_RESPONSE, words, responses, baseline=chance, n_people=n_others))
        return attacks

    def _columns(self, rng: np.random.Generator) -> Rows:
        p = self.features.shape[1]
        return np.asarray(rng.choice(p, size=min(MOST_FEATURES, p), replace=False), dtype=np.intp)

    def _read_responses(self, table: FloatArray, others: Rows) -> list[float]:
        """Link people with released responses to rows by features, and read the response there."""
        if self.parts.response is None:
            return []
        classes = evidence.thirds(self.parts.response)[others]
        released = np.flatnonzero(classes != UNKNOWN)
        if len(released) < FEWEST_TARGETS:
            return []
        linked = evidence.best_rows(table[np.ix_(released, released)])
        return [float(np.mean(classes[released][linked] == classes[released]))]

    def member(self, twin: Twin, rng: np.random.Generator) -> list[AttackResult]:
        """Tell members of the twin release from the people outside it."""
        inside = self.features[twin.inside]
        parts = self.parts.take(twin.inside, twin.draws, inside @ inside.T)
        tables, variants = parts.tables(), self.variants
        rates_by_variant: list[list[float]] = [[] for _ in variants]
        for _ in range(self.n_repeats):
            order, columns = rng.permutation(len(twin.inside)), self._columns(rng)
            rebuilt = self._rebuilt(tables, inside[:, columns], order)
            rows = twin.inside[order[self.n_leaked :]]
            targets = np.concatenate([rows, twin.outside])
            shape = (len(targets), len(columns))
            known = self.features[np.ix_(targets, columns)] + AUXILIARY_SCALE * rng.standard_normal(shape)
            for rates, variant in zip(rates_by_variant, variants, strict=True):
                scores = evidence.membership(self._scores(variant, known, rebuilt, targets, rows))
                rates.append(area_under_curve(scores[: len(rows)], scores[len(rows) :]))
        n = len(twin.inside) - self.n_leaked + len(twin.outside)
        return [
            _measured(MEMBER, v.words, r, baseline=0.5, n_people=n, uses_response=v.uses_response)
            for v, r in zip(variants, rates_by_variant, strict=True)
        ]


def _thirds_by_rank(table: FloatArray) -> NDArray[np.intp]:
    ranks = np.argsort(np.argsort(table, axis=0, kind="stable"), axis=0, kind="stable")
    return np.asarray(3 * ranks // len(table))


def _third_chance(n: int) -> float:
    """Return what ranking at random reaches."""
    sizes = np.unique(3 * np.arange(n) // n, return_counts=True)[1]
    return float(np.sum((sizes / n) ** 2))
