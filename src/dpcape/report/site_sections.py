"""Report sections about sites: their location and scale, and random effects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from dpcape.report.loading_sections import FittedModel, figure_of
from dpcape.report.page import Picture, ReportSection, Table
from dpcape.report.site_plots import forest_plot, offset_plot
from dpcape.report.site_tables import (
    EFFECTS_HEADER,
    SITES_HEADER,
    FittedEffects,
    FittedSites,
    harmonise_notes,
    harmonise_rows,
    heterogeneity_notes,
    heterogeneity_rows,
)

_SHOWN, _DRAWN = 60, 3


def sites(model: FittedModel, names: Sequence[str]) -> ReportSection | None:
    """Return the section about location and scale of sites; None if the model has none."""
    if not (hasattr(model, "location_") and hasattr(model, "sites_") and hasattr(model, "kept_")):
        return None
    fitted = cast("FittedSites", model)
    listed = "; ".join(
        f"{site}: {np.sqrt((own**2).mean()):.3g}" for site, own in zip(fitted.sites_, fitted.location_, strict=True)
    )
    picture = Picture(
        figure_of(offset_plot(fitted)),
        f"Offsets of sites, root mean square over columns: {listed}.",
        "Offsets of sites before harmonisation, and the band within which they usually are after it.",
    )
    table = Table(SITES_HEADER, harmonise_rows(fitted)[:_SHOWN])
    return ReportSection("Sites", text=harmonise_notes(fitted), pictures=[picture], tables=[table])


def heterogeneity(model: FittedModel, names: Sequence[str]) -> ReportSection | None:
    """Return the section about random effects over sites; None if the model has none."""
    if not (hasattr(model, "tau_") and hasattr(model, "prediction_")):
        return None
    fitted = cast("FittedEffects", model)
    pictures = [
        Picture(
            figure_of(forest_plot(fitted, at)),
            f"Forest plot of {name}: mean over sites {fitted.mean_[at]:.4g}, standard deviation between sites "
            f"{fitted.tau_[at]:.3g}.",
            f"Means of {name} by site; below the line, what holds for these sites and beyond.",
        )
        for at, name in enumerate(fitted.columns_[:_DRAWN])
    ]
    table = Table(EFFECTS_HEADER, heterogeneity_rows(fitted)[:_SHOWN])
    return ReportSection(
        "Differences between sites", text=heterogeneity_notes(fitted), pictures=pictures, tables=[table]
    )
