"""Expected errors and sizes of noise, computed from declared facts and never from the records.

An expected error states the effect of noise on the result, for a declared spectrum. Where there is no formula for it, a
measure states the size of the noise; a rehearsal on synthetic records shows its effect. The planner page has the same
formulas (``measures.js``); ``tests/browser`` compares the two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np

from dpcape.analyses.contrasts import REACH, contrast_columns
from dpcape.analyses.correlation import correlated_width
from dpcape.analyses.cox import chosen_covariates, length_of_rows
from dpcape.analyses.description import Analysis
from dpcape.analyses.harmonise import harmonised_columns
from dpcape.analyses.joint_ica import fourth_clip, infomax_clips, subject_infomax_clip
from dpcape.analyses.kmeans import reduces
from dpcape.analyses.regression import AVERAGED, logistic_unit, residual_unit
from dpcape.analyses.scaling import is_centred
from dpcape.analyses.summary import chosen_columns
from dpcape.analyses.survival import chosen_event
from dpcape.core.arrays import FloatArray
from dpcape.core.errors import InvalidParameter
from dpcape.core.facts import PublicFacts
from dpcape.planning.declared import Declared
from dpcape.planning.kept_energy import kept_energy
from dpcape.planning.whitened_noise import views_seen, whitened_noise
from dpcape.postprocessing.eigen import noise_norm
from dpcape.postprocessing.scaling import USUAL_LENGTH
from dpcape.postprocessing.tensor_power import noise_strength
from dpcape.postprocessing.verdicts import DETERMINED, NOT_DETERMINED, UNCERTAIN
from dpcape.statistics.adjusted_products import length_of_outcomes
from dpcape.statistics.bases import as_basis
from dpcape.statistics.feature_maps import n_inputs
from dpcape.statistics.grouped_counts import n_groups_of
from dpcape.statistics.packing import packed_size4
from dpcape.statistics.polynomials import polynomial_coefficients
from dpcape.statistics.table_designs import design_width

# Expected errors, or relative sizes of noise: up to the first a result is determined, from the second it is not.
_SMALL, _LARGE = 0.1, 0.5


@dataclass(frozen=True)
class Measure:
    """Expected error, or size of the noise, as a function of the noise scales of the releases.

    Attributes
    ----------
    title : str
        What is measured, in words.
    unit : str
        Unit of the value: "share" (of one), "bound" (in units of the bound), or "ratio".
    value : callable
        Function from the scales, in the order of the releases, to the value; nondecreasing in each scale.
    is_error : bool
        False if it measures the size of the noise, not its effect on the result.
    """

    title: str
    unit: str
    value: Callable[[Sequence[float]], float]
    is_error: bool = True

    def expectation(self, scales: Sequence[float]) -> str:
        """Return a sentence on what to expect of a result with noise of these scales.

        Parameters
        ----------
        scales : sequence of float
            Noise scales of the releases, in order.
        """
        value = self.value(scales)
        shown = f"{value:.3g}" if self.unit == "ratio" else f"{100 * value:.3g}%"
        return f"Expect a result that is {expected_word(value)}: {self.title} is {shown}."


def expected_word(value: float) -> str:
    """Return the verdict to expect of a result with this expected error, or with noise of this relative size."""
    if value <= _SMALL:
        return DETERMINED
    return UNCERTAIN if value < _LARGE else NOT_DETERMINED


def measure_of(
    analysis: Analysis, facts: PublicFacts, options: Mapping[str, object], declared: Declared
) -> Measure | None:
    """Return the expected error of an analysis, or the size of its noise; None if it has no measure."""
    make = MEASURES.get(analysis.measure)
    return make(facts, options, declared) if make is not None and facts.unit in analysis.units else None


def _noise_of_mean(facts: PublicFacts, options: Mapping[str, object], declared: Declared) -> Measure:
    bound = math.hypot(*facts.bounds)

    def against_the_bound(scales: Sequence[float]) -> float:
        # After a release of lengths, rows are at most 1 long.
        return scales[-1] / (bound if len(scales) == 1 else 1.0)

    return Measure("noise of each entry of the mean, against the bound", "bound", against_the_bound)


def _noise_of_sizes(facts: PublicFacts, options: Mapping[str, object], declared: Declared) -> Measure:
    """Return the noise of one count: a cell's row is 1/sqrt(2) long, so a count has sqrt(2) times the noise."""
    if "n_groups" in options:
        n_groups = _integer(options, "n_groups")
    else:
        n_groups = n_groups_of([facts.columns[at] for at in chosen_columns(facts, options.get("by"), None)[1]])
    title = "noise of the count of a level, against the records of a group (groups of equal size)"
    return _noise(title, lambda s: math.sqrt(2) * s[0] * n_groups, "share")


