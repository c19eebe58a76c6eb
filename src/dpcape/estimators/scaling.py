"""Private scaling at the coordinator: three releases, from which centre, scale and radius follow."""

from __future__ import annotations

import warnings

import numpy as np

from dpcape.analyses.description import Public
from dpcape.analyses.scaling import Quantile, clip_used, scaling_used
from dpcape.core.arrays import BoolArray, FloatArray
from dpcape.core.errors import UtilityWarning
from dpcape.core.facts import PublicFacts
from dpcape.core.statistic import AnyStatistic, PublicValue, build
from dpcape.estimators.row_source import RowSource
from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation
from dpcape.postprocessing.scaling import (
    Scaling,
    centre_from,
    lengths_hidden,
    radius_from,
    scale_from,
    tails_of,
    top_of,
    usual_radius,
)
from dpcape.statistics.scaling import deviation_caps, views_of

# A centre whose noise is longer than this share of the radius is mostly noise.
_MOSTLY = 0.7


def private_scaling(
    federation: Federation,
    private: Allowance,
    *,
    quantile: float,
    keep_units: bool = False,
    lengths: bool = True,
    source: RowSource | None = None,
) -> Scaling:
    """Make the releases of private scaling; call it only where :func:`used_or_warned` says that it is used.

    Parameters
    ----------
    federation : Federation
        The sites.
    private : Allowance
        Its next three releases are used; two if units are kept or lengths are not released.
    quantile : float
        Share of records that should be within the radius.
    keep_units : bool
        Whether columns keep their relative units, where these define the answer: all scales are then 1.
    lengths : bool
        Whether the lengths of standardised rows are released; if not, they are taken to be near sqrt(D).
    source : RowSource or None
        Where rows are read; None for records that are rows.
    """
    source = source or RowSource(federation.facts)
    facts = source.facts
    centre = centre_from(_mean(source, private), facts.bounds, facts.widths)
    centre_noise = source.noise(private) * _mean_units(facts)
    scale = np.ones(facts.n_features)
    if not keep_units:
        deviations = source.mean(private, "absolute_deviations", centre=centre)
        noise_of_each = source.noise(private) * deviation_caps(facts)
        is_estimated = np.isnan(source.usual_scales)
        scale = np.where(is_estimated, scale_from(deviations, noise_of_each), source.usual_scales)
        # Deviations are measured from the released centre: its noise is part of them.
        _warn_of_hidden_scales(is_estimated & (deviations < 2 * np.hypot(noise_of_each, centre_noise)))
    if not lengths:
        warnings.warn(
            "The lengths of standardised rows were not released because noise would hide them; they are taken to be "
            "near the root of the number of columns. Use more records or a larger epsilon to have them measured.",
            UtilityWarning,
            stacklevel=3,
        )
        return Scaling(centre, scale, usual_radius(facts.widths), facts.widths)
    top = top_of(centre, scale, facts.bounds, facts.widths, keep_units=keep_units)
    radius, tails = _radius(source, private, centre, scale, top, quantile=quantile)
    _warn_of_a_noisy_centre(centre_noise / scale, radius, facts.widths)
    return Scaling(centre, scale, radius, facts.widths, tails)


def private_clip(federation: Federation, private: Allowance, clip: Quantile) -> Scaling:
    """Release the lengths of the rows and return the scaling that divides them by a quantile of it.

    Parameters
    ----------
    federation : Federation
        The sites.
    private : Allowance
        Its next release is used.
    clip : Quantile
        Share of the records that should not be clipped.
    """
    facts = federation.facts
    centre, scale = np.zeros(facts.n_features), np.ones(facts.n_features)
    tops = np.array(facts.bounds)
    radius, _ = _radius(RowSource(facts), private, centre, scale, tops, quantile=clip.quantile)
    return Scaling(centre, scale, radius, facts.widths)


def clipped_or_warned(federation: Federation, private: Allowance, public: Public) -> Scaling | None:
    """Clip the rows to a quantile of their lengths if that is asked for; warn if it is and noise would hide it."""
    if public.clip is None:
        return None
    if clip_used(public):
        return private_clip(federation, private, Quantile(*public.clip))
    warnings.warn(
        "Rows are not clipped to a quantile of their lengths because noise would hide the lengths of so few records; "
        "the bound is used, and the whole allowance goes to the analysis. Use more records, a larger epsilon or a "
        "closer bound.",
        UtilityWarning,
        stacklevel=4,
    )
    return None


