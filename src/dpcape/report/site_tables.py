"""Sites in words: location and scale of sites, and random effects over sites, as rows or plain text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from dpcape.core.arrays import AnyArray, FloatArray

BY_SITE = "Noisy totals of each site are visible in this result, under every protocol."
SITES_HEADER = ["site", "records", "part kept", "location (root mean square)", "scale (mean)"]
EFFECTS_HEADER = [
    "column",
    "mean, these sites",
    "mean, wider population",
    "SD between sites",
    "I^2",
    "mean of a further site",
]


class FittedSites(Protocol):
    """What texts and plots are made from: location and scale of sites."""

    sites_: AnyArray
    columns_: AnyArray
    location_: FloatArray
    scale_: FloatArray
    centre_: FloatArray
    sizes_: FloatArray
    kept_: FloatArray
    between_: float
    left_: float


class FittedEffects(Protocol):
    """What texts and plots are made from: random effects over sites."""

    sites_: AnyArray
    columns_: AnyArray
    mean_: FloatArray
    interval_: FloatArray
    pooled_: FloatArray
    pooled_interval_: FloatArray
    prediction_: FloatArray
    tau_: FloatArray
    tau_interval_: FloatArray
    i2_: FloatArray
    i2_interval_: FloatArray
    site_means_: FloatArray
    site_intervals_: FloatArray
    sizes_: FloatArray
    confidence: float


def harmonise_rows(model: FittedSites) -> list[list[str]]:
    """Return one row per site."""
    return [
        [str(site), f"{size:.0f}", f"{100 * part:.0f}%", f"{np.sqrt((own**2).mean()):.3g}", f"{ratio.mean():.2f}"]
        for site, size, part, own, ratio in zip(
            model.sites_, model.sizes_, model.kept_, model.location_, model.scale_, strict=True
        )
    ]


def harmonise_notes(model: FittedSites) -> list[str]:
    """Return what must be said below the table."""
    before, after = (100 * share / (1 + share) for share in (model.between_, model.left_))
    return [
        f"Sites explain {before:.2g}% of the variance before harmonisation, and at most {after:.2g}% after it. "
        f"{BY_SITE} Records are harmonised at their site by these public numbers: later analyses keep their own "
        "guarantees.",
    ]


def harmonise_text(model: FittedSites) -> str:
    """Return location and scale of the sites as plain text."""
    return "\n".join([_aligned(SITES_HEADER, harmonise_rows(model)), "", *harmonise_notes(model)])


def heterogeneity_rows(model: FittedEffects) -> list[list[str]]:
    """Return one row per column."""
    return [
        [
            str(name),
            _with_ends(model.pooled_[at], model.pooled_interval_[:, at]),
            _with_ends(model.mean_[at], model.interval_[:, at]),
            _with_ends(model.tau_[at], model.tau_interval_[:, at]),
            _with_ends(100 * model.i2_[at], 100 * model.i2_interval_[:, at], "%"),
            _ends(model.prediction_[:, at]),
        ]
        for at, name in enumerate(model.columns_)
    ]


def heterogeneity_notes(model: FittedEffects) -> list[str]:
    """Return what must be said below the table."""
    there = int((model.sizes_ > 0).sum())
    return [
        f"{there} of {len(model.sites_)} sites have clearly more records than noise, and count. The first interval is "
        "for these sites; the second is for the wider population of sites that these are a sample of, and the last for "
        f"the mean of one further site. {100 * model.confidence:g}% intervals cover sampling and noise; with few sites "
        "they are wide.",
        BY_SITE,
    ]


def heterogeneity_text(model: FittedEffects) -> str:
    """Return random effects as plain text."""
    return "\n".join([_aligned(EFFECTS_HEADER, heterogeneity_rows(model)), "", *heterogeneity_notes(model)])


def _with_ends(value: float, ends: FloatArray, unit: str = "") -> str:
    if not np.isfinite([value, *ends]).all():
        return "unknown"
    return f"{value:.4g}{unit} ({ends[0]:.4g} to {ends[1]:.4g})"


def _ends(ends: FloatArray) -> str:
    return f"{ends[0]:.4g} to {ends[1]:.4g}" if np.isfinite(ends).all() else "unknown"


def _aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, *rows]
    widths = [max(len(line[at]) for line in lines) for at in range(len(header))]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip() for line in lines
    )