def _noise_of_contrasts(facts: PublicFacts, options: Mapping[str, object], declared: Declared) -> Measure:
    """Return the noise of d: residuals reach 1.4, and groups of equal size are two apart."""
    n_outcomes = facts.n_features
    if facts.columns:
        named = (options.get(name) for name in ("contrast", "outcomes", "covariates", "site"))
        n_outcomes = len(contrast_columns(facts, *named).outcomes)
    reach = 2 * REACH * length_of_outcomes(n_outcomes)
    return _noise("noise of an adjusted difference, in standard deviations of the outcome", lambda s: reach * s[1])


def _noise_of_hazard_ratios(facts: PublicFacts, options: Mapping[str, object], declared: Declared) -> Measure:
    """Return the noise of a slope where half of the records have their event: rows as long as usual."""
    width = _integer(options, "n_covariates") if "n_covariates" in options else 1
    if facts.columns:
        event = chosen_event(facts, options.get("event"))
        chosen = chosen_covariates(facts, event, options.get("columns"))
        width = design_width([facts.columns[at] for at in chosen])
    unit = 2 * length_of_rows(width)
    title = "noise of a log hazard ratio per standard deviation (half of the records have their event)"
    return _noise(title, lambda s: unit * s[-1])


def _noise_of_locations(facts: PublicFacts, options: Mapping[str, object], declared: Declared) -> Measure:
    """Return the noise of a site's mean: rows are as long as the square root of their number, and one more."""
    if facts.columns:
        chosen, site = harmonised_columns(facts, options.get("site"), options.get("columns"))
        n_columns, n_sites = len(chosen), len(facts.columns[site].levels)
    else:
        n_columns, n_sites = facts.n_features, _integer(options, "n_sites")
    unit = n_sites * (math.sqrt(n_columns) + 1)
    title = "noise of a site's mean, in standard deviations of a column (sites of equal size)"
    return _noise(title, lambda s: unit * s[1])


def _energy_lost(facts: PublicFacts, options: Mapping[str, object], declared: Declared) -> Measure:
    width = _n_columns(facts, options)
    spectrum, square = declared.spectrum(width), math.hypot(*facts.bounds) ** 2
    wanted = checked_components(options["n_components"], width)
    # Releases up to that of the moments, if rows are recentred or clipped to a quantile; maps are one more.
    centred = is_centred(options.get("center"), options.get("clip")) or options.get("adjust") is not None
    n_moments = 3 if centred else 1 if options.get("clip") is None else 2
    in_basis = options.get("basis") is not None or options.get("n_basis") is not None

    def lost(scales: Sequence[float]) -> float:
        last = len(scales) - (bool(options.get("maps")) and len(scales) > n_moments)
        # Recentred rows, read after other releases, are at most 1 long.
        return 1 - kept_energy(spectrum * (square if last == 1 else 1.0), wanted, scales[last - 1])

    return Measure(f"captured energy{' inside the basis' if in_basis else ''} lost to noise", "share", lost)


