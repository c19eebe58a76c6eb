"""Level of whitened noise with which canonical correlations are compared, for declared spectra."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dpcape.analyses.wide import view_basis_columns
from dpcape.core.arrays import FloatArray
from dpcape.core.facts import PublicFacts
from dpcape.planning.declared import Declared
from dpcape.postprocessing.eigen import noise_norm


class SeenView(NamedTuple):
    """Declared spectrum of a view, and whether the view is seen through a public basis."""

    spectrum: FloatArray
    in_basis: bool


def views_seen(facts: PublicFacts, options: Mapping[str, object], declared: Declared) -> list[SeenView]:
    """Return the declared spectra of views, each of as many columns as are analysed.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of the records.
    options : mapping
        Parameters of the analysis, or what a plan asks for instead.
    declared : Declared
        Shape of the spectra.
    """
    n_basis = view_basis_columns(options)
    counts = [n_basis["n_x_basis"], n_basis["n_y_basis"]] if len(facts.widths) == 2 else [None] * len(facts.widths)
    return [
        SeenView(declared.spectrum(few if isinstance(few, int) else width), few is not None)
        for few, width in zip(counts, facts.widths, strict=True)
    ]


def whitened_noise(views: Sequence[SeenView], scale: float, n_components: int) -> float:
    """Return about the largest correlation that noise of this scale has.

    For two views the bound is Chevet's; the mean of several correlations is the eigenvalue over the number of views
    minus one.

    Parameters
    ----------
    views : sequence of SeenView
        Declared spectra.
    scale : float
        Standard deviation of the noise on the diagonal of the released moment.
    n_components : int
        Number of pairs that are wanted.
    """
    if scale == 0:
        return 0.0
    sums, tops = [], []
    for spectrum, in_basis in views:
        shares = _shares_seen(spectrum, scale, n_components) if in_basis else _floored_shares(spectrum, scale)
        sums.append(math.sqrt(float(shares.sum())))
        tops.append(math.sqrt(float(shares.max())))
    n_views = len(views)
    reached = [tops[view] * math.hypot(*sums[:view], *sums[view + 1 :]) for view in range(n_views)]
    return scale / math.sqrt(2) * 2 * sum(reached) / (n_views * (n_views - 1))


def _floored_shares(spectrum: FloatArray, scale: float) -> FloatArray:
    """Return the squared factors with which directions are whitened."""
    return 1 / np.maximum(spectrum, 1.5 * noise_norm(scale, spectrum.size))


def _shares_seen(spectrum: FloatArray, scale: float, n_components: int) -> FloatArray:
    """Return the same of a view in a basis, of which directions that noise hides are left out beyond the wanted number.

    Noise of a direction that is left out counts as much as where it was last seen, so that more noise is never better.
    """
    first, further = spectrum[:n_components], np.maximum(spectrum[n_components:], 1e-300)
    last_seen = further / (1.5 * noise_norm(1.0, spectrum.size))
    return np.concatenate([_floored_shares(first, scale), np.minimum(1.0, last_seen / scale) ** 2 / further])
