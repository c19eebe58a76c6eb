"""Releases of analyses of wide rows in a public basis, and of maps of what the basis leaves out."""

from __future__ import annotations

from collections.abc import Mapping

from dpcape.analyses.description import Public
from dpcape.analyses.parameters import FLAG, OTHER, WHOLE, Parameter
from dpcape.analyses.release import Refusal, Steps
from dpcape.analyses.scaling import ScalingPlan, only, scaled_release
from dpcape.errors import InvalidParameter
from dpcape.formula import Condition, Number, both, choose, given, negation, sqrt
from dpcape.statistics.bases import as_basis

BREAK_EVEN = 2.0
"""Maps are released if records times mu are at least this many times components times the root of the columns."""
FEW_SHARE, MANY_SHARE, MANY = 0.35, 0.6, 5.0
"""Share of mu^2 of the maps: more from ``MANY`` instead of ``BREAK_EVEN`` on, where the basis needs less."""


def _refuse_basis(value: object, p: Public) -> None:
    if value is None:
        return
    basis = as_basis(value)
    if basis.n_features != p.n_features:
        raise InvalidParameter(
            f"basis must have one row per column of the records ({p.n_features}); got {basis.n_features}. Use a basis "
            "of the voxels of the mask."
        )


BASIS = Parameter("basis", OTHER, None, optional=True, refuse=_refuse_basis)
"""Public basis in which wide rows are analysed; None for the columns themselves."""
MAPS = Parameter("maps", FLAG, False)
"""Whether maps of what the basis leaves out are released too."""
N_BASIS = Parameter(
    "n_basis",
    WHOLE,
    None,
    1,
    lambda p: p.n_features,
    optional=True,
    planned=8,
    title="Public basis, columns",
    left_out="none",
)
"""Number of columns of the basis, which plans ask for instead of the basis."""


def basis_columns(parameters: Mapping[str, object]) -> dict[str, object]:
    """Return the number of columns of the public basis among the parameters; None if it is none or not valid."""
    if "n_basis" in parameters:
        return {}
    basis = parameters.get("basis")
    try:
        return {"n_basis": None if basis is None else as_basis(basis).n_columns}
    except InvalidParameter:
        # The check of the parameter says what is wrong with it.
        return {"n_basis": None}


def columns_of(p: Public) -> Number:
    """Return the number of columns that are analysed: those of the basis, or of the rows."""
    columns: Number = choose(given(p.n_basis), p.n_basis, p.n_features)
    return columns


def refused_maps(p: Public) -> Steps:
    """Yield the refusals of maps without a basis, or of an unknown number of them."""
    if not p.maps:
        return
    none = "maps must be False without a basis; got True. Give a public basis, or leave maps out."
    yield Refusal(negation(given(p.n_basis)), none)
    auto = "n_components must be a whole number with maps=True; got 'auto'. Choose how many maps are released."
    yield Refusal(p.n_components == "auto", auto)


def maps_used(p: Public, plan: ScalingPlan, *, asked: bool) -> Condition:
    """Return whether maps are released: if they are asked for, and if noise does not hide them.

    A map has D entries with noise 2 b sqrt(K) / (N mu) for residuals of length b, and its signal is of the order of
    b / sqrt(K): the noise is as strong as the signal where N mu is about 2 K sqrt(D). Shrinkage makes use of less. The
    rule follows from simulated volumes (experiments/wide): below twice K sqrt(D) the whole allowance is better spent
    on the basis.

    Parameters
    ----------
    p : Public
        Public numbers of the study.
    plan : ScalingPlan
        What follows from scaling.
    asked : bool
        Whether scaling was asked for: then maps are released only if it is used.
    """
    if not p.maps:
        return False
    found = both(given(p.n_basis), lambda: _strength(p) >= BREAK_EVEN)
    return both(found, plan.used) if asked else found


def map_share(p: Public) -> Number:
    """Return the share of the maps, of what is left of mu^2."""
    return choose(_strength(p) >= MANY, MANY_SHARE, FEW_SHARE)


def _strength(p: Public) -> Number:
    strength: Number = p.n_records * p.total_mu / (p.n_components * sqrt(p.n_features))
    return strength


def map_releases(p: Public, plan: ScalingPlan, moments: str, *, asked: bool) -> Steps:
    """Yield the releases of moments in a basis, and of maps of what it leaves out, if there is a basis.

    Parameters
    ----------
    p : Public
        Public numbers of the study.
    plan : ScalingPlan
        What follows from scaling.
    moments : str
        Name of the statistic of moments.
    asked : bool
        Whether scaling was asked for.
    """
    used = maps_used(p, plan, asked=asked)
    share: Number = 0.0 if used is False else choose(used, map_share(p), 0.0)
    inside = {"n_features": p.n_features, "n_columns": columns_of(p), "bound": plan.bound}
    yield from only(scaled_release(plan, moments, inside, 1 - share), given(p.n_basis))
    if used is not False:
        maps = {"n_features": p.n_features, "n_components": p.n_components}
        yield from only(scaled_release(plan, "residual_maps", maps, share), used)