def _correlation_of_noise(facts: PublicFacts, options: Mapping[str, object], declared: Declared) -> Measure:
    """Return about the level of whitened noise with which CCA and MultiCCA compare correlations.

    Each view is divided by its bound, or by its radius, before the last release of moments.
    """
    views = views_seen(facts, options, declared)
    n_components = options.get("n_components")
    wanted = n_components if isinstance(n_components, int) else 1
    n_moments = 3 if is_centred(options.get("center")) else 1

    def reached(scales: Sequence[float]) -> float:
        # Maps follow the moments.
        last = len(scales) - (bool(options.get("maps")) and len(scales) > n_moments)
        return whitened_noise(views, scales[last - 1], wanted)

    return Measure("correlation that noise alone would reach", "share", reached)


def _noise_of_correlations(facts: PublicFacts, options: Mapping[str, object], declared: Declared) -> Measure:
    """Return the noise of a correlation, for columns of equal variance and rows of the usual lengths."""
    size = correlated_width(facts, options.get("columns")) * USUAL_LENGTH**2
    return _noise("noise of each correlation", lambda scales: scales[-1] / math.sqrt(2) * size, "share")


def _covariance_of_noise(facts: PublicFacts, options: Mapping[str, object], declared: Declared) -> Measure:
    """Return Chevet's bound on the noise of a cross-covariance, against the largest that two views could have."""
    spectra = [declared.spectrum(width) for width in facts.widths]
    largest = math.sqrt(math.prod(float(spectrum.max()) for spectrum in spectra))
    size = sum(math.sqrt(width) for width in facts.widths) / math.sqrt(2) / largest
    title = "covariance that noise alone would reach, against the largest possible"
    return Measure(title, "share", lambda scales: scales[-1] * size)


def _variance_lost(facts: PublicFacts, options: Mapping[str, object], declared: Declared) -> Measure:
    """Return the share of the explained variance lost, for coefficients of common variance (as in ``shrinkage.py``).

    Responses in [-1, 1] are assumed uniform (variance 1/3), two classes equally frequent (variance 1). In direction j
    the right-hand side has noise of variance n: that of the cross moment, plus that of the moment acting through the
    coefficients. A coefficient of prior variance t keeps the variance t n / (t a_j^2 + n). After rounds of gradients,
    what is lost is the noise of the averaged rounds in every coefficient.
    """
    if not 0 < declared.explained < 1:
        raise InvalidParameter("explained", "be strictly between 0 and 1", repr(declared.explained), "Try 0.5.")
    classes = facts.classes is not None
    variance = declared.explained * (1.0 if classes else 1 / 3)
    n_coefficients = facts.n_features + (1 if options.get("fit_intercept", True) else 0)
    n_iter = _integer(options, "n_iter") if options.get("purpose") == "prediction" else 0

    def of_rounds(scales: Sequence[float]) -> float:
        averaged = max(1, round(AVERAGED * n_iter))
        noise = scales[-1] * math.sqrt(n_coefficients / averaged)
        unit = logistic_unit(noise) if classes else residual_unit(noise)
        return min(1.0, (unit * noise) ** 2 / variance)

    def of_moment(scales: Sequence[float]) -> float:
        scores = classes and options.get("purpose") != "prediction"
        # Three releases of scaling come first, and leave rows of length one.
        scaled = options.get("scale") == "private" and len(scales) > (4 if scores else 3)
        bound = 1.0 if scaled else facts.bounds[0]
        spectrum = declared.spectrum(facts.n_features) * bound**2
        prior = variance / float(spectrum.sum())
        scale = scales[-1] if scores else scales[3 if scaled else 0]
        # Scores of labels 0 and 1 at a quarter of the moment, or the cross moment of labels -1 and 1.
        cross = 128 / (1.25 * bound**2) if scores else 1 / (bound * math.sqrt(0.5)) ** 2
        noise = scale**2 / 2 * (cross + (16 if scores else 1) * prior * spectrum.size)
        hidden = spectrum * prior * noise / (prior * spectrum**2 + noise) if noise > 0 else np.zeros(1)
        return float(hidden.sum()) / variance

    return Measure("explained variance lost to noise", "share", of_rounds if n_iter else of_moment)


