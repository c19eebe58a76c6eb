"""Analyses whose releases are known before any record is read: their shares, sizes, diameters, and so their noise.

Where a later release depends on an earlier result, its noise still follows from public numbers, or is known relative
to the largest contribution (:data:`dpcape.planning.release.RELATIVE`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpcape.errors import InvalidParameter
from dpcape.facts import LARGEST_BOUND, MANY_TIME_POINTS, SMALLEST_BOUND, Facts
from dpcape.planning import ica_releases, moment_releases
from dpcape.planning.release import PlannedRelease, Setting
from dpcape.statistics import (
    Statistic,
    centred_moments,
    cluster_sums,
    first_moments,
    network_gradient,
    polynomial_coefficients,
    regression_moment,
    second_moment,
)

Options = Mapping[str, Any]


Make = Callable[[Facts, Options, Setting], tuple[PlannedRelease, ...]]


@dataclass(frozen=True)
class PlannedAnalysis:
    """An analysis that can be planned from public numbers.

    Attributes
    ----------
    title : str
        What people call it.
    study : str
        Its name in a study file; ``fixed`` are parameters it always has there.
    kind : str
        Kind of records.
    releases : Make
        From facts, options and setting to the releases, in order.
    options : Options
        Parameters with the values they have unless others are given; None may be left out.
    group : str
        Heading it stands under in a list.
    unit : str
        What is protected.
    note : str
        What is not known before the run, in words.
    """

    title: str
    study: str
    kind: str
    releases: Make
    options: Options = field(default_factory=dict)
    fixed: Options = field(default_factory=dict)
    group: str = ""
    unit: str = "record"
    note: str = ""


def _once(make: Callable[[Facts], Statistic]) -> Make:
    return lambda facts, options, setting: (PlannedRelease(make(facts)),)


def _regression(facts: Facts, options: Options, setting: Setting) -> tuple[PlannedRelease, ...]:
    return (PlannedRelease(regression_moment(facts, intercept=bool(options["fit_intercept"]))),)


def _kmeans(facts: Facts, options: Options, setting: Setting) -> tuple[PlannedRelease, ...]:
    # Where the centres lie does not matter for the noise.
    centres = np.zeros((options["n_clusters"], facts.n_features))
    rounds = options["n_iter"]
    return (PlannedRelease(cluster_sums(facts, centres=centres), 1 / rounds, rounds),)


def _network(facts: Facts, options: Options, setting: Setting) -> tuple[PlannedRelease, ...]:
    # Nor do the weights: gradients are clipped.
    hidden = np.zeros((options["n_hidden"], facts.n_features + 1))
    classes = len(facts.classes or ())
    output = np.zeros((1 if classes == 2 else classes, options["n_hidden"] + 1))
    rounds = options["n_iter"]
    gradient = network_gradient(facts, hidden=hidden, output=output, clip=float(options["clip"]), input_scale=1.0)
    return (PlannedRelease(gradient, 1 / rounds, rounds),)


_COMPONENTS, _MODELS, _REGRESSIONS, _ICA = (
    "Means and components",
    "Clusters, topics and mixtures",
    "Regressions and classifiers",
    "Joint independent components",
)
_FEW = {"n_components": 5}
_SERIES: Options = {**_FEW, "n_basis": None}
_PEOPLE: Options = {**_SERIES, "n_timepoints": 250}
_ROUNDS = {"n_iter": 200}
_RELATIVE_NOTE = (
    "How large a contribution to the last release may be is set by the first result: its scales are given relative to "
    "that. The comparison with the weakest topic or component counts the second moment alone."
)
_DESIGN_NOTE = "With design = 'auto' the first result chooses between the whole third moment and few coordinates."
_TOPIC_NOTE = (
    "If words are chosen and a length is given, how many words of a document are left is known when the words are "
    "found: noise of pairs and triples is then an upper bound."
)
_ICA_NOTE = "What is asked for depends on earlier results; how much noise it gets does not, so these numbers are exact."
_PEOPLE_NOTE = (
    f"{_ICA_NOTE} Clip radii of covariances follow from the noise of the releases before, as it is when every site "
    "finishes."
)
_POISSON_NOTE = (
    "Planned for the loss 'poisson' and counts from 0; the noise does not depend on the largest count. A loss of your "
    "own is planned in Python."
)

PLANNED: dict[str, PlannedAnalysis] = {
    "mean": PlannedAnalysis("Mean", "mean", "rows", _once(first_moments), group=_COMPONENTS),
    "pca": PlannedAnalysis(
        "Principal components", "pca", "rows", _once(second_moment), options=_FEW, group=_COMPONENTS
    ),
    "centred-pca": PlannedAnalysis(
        "Principal components, centred",
        "pca",
        "rows",
        _once(centred_moments),
        options=_FEW,
        fixed={"center": True},
        group=_COMPONENTS,
    ),
    "cca": PlannedAnalysis(
        "Canonical correlations",
        "cca",
        "views",
        _once(second_moment),
        options={"n_components": 2},
        group=_COMPONENTS,
    ),
    "centred-cca": PlannedAnalysis(
        "Canonical correlations, centred",
        "cca",
        "views",
        _once(centred_moments),
        options={"n_components": 2},
        fixed={"center": True},
        group=_COMPONENTS,
    ),
    "linear-regression": PlannedAnalysis(
        "Linear regression",
        "linear_regression",
        "labelled",
        _regression,
        options={"fit_intercept": True},
        group=_REGRESSIONS,
    ),
    "logistic-regression": PlannedAnalysis(
        "Logistic regression",
        "logistic_regression",
        "labelled",
        _regression,
        options={"fit_intercept": True},
        group=_REGRESSIONS,
    ),
    "polynomial-loss": PlannedAnalysis(
        "Poisson regression (polynomial loss)",
        "polynomial_loss",
        "labelled",
        _once(lambda facts: polynomial_coefficients(facts, loss="poisson")),
        fixed={"loss": "poisson"},
        group=_REGRESSIONS,
        note=_POISSON_NOTE,
    ),
    "network-classifier": PlannedAnalysis(
        "Network classifier",
        "network_classifier",
        "labelled",
        _network,
        options={"n_hidden": 20, "n_iter": 20, "clip": 1.0, "n_classes": 2},
        group=_REGRESSIONS,
    ),
    "kmeans": PlannedAnalysis(
        "Clusters", "kmeans", "rows", _kmeans, options={"n_clusters": 5, "n_iter": 8}, group=_MODELS
    ),
    "topic-model": PlannedAnalysis(
        "Topics of documents",
        "topic_model",
        "documents",
        moment_releases.topics,
        options={**_FEW, "n_words": None, "document_length": None},
        fixed={"design": "full"},
        group=_MODELS,
        note=f"{_DESIGN_NOTE} {_TOPIC_NOTE}",
    ),
    "whitened-topic-model": PlannedAnalysis(
        "Topics, few coordinates (many words)",
        "topic_model",
        "documents",
        moment_releases.whitened_topics,
        options={**_FEW, "n_words": None, "document_length": None},
        fixed={"design": "whitened"},
        group=_MODELS,
        note=f"{_RELATIVE_NOTE} {_TOPIC_NOTE}",
    ),
    "mixture-model": PlannedAnalysis(
        "Mixture of Gaussians",
        "mixture_model",
        "rows",
        moment_releases.mixture,
        options={**_FEW, "noise_variance": 0.01},
        fixed={"design": "full"},
        group=_MODELS,
        note=_DESIGN_NOTE,
    ),
    "whitened-mixture-model": PlannedAnalysis(
        "Mixture, few coordinates (many features)",
        "mixture_model",
        "rows",
        moment_releases.whitened_mixture,
        options={**_FEW, "noise_variance": 0.01},
        fixed={"design": "whitened"},
        group=_MODELS,
        note=_RELATIVE_NOTE,
    ),
    "joint-ica": PlannedAnalysis(
        "Joint ICA, per time point",
        "joint_ica",
        "subjects",
        ica_releases.record_moments,
        options=_SERIES,
        fixed={"solver": "moment"},
        group=_ICA,
        note=_ICA_NOTE,
    ),
    "infomax-joint-ica": PlannedAnalysis(
        "Joint ICA by infomax, per time point",
        "joint_ica",
        "subjects",
        ica_releases.record_infomax,
        options={**_SERIES, **_ROUNDS},
        fixed={"solver": "infomax"},
        group=_ICA,
        note=_ICA_NOTE,
    ),
    "subject-joint-ica": PlannedAnalysis(
        "Joint ICA, per person",
        "joint_ica",
        "subjects",
        ica_releases.subject_moments,
        options=_PEOPLE,
        fixed={"solver": "moment"},
        group=_ICA,
        unit="subject",
        note=_PEOPLE_NOTE,
    ),
    "subject-infomax-joint-ica": PlannedAnalysis(
        "Joint ICA by infomax, per person",
        "joint_ica",
        "subjects",
        ica_releases.subject_rounds,
        options={**_PEOPLE, **_ROUNDS},
        fixed={"solver": "infomax"},
        group=_ICA,
        unit="subject",
        note=_PEOPLE_NOTE,
    ),
}


def facts_of(analysis: str, widths: Sequence[int], bounds: Sequence[float], options: Options) -> Facts:
    """Return the public facts of records of these dimensions."""
    if any(width < 1 for width in widths) or any(not SMALLEST_BOUND <= bound <= LARGEST_BOUND for bound in bounds):
        given = [" and ".join(f"{number:g}" for number in numbers) for numbers in (widths, bounds)]
        raise InvalidParameter(
            f"features and bound must be positive, a bound between {SMALLEST_BOUND:g} and {LARGEST_BOUND:g}; "
            f"got {given[0]} and bound {given[1]}."
        )
    kind, unit = PLANNED[analysis].kind, PLANNED[analysis].unit
    n_classes = {"logistic-regression": 2}.get(analysis, options.get("n_classes"))
    return Facts(
        kind=kind,
        unit=unit,
        n_records=1,
        rows_per_unit=0 if unit == "subject" else 1,
        widths=tuple(widths),
        bounds=(1.0,) if kind == "documents" else tuple(bounds),
        response=(0.0, 1.0) if kind == "labelled" and n_classes is None else None,
        classes=None if n_classes is None else tuple(f"class-{index + 1}" for index in range(n_classes)),
        owner_note=MANY_TIME_POINTS if kind == "subjects" and unit == "record" else "",
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


def parameters_of(analysis: str, options: Options) -> dict[str, Any]:
    """Return all that an expected error may depend on: options, and what the analysis always has."""
    return {**options, **PLANNED[analysis].fixed}


def _checked(name: str, value: Any, usual: Any) -> Any:
    """Return a value of the usual one's kind."""
    if usual is None and value is None:
        return None
    if isinstance(usual, bool):
        if not isinstance(value, bool):
            raise InvalidParameter(f"{name} must be true or false; got {value!r}.")
        return value
    least = 2 if name == "n_classes" else 1
    whole = usual is None or isinstance(usual, int)
    if whole and (not isinstance(value, int) or isinstance(value, bool) or value < least):
        raise InvalidParameter(f"{name} must be a whole number of at least {least}; got {value!r}.")
    if name == "noise_variance" and value == 0 and not isinstance(value, bool):
        return 0.0
    # Written so that NaN is refused.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise InvalidParameter(f"{name} must be a positive number; got {value!r}.")
    return value


def releases_of(
    analysis: str, widths: Sequence[int], bounds: Sequence[float], given: Options | None = None, *, setting: Setting
) -> tuple[PlannedRelease, ...]:
    """Return what an analysis releases, for records of these public dimensions in this setting."""
    options = options_of(analysis, given or {})
    return PLANNED[analysis].releases(facts_of(analysis, widths, bounds, options), options, setting)
