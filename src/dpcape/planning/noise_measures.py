"""How large the noise is where nobody can say what it does to the result: that is found out by a rehearsal."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcape.facts import Facts
from dpcape.planning.expected_error import Declared, Measure, checked_components
from dpcape.postprocessing.eigen import noise_norm
from dpcape.statistics import polynomial_coefficients
from dpcape.statistics.fourth_packing import packed_size4

Options = Mapping[str, Any]


def _noise(title: str, value: Callable[[Sequence[float]], float], unit: str = "ratio") -> Measure:
    return Measure(title, unit, value, is_error=False)


def _kmeans(facts: Facts, options: Options, declared: Declared) -> Measure:
    bound, n_clusters = math.hypot(*facts.bounds), options["n_clusters"]
    spread = n_clusters * math.sqrt(facts.n_features + 1) / bound
    title = "noise of a centre in each round, against the bound (clusters of equal size)"
    return _noise(title, lambda s: s[0] * spread, "bound")


def _network(facts: Facts, options: Options, declared: Declared) -> Measure:
    classes, hidden = len(facts.classes or ()), options["n_hidden"]
    outputs = 1 if classes == 2 else classes
    size = hidden * (facts.n_features + 1) + outputs * (hidden + 1)
    spread = math.sqrt(size) / float(options["clip"])
    return _noise("length of the noise in each gradient, against the clip", lambda s: s[0] * spread)


def _topics(facts: Facts, options: Options, declared: Declared) -> Measure:
    n_words, first = options.get("n_words"), 0 if options.get("n_words") is None else 1
    n_features = facts.n_features if n_words is None else int(n_words)
    kept = _kept(declared.spectrum(n_features), options)
    return _moments(kept, n_features, first, whole=options.get("design") == "full", what=("word pairs", "topic"))


def _mixture(facts: Facts, options: Options, declared: Declared) -> Measure:
    """Like topics, for the second moment less the variance of the noise in every column."""
    spectrum = declared.spectrum(facts.n_features) * math.hypot(*facts.bounds) ** 2 - float(options["noise_variance"])
    kept, whole = _kept(spectrum, options), options.get("design") == "full"
    return _moments(kept, facts.n_features, 0, whole=whole, what=("second moment", "component"))


def _kept(spectrum: NDArray[np.float64], options: Options) -> NDArray[np.float64]:
    return spectrum[: checked_components(options["n_components"], spectrum.size)]


def _moments(kept: NDArray[np.float64], n_features: int, first: int, *, whole: bool, what: tuple[str, str]) -> Measure:
    """Compare noise with the weakest component; that of a whole third moment also with an average strength."""
    from dpcape.postprocessing.tensor_power import noise_strength

    weakest = float(kept[-1])

    def value(scales: Sequence[float]) -> float:
        if weakest <= 0:
            return math.inf
        second = noise_norm(scales[first], n_features) / weakest
        if not whole:
            return second
        # In the coordinates that whiten it the third moment has strengths of sqrt(n_components) on average.
        third = noise_strength(scales[first + 1], np.diag(kept**-0.5)) / math.sqrt(kept.size)
        return max(second, third)

    source = "both moments, the worse of the two," if whole else f"the {what[0]}"
    return _noise(f"noise of {source} against the weakest {what[1]} (from 1 on it is drowned)", value)


def _joint_ica(facts: Facts, options: Options, declared: Declared) -> Measure:
    from dpcape.estimators.joint_ica_stages import fourth_clip, infomax_clips, subject_infomax_clip

    n, by_record = options["n_components"], facts.unit == "record"
    if options["solver"] == "infomax":
        reach = math.hypot(*infomax_clips(n)) if by_record else subject_infomax_clip(n, options["n_timepoints"])
        title, size, at = "length of the noise in each gradient, against its bound", n * (n + 1), -1
    else:
        reach, size = fourth_clip(n) ** 4 if by_record else 1.0, packed_size4(n)
        title = f"length of the noise in the {'fourth moment' if by_record else 'tensor'}, against its bound"
        # After the projector (if there is one), the logarithm and two covariances; polishing follows.
        at = -1 if by_record else 3 + (_n_columns(facts, options) > n)
    return _noise(title, lambda s: s[at] * math.sqrt(size) / reach)


def _n_columns(facts: Facts, options: Options) -> int:
    basis, given = options.get("basis"), options.get("n_basis")
    if basis is not None:
        return int(np.asarray(basis).shape[1])
    return facts.n_features if given is None else int(given)


def _polynomial(facts: Facts, options: Options, declared: Declared) -> Measure:
    statistic = polynomial_coefficients(facts, loss=options["loss"])
    spread = math.sqrt(statistic.size) / statistic.radius
    return _noise("length of the noise in the coefficients, against their bound", lambda s: s[0] * spread)


NOISE_MEASURES: dict[str, Callable[[Facts, Options, Declared], Measure]] = {
    "kmeans": _kmeans,
    "network_classifier": _network,
    "topic_model": _topics,
    "mixture_model": _mixture,
    "joint_ica": _joint_ica,
    "polynomial_loss": _polynomial,
}
