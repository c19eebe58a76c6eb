"""Releases of analyses of wide rows in a public basis, and of maps of what the basis leaves out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from dpcape.analyses.description import Public
from dpcape.analyses.parameters import FLAG, OTHER, REQUIRED, WHOLE, Parameter
from dpcape.analyses.release import Refusal, Steps
from dpcape.analyses.scaling import ScalingPlan, only, scaled_release
from dpcape.core.errors import InvalidParameter
from dpcape.statistics.bases import as_basis, as_view_bases, is_no_basis
from dpcape.statistics.cosines import Cosines


class MapRule(NamedTuple):
    """When maps are released, and their share of mu^2; chosen on simulated volumes and views (experiments/wide).

    Attributes
    ----------
    least : float
        Maps are released if records times mu are at least this many times components times the root of the columns.
    share : float
        Their share of mu^2.
    many : float
        As ``least``: from here on the basis needs less.
    more : float
        Their share from there on.
    """

    least: float
    share: float
    many: float
    more: float


ROW_MAPS = MapRule(2.0, 0.35, 5.0, 0.6)
# Correlations depend on the basis more than components do, and few pairs are mapped.
VIEW_MAPS = MapRule(10.0, 0.2, 10.0, 0.2)
# The rotation needs most of the budget.
SOURCE_MAPS = MapRule(8.0, 0.2, 8.0, 0.2)


def _refuse_basis(value: object, p: Public) -> None:
    if value is None:
        return
    basis = as_basis(value)
    if basis.n_features != p.n_features:
        must = f"have one row per column of the records ({p.n_features})"
        raise InvalidParameter("basis", must, basis.n_features, "Use a basis of the voxels of the mask.")


BASIS = Parameter("basis", OTHER, None, optional=True, refuse=_refuse_basis)
"""Public basis in which wide rows are analysed; None for the columns themselves."""
MAPS = Parameter("maps", FLAG, False)
"""Whether maps of what the basis leaves out are released too."""


def _n_basis(name: str, most: Callable[[Public], float], title: str, planned: object = REQUIRED) -> Parameter:
    return Parameter(name, WHOLE, None, 1, most, optional=True, planned=planned, title=title, left_out="none")


N_BASIS = _n_basis("n_basis", lambda p: p.n_features, "Public basis, columns", planned=8)
"""Number of columns of the basis, which plans ask for instead of the basis."""


def _refuse_view_bases(value: object, p: Public) -> None:
    if value is not None:
        as_view_bases(value, p.facts.widths)


VIEW_BASES = Parameter("basis", OTHER, None, optional=True, refuse=_refuse_view_bases)
"""Public basis of each view, None for a view that is read as it is; None for no bases at all."""
N_X_BASIS = _n_basis("n_x_basis", lambda p: p.first, "Public basis of the first view, columns", planned=2)
"""Number of columns of the basis of the first view, which plans ask for instead of the basis."""
N_Y_BASIS = _n_basis("n_y_basis", lambda p: p.n_features - p.first, "Public basis of the second view, columns")
"""Number of columns of the basis of the second view."""


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


def view_basis_columns(parameters: Mapping[str, object]) -> dict[str, object]:
    """Return the number of columns of the public basis of each of two views; None for none."""
    if "n_x_basis" in parameters or "n_y_basis" in parameters:
        return {name: parameters.get(name) for name in ("n_x_basis", "n_y_basis")}
    bases = parameters.get("basis")
    pair = bases if isinstance(bases, list | tuple) and len(bases) == 2 else (None, None)
    try:
        n_columns = [None if is_no_basis(basis) else as_basis(basis).n_columns for basis in pair]
    except InvalidParameter:
        # The check of the parameter says what is wrong with it.
        n_columns = [None, None]
    return dict(zip(("n_x_basis", "n_y_basis"), n_columns, strict=True))


class InBasis(NamedTuple):
    """Numbers of columns of rows or views in public bases.

    Attributes
    ----------
    wide : bool
        Whether there is a basis.
    columns : float
        Columns that are analysed: those of the bases, and of rows or views without one.
    mapped : float
        Columns of rows or views that have a basis: those of which maps are released.
    parts : float
        Parts of a row with an energy each that the basis leaves out.
    maps : MapRule
        When maps are released.
    """

    wide: bool
    columns: float
    mapped: float
    parts: float
    maps: MapRule


def rows_in_basis(p: Public) -> InBasis:
    """Return the numbers of columns of rows in their public basis."""
    return InBasis(p.n_basis is not None, columns_of(p), p.n_features, 1, ROW_MAPS)


def views_in_bases(p: Public) -> InBasis:
    """Return the numbers of columns of two views in their public bases."""
    first, second = p.n_x_basis is not None, p.n_y_basis is not None
    mapped = (p.first if first else 0) + (p.n_features - p.first if second else 0)
    x_columns, y_columns = columns_of_views(p)
    return InBasis(first or second, x_columns + y_columns, mapped, 2, VIEW_MAPS)


def columns_of_views(p: Public) -> tuple[float, float]:
    """Return the number of columns that are analysed of each of two views."""
    first: float = p.n_x_basis if p.n_x_basis is not None else p.first
    second: float = p.n_y_basis if p.n_y_basis is not None else p.n_features - p.first
    return first, second


def bytes_of_basis(p: Public) -> float:
    """Return the bytes of the arrays by which a public basis is applied; in a plan that has none, of a matrix."""
    if p.n_basis is None:
        return 0.0
    basis = getattr(p, "basis", None)
    return 8 * p.n_features * p.n_basis if basis is None else _applied_bytes(basis, p.n_features * p.n_basis)


def bytes_of_view_bases(p: Public) -> float:
    """Return the same for the public bases of two views."""
    bases = getattr(p, "basis", None)
    pair = bases if isinstance(bases, list | tuple) and len(bases) == 2 else (None, None)
    widths, columns = (p.first, p.n_features - p.first), (p.n_x_basis, p.n_y_basis)
    return math.fsum(
        8 * width * count if basis is None else _applied_bytes(basis, width * count)
        for basis, width, count in zip(pair, widths, columns, strict=True)
        if count is not None
    )


def _applied_bytes(basis: object, n_entries: float) -> float:
    """Return the bytes of a matrix of so many entries; cosines are applied side by side, as smaller matrices."""
    try:
        read = as_basis(basis)
    except InvalidParameter:
        # A matrix, or invalid, which the check of the parameter says.
        return 8 * n_entries
    if not isinstance(read, Cosines):
        return 8 * n_entries
    sides, (n_axes, *numbers) = read.n_columns**2, read.sent_array.tolist()
    for side, count in zip(numbers[:n_axes], numbers[n_axes : 2 * n_axes], strict=True):
        sides += side * count
    return 8.0 * sides


def columns_of(p: Public) -> float:
    """Return the number of columns that are analysed: those of the basis, or of the rows."""
    columns: float = p.n_basis if p.n_basis is not None else p.n_features
    return columns


def refused_maps(p: Public, rows: InBasis) -> Steps:
    """Yield the refusals of maps without a basis, or of an unknown number of them."""
    if not p.maps:
        return
    none = InvalidParameter("maps", "be False without a basis", "True", "Give a public basis, or leave maps out.")
    yield Refusal(not rows.wide, none)
    remedy = "Choose how many maps are released."
    auto = InvalidParameter("n_components", "be a whole number with maps=True", "'auto'", remedy)
    yield Refusal(p.n_components == "auto", auto)


def maps_used(p: Public, rows: InBasis, needed: bool = True) -> bool:
    """Return whether maps are released: if they are asked for, and if noise does not hide them.

    A map has D entries with noise 2 b sqrt(K) / (N mu) for residuals of length b, and its signal is of the order of
    b / sqrt(K): the noise is as strong as the signal where N mu is about 2 K sqrt(D). Shrinkage makes use of less. The
    rule follows from simulated volumes and views (experiments/wide): below a multiple of K sqrt(D) the whole allowance
    is better spent on the basis.

    Parameters
    ----------
    p : Public
        Public numbers of the study.
    rows : InBasis
        Numbers of columns in the basis.
    needed : bool
        Whether maps are possible: False where scaling is requested and cannot be used.
    """
    return bool(p.maps and rows.wide and _strength(p, rows) >= rows.maps.least and needed)


def map_share(p: Public, rows: InBasis) -> float:
    """Return the share of the maps, of what is left of mu^2."""
    return rows.maps.more if _strength(p, rows) >= rows.maps.many else rows.maps.share


def _strength(p: Public, rows: InBasis) -> float:
    strength: float = p.n_records * p.total_mu / (p.n_components * math.sqrt(rows.mapped))
    return strength


def map_releases(p: Public, rows: InBasis, plan: ScalingPlan, moments: str, needed: bool = True) -> Steps:
    """Yield the releases of moments in a basis, and of maps of what it leaves out, if there is a basis.

    Parameters
    ----------
    p : Public
        Public numbers of the study.
    rows : InBasis
        Numbers of columns in the basis.
    plan : ScalingPlan
        What follows from scaling.
    moments : str
        Name of the statistic of moments.
    needed : bool
        As for :func:`maps_used`.
    """
    used = maps_used(p, rows, needed)
    share = map_share(p, rows) if used else 0.0
    inside = {"n_features": p.n_features, "n_columns": rows.columns, "n_parts": rows.parts, "bound": plan.bound}
    yield from only(scaled_release(plan, moments, inside, 1 - share), rows.wide)
    if used:
        maps = {"n_features": p.n_features, "n_components": p.n_components, "n_mapped": rows.mapped}
        yield from scaled_release(plan, "residual_maps", maps, share)