def _noise_of_scores(facts: PublicFacts, options: Mapping[str, object], declared: Declared) -> Measure:
    # Rows with a constant of half the bound are at most sqrt(1.25) bounds long.
    square = 1.25 * facts.bounds[0] ** 2
    return _noise("noise of the last release, against the largest squared length of a row", lambda s: s[-1] / square)


def checked_components(n_components: object, largest: int) -> int:
    """Return a number of components from 1 to ``largest``."""
    if not isinstance(n_components, int) or isinstance(n_components, bool) or not 1 <= n_components <= largest:
        raise InvalidParameter(
            "n_components", f"be a whole number from 1 to {largest} for an expected error", repr(n_components)
        )
    return n_components


def _integer(options: Mapping[str, object], name: str) -> int:
    """Return a whole number among checked options."""
    value = options[name]
    assert isinstance(value, Integral)
    return int(value)


def _real(options: Mapping[str, object], name: str) -> float:
    """Return a real number among checked options."""
    value = options[name]
    assert isinstance(value, Real)
    return float(value)


def _noise(title: str, value: Callable[[Sequence[float]], float], unit: str = "ratio") -> Measure:
    return Measure(title, unit, value, is_error=False)


def _noise_of_centres(facts: PublicFacts, options: Mapping[str, object], declared: Declared) -> Measure:
    few = reduces(facts.n_features, options.get("init"))
    spread = _integer(options, "n_clusters") * math.sqrt(facts.n_features + 1)

    def against_the_longest(scales: Sequence[float]) -> float:
        # In many columns, and after a release of lengths, scales are relative to the length that rows are shortened to.
        is_rescaled = options.get("clip") is not None or options.get("scale") is not None
        relative = few or (is_rescaled and len(scales) > _integer(options, "n_iter"))
        return scales[-1] * spread / (1.0 if relative else math.hypot(*facts.bounds))

    title = "noise of a centre in the last round, against the longest row (clusters of equal size)"
    return _noise(title, against_the_longest, "bound")


def _noise_of_gradients(facts: PublicFacts, options: Mapping[str, object], declared: Declared) -> Measure:
    classes, hidden = len(facts.classes or ()), _integer(options, "n_hidden")
    outputs = 1 if classes == 2 else classes
    inputs = n_inputs(str(options.get("features") or ""), facts.n_features)
    size = hidden * (inputs + 1) + outputs * (hidden + 1) if hidden else outputs * (inputs + 1)
    spread = math.sqrt(size) / _real(options, "clip")
    return _noise("length of the noise in each gradient, against the clip", lambda s: s[0] * spread)


def _noise_of_word_moments(facts: PublicFacts, options: Mapping[str, object], declared: Declared) -> Measure:
    chosen = options.get("n_words") is not None
    first, n_features = (1, _integer(options, "n_words")) if chosen else (0, facts.n_features)
    kept_values = _kept_spectrum(declared.spectrum(n_features), options)
    return _moments(
        kept_values, n_features, first, is_full=options.get("design") == "full", what=("word pairs", "topic")
    )


def _noise_of_row_moments(facts: PublicFacts, options: Mapping[str, object], declared: Declared) -> Measure:
    """Return the measure as for topics, with the noise variance subtracted from the second moment."""
    spectrum = declared.spectrum(facts.n_features) * math.hypot(*facts.bounds) ** 2 - _real(options, "noise_variance")
    kept_values, is_full = _kept_spectrum(spectrum, options), options.get("design") == "full"
    return _moments(kept_values, facts.n_features, 0, is_full=is_full, what=("second moment", "component"))


def _kept_spectrum(spectrum: FloatArray, options: Mapping[str, object]) -> FloatArray:
    return spectrum[: checked_components(options["n_components"], spectrum.size)]


