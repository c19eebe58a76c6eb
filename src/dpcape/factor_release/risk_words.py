"""Attacks in plain words."""

from __future__ import annotations

from dpcape.factor_release.attack_result import (
    FIND,
    INFER_FEATURES,
    INFER_RESPONSE,
    INFER_UNRELEASED,
    MEMBER,
    AttackResult,
)

HEADINGS = {
    FIND: "Finding a person's row",
    MEMBER: "Telling whether a person is in the release",
    INFER_RESPONSE: "Inferring a released response",
    INFER_UNRELEASED: "Inferring a response that is not released",
    INFER_FEATURES: "Inferring features",
}


def percent(share: float) -> str:
    """Return a share as a percentage, with a decimal near 0 and 100."""
    value = 100.0 * share
    if 0 < abs(value) < 10 or 99 < value < 100:
        return f"{value:.1f}%"
    return f"{value:.0f}%"


def headline_words(attack: AttackResult) -> str:
    """Return what the largest attack reaches, against guessing."""
    joint = " in" if attack.goal == FIND else ", right in"
    reached = (
        f"can {attack.goal}{joint} {percent(attack.success)} of cases; guessing reaches {percent(attack.baseline)}."
    )
    if attack.n_unique is None:
        return f"An adversary {reached}"
    unique = f"{attack.n_unique} of {attack.n_people} people are unique by {short_words(attack)}"
    return f"{unique}: an adversary who knows these values {reached}"


def short_words(attack: AttackResult) -> str:
    """Return the known columns without their owner."""
    return attack.knows.removeprefix("the person's ")


def kind_words(attack: AttackResult) -> str:
    """Return the kind of an attack in one word."""
    return {FIND: "finding", MEMBER: "membership"}.get(attack.goal, "inference")


def assumed_words(attack: AttackResult) -> str:
    """Return what the adversary is assumed to know, as a sentence."""
    explanation = ""
    if "roughly" in attack.knows:
        explanation = " Roughly means: to the right tenth of the people."
    if "of the person's features" in attack.knows:
        explanation += " Features are known with an error of half a standard deviation each."
    return f"Assumed to be known: the whole release, and {attack.knows}.{explanation}"


def sections(attacks: tuple[AttackResult, ...]) -> list[tuple[str, list[AttackResult]]]:
    """Group attacks by goal, each group from the largest gain over guessing to the smallest."""
    return [
        (heading, sorted(chosen, key=lambda attack: -attack.advantage))
        for goal, heading in HEADINGS.items()
        if (chosen := [attack for attack in attacks if attack.goal == goal])
    ]
