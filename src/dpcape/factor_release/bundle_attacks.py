"""Attacks on all released parts together: finding people, inferring values, telling members.

Each result states what the adversary is assumed to know and what guessing would reach. Attacks that assume
less come first. All values come from the holder's own people, so a figure is the success of this attack on
them: a lower bound on the risk.
"""

from __future__ import annotations

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.factor_release.attack_result import AttackResult
from dpcape.factor_release.column_attacks import columns_membership, response_by_class, uniqueness, unreleased_response
from dpcape.factor_release.feature_attacks import FeatureAttacks, Twin
from dpcape.factor_release.knowledge import knowledge_of, single_covariates
from dpcape.factor_release.released_parts import ReleasedParts


def attack_bundle(
    parts: ReleasedParts,
    features: FloatArray,
    *,
    twin: Twin | None,
    n_leaked: int,
    n_leaked_twin: int,
    rng: np.random.Generator,
    n_repeats: int,
) -> tuple[AttackResult, ...]:
    """Run every attack on the released parts.

    Parameters
    ----------
    parts : ReleasedParts
        Everything that is released.
    features : ndarray
        Standardised features (n x p) of the same people, for knowledge of targets and for leaked records.
    twin : Twin or None
        For membership; None leaves it out.
    n_leaked, n_leaked_twin : int
        Leaked records for the release and its twin; zero leaves those attacks out.
    rng : np.random.Generator
        For choices of people, of features and of errors in the adversary's knowledge.
    n_repeats : int
        Repetitions of attacks that choose people.
    """
    exact, rough = knowledge_of(parts, rough=False), knowledge_of(parts, rough=True)
    attacks = [uniqueness(known) for known in [*rough, *single_covariates(parts), *exact]]
    if parts.response is not None:
        blind = [known for known in [*rough, *exact] if not known.uses_response]
        attacks += [response_by_class(known, parts.response) for known in blind]
    attacks += unreleased_response(parts)
    members = [columns_membership(known, rng, n_repeats) for known in [*rough, *exact]]
    attacks += [attack for attack in members if attack is not None]
    if n_leaked:
        attacks += FeatureAttacks(parts, features, n_leaked, n_repeats).find(rng)
    if twin is not None and n_leaked_twin:
        attacks += FeatureAttacks(parts, features, n_leaked_twin, n_repeats).member(twin, rng)
    return tuple(attacks)