def _moments(kept_values: FloatArray, n_features: int, first: int, *, is_full: bool, what: tuple[str, str]) -> Measure:
    """Compare noise with the weakest component, and noise of a whole third moment with an average strength."""
    weakest = float(kept_values[-1])

    def value(scales: Sequence[float]) -> float:
        if weakest <= 0:
            return math.inf
        second = noise_norm(scales[first], n_features) / weakest
        if not is_full:
            return second
        # In the coordinates that whiten it the third moment has strengths of sqrt(n_components) on average.
        third = noise_strength(scales[first + 1], np.diag(kept_values**-0.5)) / math.sqrt(kept_values.size)
        return max(second, third)

    source = "both moments, the worse of the two," if is_full else f"the {what[0]}"
    return _noise(f"noise of {source} against the weakest {what[1]} (at 1 or more it cannot be found)", value)


def _noise_of_rotation(facts: PublicFacts, options: Mapping[str, object], declared: Declared) -> Measure:
    n, by_record = _integer(options, "n_components"), facts.unit == "record"
    if options["solver"] == "infomax":
        n_timepoints = 0 if by_record else _integer(options, "n_timepoints")
        reach = math.hypot(*infomax_clips(n)) if by_record else subject_infomax_clip(n, n_timepoints)
        title, size, at = "length of the noise in each gradient, against its bound", n * (n + 1), -1
    else:
        reach, size = fourth_clip(n) ** 4 if by_record else 1.0, packed_size4(n)
        title = f"length of the noise in the {'fourth moment' if by_record else 'tensor'}, against its bound"
        # After the moments of PCA and whitening, or the projector, the logarithm and two covariances; more may follow.
        reduces = _n_columns(facts, options) > n
        at = 1 + reduces if by_record else 3 + reduces
    return _noise(title, lambda s: s[at] * math.sqrt(size) / reach)


def _n_columns(facts: PublicFacts, options: Mapping[str, object]) -> int:
    basis = options.get("basis")
    if basis is not None:
        return as_basis(basis).n_columns
    return facts.n_features if options.get("n_basis") is None else _integer(options, "n_basis")


def _noise_of_coefficients(facts: PublicFacts, options: Mapping[str, object], declared: Declared) -> Measure:
    statistic = polynomial_coefficients(facts, loss=str(options["loss"]))
    spread = math.sqrt(statistic.size) / statistic.radius
    return _noise("length of the noise in the coefficients, against their bound", lambda s: s[0] * spread)


MEASURES: dict[str, Callable[[PublicFacts, Mapping[str, object], Declared], Measure]] = {
    "noise_of_mean": _noise_of_mean,
    "noise_of_sizes": _noise_of_sizes,
    "noise_of_contrasts": _noise_of_contrasts,
    "noise_of_locations": _noise_of_locations,
    "noise_of_hazard_ratios": _noise_of_hazard_ratios,
    "energy_lost": _energy_lost,
    "covariance_of_noise": _covariance_of_noise,
    "noise_of_correlations": _noise_of_correlations,
    "correlation_of_noise": _correlation_of_noise,
    "variance_lost": _variance_lost,
    "noise_of_centres": _noise_of_centres,
    "noise_of_gradients": _noise_of_gradients,
    "noise_of_word_moments": _noise_of_word_moments,
    "noise_of_row_moments": _noise_of_row_moments,
    "noise_of_rotation": _noise_of_rotation,
    "noise_of_coefficients": _noise_of_coefficients,
    "noise_of_scores": _noise_of_scores,
}
# Measures that depend on a declared spectrum, and on how much of the response is explained.
SPECTRAL = frozenset(
    {
        "energy_lost",
        "correlation_of_noise",
        "covariance_of_noise",
        "variance_lost",
        "noise_of_word_moments",
        "noise_of_row_moments",
    }
)
EXPLAINED = frozenset({"variance_lost"})
