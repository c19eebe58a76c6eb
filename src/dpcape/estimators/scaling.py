"""Private scaling at the coordinator: three releases, from which centre, scale and radius follow."""

from __future__ import annotations

import warnings

import numpy as np

from dpcape.analyses.description import Public
from dpcape.analyses.scaling import scaling_used
from dpcape.errors import UtilityWarning
from dpcape.facts import PublicFacts
from dpcape.federation import Allowance, Federation
from dpcape.postprocessing.scaling import Scaling, centre_from, radius_from, scale_from, top_of
from dpcape.statistics import build, first_moments
from dpcape.statistics.scaling import AbsoluteDeviations, RadiusHistogram, deviation_caps
from dpcape.statistics.statistic import AnyStatistic, PublicValue


def private_scaling(
    federation: Federation, private: Allowance, *, quantile: float, keep_units: bool = False
) -> Scaling:
    """Make the releases of private scaling; call it only where :func:`used_or_warned` says that it is used.

    Parameters
    ----------
    federation : Federation
        The sites.
    private : Allowance
        Its next three releases are used; two if units are kept.
    quantile : float
        Share of records that should be within the radius.
    keep_units : bool
        Whether columns keep their relative units, where these define the answer: all scales are then 1.
    """
    facts = federation.facts
    mean, _ = private.mean(first_moments(facts))
    centre = centre_from(mean, facts.bounds, facts.widths)
    scale = np.ones(facts.n_features)
    if not keep_units:
        deviations = private.mean(AbsoluteDeviations(facts, centre=centre))
        scale = scale_from(deviations, private.releases[-1].scale * deviation_caps(facts))
    top = top_of(centre, scale, facts.bounds, facts.widths, keep_units=keep_units)
    shares = private.mean(RadiusHistogram(facts, centre=centre, scale=scale, top=top))
    noise = private.releases[-1].scale
    each = zip(shares, top, strict=True)
    radius = [radius_from(part, float(end), noise=noise, quantile=quantile) for part, end in each]
    return Scaling(centre, scale, np.array(radius), facts.widths)


def used_or_warned(public: Public, wanted: bool | None = None) -> bool:
    """Return whether private scaling is used, by the rule of the schedule; warn if it is asked for and is not."""
    used = bool(scaling_used(public, wanted))
    if not used and (public.scale == "private" if wanted is None else wanted):
        warnings.warn(
            "Private scaling is not used because the noise would hide the lengths of so few records. Rows are read as "
            "they are, and the whole allowance goes to the analysis. Use more records or a larger epsilon, or choose "
            "ranges and bound closely.",
            UtilityWarning,
            stacklevel=3,
        )
    return used


def scaled(facts: PublicFacts, scaling: Scaling | None, statistic: str, **public: PublicValue) -> AnyStatistic:
    """Return a statistic of standardised records, or of the records themselves if there is no scaling."""
    if scaling is None:
        return build(statistic, facts, public)
    return build(f"scaled_{statistic}", facts, {**scaling.arrays, **public})
