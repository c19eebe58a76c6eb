"""Analyses whose releases follow from public numbers alone, so that they can be planned without records.

Joint ICA and the mixture model are not among them: what they release second depends on what was released first. They
are planned by a rehearsal on made-up records, :meth:`dpcape.Federation.plan`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpcape.errors import InvalidParameter
from dpcape.facts import Facts
from dpcape.statistics import (
    Statistic,
    centred_moments,
    cluster_sums,
    first_moments,
    network_gradient,
    regression_moment,
    second_moment,
    word_pairs,
    word_triples,
)

Options = Mapping[str, Any]


@dataclass(frozen=True)
class PlannedRelease:
    """A release, how often it is made, and the share of mu^2 it takes each time."""

    statistic: Statistic
    share: float = 1.0
    times: int = 1


@dataclass(frozen=True)
class PlannedAnalysis:
    """An analysis that can be planned from public numbers.

    Attributes
    ----------
    title : what people call it.
    study : its name in a study file; ``fixed`` are parameters it always has there.
    kind : kind of records.
    options : parameters with the values they have unless others are given.
    releases : from facts and options to the releases, in order.
    """

    title: str
    study: str
    kind: str
    releases: Callable[[Facts, Options], tuple[PlannedRelease, ...]]
    options: Options = field(default_factory=dict)
    fixed: Options = field(default_factory=dict)


def _once(make: Callable[[Facts], Statistic]) -> Callable[[Facts, Options], tuple[PlannedRelease, ...]]:
    return lambda facts, options: (PlannedRelease(make(facts)),)


def _regression(facts: Facts, options: Options) -> tuple[PlannedRelease, ...]:
    return (PlannedRelease(regression_moment(facts, intercept=bool(options["fit_intercept"]))),)


def _kmeans(facts: Facts, options: Options) -> tuple[PlannedRelease, ...]:
    # Where the centres lie does not matter for the noise.
    centres = np.zeros((options["n_clusters"], facts.n_features))
    rounds = options["n_iter"]
    return (PlannedRelease(cluster_sums(facts, centres=centres), 1 / rounds, rounds),)


def _network(facts: Facts, options: Options) -> tuple[PlannedRelease, ...]:
    # Nor do the weights: gradients are clipped.
    hidden = np.zeros((options["n_hidden"], facts.n_features + 1))
    classes = len(facts.classes or ())
    output = np.zeros((1 if classes == 2 else classes, options["n_hidden"] + 1))
    rounds = options["n_iter"]
    gradient = network_gradient(facts, hidden=hidden, output=output, clip=float(options["clip"]), input_scale=1.0)
    return (PlannedRelease(gradient, 1 / rounds, rounds),)


def _topics(facts: Facts, options: Options) -> tuple[PlannedRelease, ...]:
    # Imported here: a site that reads a study needs no estimators.
    from dpcape.estimators.decomposition import check_number, second_moment_share

    n_components = check_number(options["n_components"], facts.n_features)
    share = second_moment_share("auto", n_features=facts.n_features, n_components=n_components)
    words = np.arange(facts.n_features, dtype=np.int64)
    return (
        PlannedRelease(word_pairs(facts, clip=1.0, words=words), share),
        PlannedRelease(word_triples(facts, clip=1.0, words=words), 1 - share),
    )


PLANNED: dict[str, PlannedAnalysis] = {
    "mean": PlannedAnalysis("Mean", "mean", "rows", _once(first_moments)),
    "pca": PlannedAnalysis("Principal components", "pca", "rows", _once(second_moment), options={"n_components": 5}),
    "centred-pca": PlannedAnalysis(
        "Principal components, centred",
        "pca",
        "rows",
        _once(centred_moments),
        options={"n_components": 5},
        fixed={"center": True},
    ),
    "cca": PlannedAnalysis("Canonical correlations", "cca", "views", _once(second_moment), options={"n_components": 2}),
    "centred-cca": PlannedAnalysis(
        "Canonical correlations, centred",
        "cca",
        "views",
        _once(centred_moments),
        options={"n_components": 2},
        fixed={"center": True},
    ),
    "linear-regression": PlannedAnalysis(
        "Linear regression", "linear_regression", "labelled", _regression, options={"fit_intercept": True}
    ),
    "logistic-regression": PlannedAnalysis(
        "Logistic regression", "logistic_regression", "labelled", _regression, options={"fit_intercept": True}
    ),
    "kmeans": PlannedAnalysis("Clusters", "kmeans", "rows", _kmeans, options={"n_clusters": 5, "n_iter": 8}),
    "network-classifier": PlannedAnalysis(
        "Network classifier",
        "network_classifier",
        "labelled",
        _network,
        options={"n_hidden": 20, "n_iter": 20, "clip": 1.0, "n_classes": 2},
    ),
    "topic-model": PlannedAnalysis(
        "Topics of documents",
        "topic_model",
        "documents",
        _topics,
        options={"n_components": 5},
        fixed={"design": "full"},
    ),
}


def facts_of(analysis: str, widths: Sequence[int], bounds: Sequence[float], options: Options) -> Facts:
    """Return the public facts of records of these dimensions."""
    if any(width < 1 for width in widths) or any(not 0 < bound < math.inf for bound in bounds):
        raise InvalidParameter("features and bound must be positive.")
    kind = PLANNED[analysis].kind
    n_classes = {"logistic-regression": 2}.get(analysis, options.get("n_classes"))
    return Facts(
        kind=kind,
        unit="record",
        n_records=1,
        widths=tuple(widths),
        bounds=(1.0,) if kind == "documents" else tuple(bounds),
        response=(0.0, 1.0) if kind == "labelled" and n_classes is None else None,
        classes=None if n_classes is None else tuple(f"class-{index + 1}" for index in range(n_classes)),
    )


def options_of(analysis: str, given: Options) -> dict[str, Any]:
    """Return the analysis' options with what was given; refuse others, and numbers that cannot be."""
    if analysis not in PLANNED:
        raise InvalidParameter(f"analysis must be one of {', '.join(PLANNED)}; got {analysis!r}.")
    options = dict(PLANNED[analysis].options)
    for name, value in given.items():
        if name not in options:
            wanted = ", ".join(options) or "left out"
            raise InvalidParameter(f"parameters of {analysis} must be {wanted}; got {name!r}.")
        options[name] = _checked(name, value, options[name])
    return options


def _checked(name: str, value: Any, usual: Any) -> Any:
    """Return a value of the usual one's kind."""
    if isinstance(usual, bool):
        if not isinstance(value, bool):
            raise InvalidParameter(f"{name} must be true or false; got {value!r}.")
        return value
    least = 2 if name == "n_classes" else 1
    if isinstance(usual, int) and (not isinstance(value, int) or isinstance(value, bool) or value < least):
        raise InvalidParameter(f"{name} must be a whole number of at least {least}; got {value!r}.")
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise InvalidParameter(f"{name} must be a positive number; got {value!r}.")
    return value


def releases_of(
    analysis: str, widths: Sequence[int], bounds: Sequence[float], given: Options | None = None
) -> tuple[PlannedRelease, ...]:
    """Return what an analysis releases, for records of these public dimensions."""
    options = options_of(analysis, given or {})
    return PLANNED[analysis].releases(facts_of(analysis, widths, bounds, options), options)