def _radius(
    source: RowSource, private: Allowance, centre: FloatArray, scale: FloatArray, top: FloatArray, *, quantile: float
) -> tuple[FloatArray, float]:
    """Release the lengths of scaled rows; return the radius of each view, and the longest tails of lengths."""
    shares = source.mean(private, "radius_histogram", centre=centre, scale=scale, top=top)
    noise = source.noise(private)
    _warn_of_hidden_lengths(any(lengths_hidden(part, noise=noise, quantile=quantile) for part in shares))
    each = list(zip(shares, top, strict=True))
    radius = np.array([radius_from(part, float(end), noise=noise, quantile=quantile) for part, end in each])
    tails = [
        tails_of(part, float(end), radius=float(length), noise=noise, width=width)
        for (part, end), length, width in zip(each, radius, source.facts.widths, strict=True)
    ]
    return radius, max(tails)


def _warn_of_hidden_scales(hidden: BoolArray) -> None:
    """Warn of columns whose deviation is below two standard deviations of its noise: their scale is that of noise."""
    if hidden.any():
        warnings.warn(
            f"The scale of {hidden.sum()} of {hidden.size} columns is that of noise, which hides their deviations. "
            "These columns count for less than others. Narrow their ranges, or use more records or a larger epsilon.",
            UtilityWarning,
            stacklevel=4,
        )


def _warn_of_hidden_lengths(hidden: bool) -> None:
    """Warn that noise hides all lengths in their histogram."""
    if hidden:
        warnings.warn(
            "No radius was found because noise hides the lengths of the rows; the largest possible length is used, so "
            "that nothing is clipped and noise is large. Use more records or a larger epsilon.",
            UtilityWarning,
            stacklevel=4,
        )


def _warn_of_a_noisy_centre(noise: FloatArray, radius: FloatArray, widths: tuple[int, ...]) -> None:
    """Warn of a centre that is mostly noise.

    Lengths are measured from the released centre, so that noise as long as most of the radius is what they consist of.
    """
    lengths = np.array([float(np.linalg.norm(noise[view])) for view in views_of(widths)])
    if (lengths > _MOSTLY * radius).any():
        warnings.warn(
            "The released centre is mostly noise: rows lie hardly closer to it than its noise is long. Recentring then "
            "does not help. Use more records or a larger epsilon, narrow the ranges, or fit without centring or "
            "private scaling.",
            UtilityWarning,
            stacklevel=4,
        )


def _mean(source: RowSource, private: Allowance) -> FloatArray:
    """Return the released mean; two views are divided by their bounds first, so that their units do not matter."""
    if len(source.facts.widths) == 1:
        mean, _ = source.mean(private, "first_moments")
        return np.asarray(mean)
    divided = by_bounds(source.facts)
    mean, _ = source.mean(private, "scaled_first_moments", **divided.arrays)
    return divided.rows(mean)


def _mean_units(facts: PublicFacts) -> FloatArray:
    """Return the units in which the mean is released: the bounds for two views."""
    return np.ones(facts.n_features) if len(facts.widths) == 1 else np.repeat(facts.bounds, facts.widths)


def by_bounds(facts: PublicFacts) -> Scaling:
    """Return the scaling that divides each view by its bound."""
    width = facts.n_features
    return Scaling(np.zeros(width), np.ones(width), np.array(facts.bounds), facts.widths)


def used_or_warned(public: Public, wanted: bool | None = None) -> bool:
    """Return whether private scaling is used, by the rule of the schedule; warn if it is asked for and is not."""
    used = bool(scaling_used(public, wanted))
    if not used and (public.scale == "private" if wanted is None else wanted):
        warn_of_no_scaling()
    return used


def recentred_or_warned(public: Public) -> bool:
    """Return whether rows are recentred before their moments are released; warn if they should be and are not."""
    used = bool(scaling_used(public, wanted=True))
    if not used:
        warnings.warn(
            "Rows are not recentred because the noise would hide the lengths of so few records: mean and second moment "
            "are released together, and a mean far from zero multiplies their noise. Use more records or a larger "
            "epsilon, or ranges whose middle is near the mean.",
            UtilityWarning,
            stacklevel=4,
        )
    return used


def warn_of_no_scaling() -> None:
    """Warn that private scaling is asked for and not used."""
    warnings.warn(
        "Private scaling is not used because the noise would hide the lengths of so few records. Rows are read as "
        "they are, and the whole allowance goes to the analysis. Use more records or a larger epsilon, or choose "
        "ranges and bound closely.",
        UtilityWarning,
        stacklevel=4,
    )


def scaled(facts: PublicFacts, scaling: Scaling | None, statistic: str, **public: PublicValue) -> AnyStatistic:
    """Return a statistic of standardised records, or of the records themselves if there is no scaling."""
    if scaling is None:
        return build(statistic, facts, public)
    return build(f"scaled_{statistic}", facts, {**scaling.arrays, **public})
