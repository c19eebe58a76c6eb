"""Releases of private scaling: one fragment of a schedule for all analyses that offer ``scale="private"``."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import replace
from typing import Any, NamedTuple

from dpcape.analyses.description import Public
from dpcape.analyses.parameters import CHOICE, FLAG, OTHER, Parameter, is_number, shown
from dpcape.analyses.release import Release, Step
from dpcape.core.errors import InvalidParameter
from dpcape.statistics.length_bins import N_BINS

SCALE = Parameter("scale", CHOICE, None, optional=True, words=("private",))
"""Whether centre, scale and radius are found privately (``"private"``) or rows are read as they are (None)."""
MEAN_SHARE, DEVIATION_SHARE, RADIUS_SHARE = 0.04, 0.05, 0.04
"""Shares of mu^2 of the three releases."""
VIEWS_MEAN_SHARE, VIEWS_DEVIATION_SHARE = 0.08, 0.1
"""Shares of mu^2 of mean and deviations of views that are standardised: their noise decides if ranges are generous."""
MOST_NOISE = 0.2
"""With more noise than this share of the records in the whole histogram of lengths, scaling is not tried."""


class Quantile(NamedTuple):
    """A length that about a share of the records does not exceed, found by a release of its own.

    Attributes
    ----------
    quantile : float
        Share of the records that should not be clipped, from 0.5 to 0.999.
    share : float
        Share of mu^2 that finding it takes, from 0.01 to 0.5.
    """

    quantile: float
    share: float = 0.05


def _refuse_clip(value: object, p: Public) -> None:
    if value is None:
        return
    pair = isinstance(value, tuple | list) and len(value) == 2 and all(is_number(entry) for entry in value)
    if not pair or not 0.5 <= float(value[0]) <= 0.999 or not 0.01 <= float(value[1]) <= 0.5:  # type: ignore[index]
        must = "be None, or a quantile from 0.5 to 0.999 and a share of the budget from 0.01 to 0.5"
        raise InvalidParameter("clip", must, shown(value), "Write Quantile(0.9, share=0.05).")
    if p.kind == "views":
        remedy = "Choose bounds."
        raise InvalidParameter("clip", "be None for views, whose relative units it would change", shown(value), remedy)


CENTER = Parameter("center", FLAG, None, optional=True)
"""Whether the mean is released and subtracted; None, the default, is as :func:`is_centred` says."""
CLIP = Parameter("clip", OTHER, None, optional=True, refuse=_refuse_clip)
"""Whether rows are clipped to a privately found quantile of their lengths (:class:`Quantile`), or not again (None)."""


def is_centred(center: object, clip: object = None) -> bool:
    """Return whether rows are centred: with None they are, unless they are clipped around the origin.

    Parameters
    ----------
    center : bool or None
        The parameter.
    clip : Quantile or None
        The parameter ``clip``, of an analysis that has one.
    """
    return clip is None if center is None else bool(center)


class ScalingPlan(NamedTuple):
    """What a schedule needs to know after scaling.

    Attributes
    ----------
    used : bool
        Whether records are scaled: from here on in standardised units.
    left : float
        Share of mu^2 that is left.
    bound : float
        Largest length of a row from here on, all views together.
    """

    used: bool
    left: float
    bound: float


def scaling_used(p: Public, wanted: bool | None = None) -> bool:
    """Return whether scaling is asked for and can work, from public numbers alone.

    If the noise of the whole histogram of lengths is more than a fifth of the records, no radius can be found: the
    analysis then spends nothing on scaling and reads rows as they are.

    Parameters
    ----------
    p : Public
        Public numbers of the study.
    wanted : bool or None
        Whether it is asked for; None for an analysis with the parameter :data:`SCALE`, which says so.
    """
    return (p.scale == "private" if wanted is None else wanted) and lengths_found(p)


def lengths_found(p: Public, share: float = RADIUS_SHARE) -> bool:
    """Return whether the noise of the whole histogram of lengths is at most a fifth of the records."""
    return bool(math.sqrt(2 * p.n_views * N_BINS / share) / (p.mu * p.n_records) <= MOST_NOISE)


def clip_used(p: Public) -> bool:
    """Return whether rows are clipped to a quantile of their lengths: if asked for, and if noise does not hide them."""
    return False if p.clip is None else lengths_found(p, Quantile(*p.clip).share)


def deviations_found(p: Public) -> bool:
    """Return whether the noise of a deviation is at most a fifth of the largest that counts."""
    return bool(math.sqrt(p.n_features / _standard_shares(p)[1]) / (p.mu * p.n_records) <= MOST_NOISE)


def _standard_shares(p: Public) -> tuple[float, float]:
    """Return the shares of mean and deviations where rows are standardised; those of views by simulated ones."""
    return (VIEWS_MEAN_SHARE, VIEWS_DEVIATION_SHARE) if p.kind == "views" else (MEAN_SHARE, DEVIATION_SHARE)


def scaling_plan(p: Public, *, wanted: bool | None = None, keep_units: bool = False) -> ScalingPlan:
    """Return what a schedule needs to know after scaling, without its releases; see :func:`scaling`."""
    used = scaling_used(p, wanted)
    spent = MEAN_SHARE + RADIUS_SHARE + (0.0 if keep_units else DEVIATION_SHARE)
    return ScalingPlan(used, (1 - spent if used else 1.0), (math.sqrt(p.n_views) if used else p.bound))


def scaling(p: Public, *, wanted: bool | None = None, keep_units: bool = False) -> Generator[Step, Any, ScalingPlan]:
    """Yield the releases of private scaling, and return what follows from them.

    Write ``plan = yield from scaling(p)`` in a schedule whose analysis has the parameter :data:`SCALE`, then ``yield
    from scaled_release(plan, ...)`` for each later release.

    Parameters
    ----------
    p : Public
        Public numbers of the study.
    wanted : bool or None
        As for :func:`scaling_used`.
    keep_units : bool
        Whether columns keep their relative units: deviations are then not released.
    """
    plan = scaling_plan(p, wanted=wanted, keep_units=keep_units)
    yield _mean_release(p, plan.used)
    if not keep_units:
        yield Release("absolute_deviations", {"n_features": p.n_features}, DEVIATION_SHARE, when=plan.used)
    yield _radius_release(p, plan.used)
    return plan


def standardising(p: Public) -> Generator[Step, Any, ScalingPlan]:
    """Yield the releases of private scaling for an analysis that can do without lengths, and return what follows.

    Of so few records that noise would hide their lengths, mean and deviations are released all the same: standardised
    rows of D columns have lengths near sqrt(D), which is public.

    Parameters
    ----------
    p : Public
        Public numbers of the study.
    """
    used = deviations_found(p)
    measured = used and lengths_found(p)
    mean_share, deviation_share = _standard_shares(p)
    yield _mean_release(p, used, mean_share)
    yield Release("absolute_deviations", {"n_features": p.n_features}, deviation_share, when=used)
    yield _radius_release(p, measured)
    spent = mean_share + deviation_share
    remaining = 1 - spent - RADIUS_SHARE if measured else (1 - spent if used else 1.0)
    return ScalingPlan(used, remaining, (math.sqrt(p.n_views) if used else p.bound))


def clipping(p: Public) -> Generator[Step, Any, ScalingPlan]:
    """Yield the release of lengths for an analysis with the parameter :data:`CLIP`, and return what follows from it.

    Rows keep their place and their relative units: they are divided by the length found and clipped to 1.

    Parameters
    ----------
    p : Public
        Public numbers of the study.
    """
    if p.clip is None:
        return ScalingPlan(False, 1.0, p.bound)
    used, share = clip_used(p), Quantile(*p.clip).share
    yield Release("radius_histogram", {"n_features": p.n_features, "n_views": p.n_views}, share, when=used)
    return ScalingPlan(used, (1 - share if used else 1.0), (1.0 if used else p.bound))


def _radius_release(p: Public, used: bool) -> Release:
    return Release("radius_histogram", {"n_features": p.n_features, "n_views": p.n_views}, RADIUS_SHARE, when=used)


def _mean_release(p: Public, used: bool, share: float = MEAN_SHARE) -> Release:
    """Return the release of the mean; views are divided by their bounds, so that their units do not matter."""
    name, bound = ("scaled_first_moments", math.sqrt(p.n_views)) if p.kind == "views" else ("first_moments", p.bound)
    return Release(name, {"n_features": p.n_features, "bound": bound}, share, when=used)


def scaled_release(
    plan: ScalingPlan, statistic: str, numbers: dict[str, float | None], share: float = 1.0, times: float = 1
) -> Generator[Release, Any, None]:
    """Yield a release that follows scaling: of the scaled statistic if scaling is used, else of the statistic itself.

    Parameters
    ----------
    plan : ScalingPlan
        What :func:`scaling` returned.
    statistic : str
        Name of the statistic of rows as they are.
    numbers : dict
        Its public numbers; those that depend on the bound use ``plan.bound``.
    share : float
        Share of what is left of mu^2, each time.
    times : float
        How many times it is made.
    """
    each = share * plan.left
    yield Release(f"scaled_{statistic}", numbers, each, times, when=plan.used)
    yield Release(statistic, numbers, each, times, when=not plan.used)


def only(steps: Generator[Release, Any, None], when: bool) -> Generator[Release, Any, None]:
    """Yield releases that are made only on a further condition."""
    for step in steps:
        yield replace(step, when=step.when and when)
