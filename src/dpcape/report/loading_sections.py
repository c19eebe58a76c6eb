"""Report sections about rows of weights: components, topics, centres, directions, maps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpcape.analyses.description import Analysis
from dpcape.analyses.joint_ica import is_operator
from dpcape.core.arrays import BoolArray, FloatArray
from dpcape.report.component_plots import loadings, top_words
from dpcape.report.map_plots import plot_maps, plot_slices
from dpcape.report.page import Picture, ReportSection, Table
from dpcape.statistics.bases import as_basis, is_no_basis
from dpcape.statistics.basis import Basis
from dpcape.statistics.scaling import views_of


class FittedModel(Protocol):
    """Fitted estimator, whose fitted arrays are attributes.

    Attributes
    ----------
    analysis : Analysis or None
        Description of its analysis, if there is one.
    """

    @property
    def analysis(self) -> Analysis | None: ...

    @property
    def _fitted(self) -> tuple[str, ...]: ...

    def __getattr__(self, name: str) -> Any: ...


Maker: TypeAlias = Callable[[FittedModel, Sequence[str]], ReportSection | None]
"""Function from a fitted model and feature names to a section; None if the model lacks the attributes."""
_SHOWN_ROWS, _SHOWN_FEATURES, _SHOWN_WORDS = 12, 6, 8


def loading_section(attribute: str, title: str, *, by_column: bool = False, row: str = "component") -> Maker:
    """Return a function that makes a section about an array: a heat map and each row's largest weights."""

    def make(model: FittedModel, names: Sequence[str]) -> ReportSection | None:
        array = getattr(model, attribute, None)
        if array is None or np.ndim(array) != 2:
            return None
        weights = np.asarray(array).T if by_column else np.asarray(array)
        return weights_section(weights, names, title, row=row)

    return make


def weights_section(weights: FloatArray, names: Sequence[str], title: str, *, row: str = "component") -> ReportSection:
    """Return a section about rows of weights."""
    shown = weights[:_SHOWN_ROWS]
    labels = names_of(names, weights.shape[1])
    rows = [[str(at + 1), _largest(values, labels)] for at, values in enumerate(shown)]
    numbers = [f"{row} {at + 1}" for at in range(len(shown))]
    picture = Picture(
        figure_of(loadings(shown, numbers, labels)),
        f"Heat map: weights of {weights.shape[1]} features in {len(shown)} rows, one per {row}.",
        "Red is positive, blue negative; all rows have the same scale.",
        wide=True,
    )
    text = [f"The first {len(shown)} of {len(weights)} are shown."] if len(weights) > len(shown) else []
    header = [row, f"features with the largest weights{_numbered(names)}"]
    return ReportSection(title, text=text, pictures=[picture], tables=[Table(header, rows)])


def directions(attribute: str, title: str, *, second: bool) -> Maker:
    """Return a function that makes a section about the directions in one of two views."""

    def make(model: FittedModel, names: Sequence[str]) -> ReportSection | None:
        # Weights of a view in a public basis are a matter of that basis: its loadings are drawn.
        if not hasattr(model, attribute) or _view_basis(model, second=second) is not None:
            return None
        width = len(model.x_weights_)
        own = list(names[width:] if second else names[:width])
        return weights_section(np.asarray(getattr(model, attribute)).T, own, title, row="pair")

    return make


def view_loadings(attribute: str, title: str, *, second: bool) -> Maker:
    """Return a function that makes a section about the loadings of a view that is analysed in a public basis."""

    def make(model: FittedModel, names: Sequence[str]) -> ReportSection | None:
        basis = _view_basis(model, second=second)
        if basis is None or not hasattr(model, attribute):
            return None
        loadings, width = np.asarray(getattr(model, attribute)).T, len(model.x_weights_)
        inside = basis.inside
        if inside is None or inside.ndim == 1:
            own = list(names[width:] if second else names[:width])
            section = weights_section(loadings, own, title, row="pair")
        else:
            section = map_section(loadings, inside, title, row="pair")
        view = int(second)
        about = (
            "Covariance of each column with the canonical variate of its own view. "
            f"{int(model.n_kept_[view])} columns of the basis are used; it leaves out "
            f"{float(model.left_out_[view]):.4g} of the mean squared length of a row of the view."
        )
        section.text = [*section.text, about]
        return section

    return make


def _view_basis(model: FittedModel, *, second: bool) -> Basis | None:
    """Return the public basis of one of two views, if it has one."""
    bases = getattr(model, "basis", None)
    part = None if bases is None else bases[int(second)]
    return None if is_no_basis(part) else as_basis(part)


def view_directions(model: FittedModel, names: Sequence[str]) -> ReportSection | None:
    """Return the section about the directions of several views: a heat map and the largest weights of each."""
    if not (hasattr(model, "weights_") and hasattr(model, "widths_")):
        return None
    pictures, tables, text = [], [], []
    for view, at in enumerate(views_of(tuple(int(width) for width in model.widths_))):
        made = weights_section(np.asarray(model.weights_)[at].T, list(names[at]) if names else [], "")
        pictures += [replace(entry, caption=f"View {view + 1}. {entry.caption}") for entry in made.pictures]
        tables += [replace(entry, caption=f"View {view + 1}.") for entry in made.tables]
        text = list(made.text)
    return ReportSection("Directions in the views", text=text, pictures=pictures, tables=tables)


def topics(model: FittedModel, names: Sequence[str]) -> ReportSection | None:
    """Return the section about topics and their words."""
    if not hasattr(model, "topics_"):
        return None
    words = model.top_words(_SHOWN_WORDS)[:10]
    if not names:
        # Positions count from 0; reports number columns without names from 1.
        words = [[(str(int(at) + 1), share) for at, share in topic] for topic in words]
    panels = top_words(words, np.asarray(model.weights_))
    picture = Picture(
        figure_of(panels[0]),
        f"Bars of the {_SHOWN_WORDS} most probable words of each of {len(words)} topics.",
        "The most probable words of each topic; its weight is in brackets.",
        wide=True,
    )
    rows = [
        [str(number), f"{100 * weight:.1f}%", ", ".join(word for word, _ in topic)]
        for number, (weight, topic) in enumerate(zip(model.weights_, words, strict=False), start=1)
    ]
    return ReportSection(
        "Topics", pictures=[picture], tables=[Table(["topic", "share", f"words{_numbered(names)}"], rows)]
    )


def maps(model: FittedModel, names: Sequence[str], inside: BoolArray | None = None) -> ReportSection | None:
    """Return the section about the maps of the sources: slices if there is a mask, otherwise rows of weights."""
    if not hasattr(model, "mixing_"):
        return None
    mixing = np.asarray(model.mixing_)
    basis = getattr(model, "basis", None)
    on = as_basis(basis).inside if inside is None and is_operator(basis) else None
    if on is not None and on.ndim > 1:
        return map_section(mixing.T, on, "Maps of the sources", row="source")
    section = weights_section(mixing.T, names, "Maps of the sources", row="source")
    section.pictures = images(mixing.T, inside, (), row="source") or section.pictures
    return section


def images(
    weights: FloatArray, inside: BoolArray | None, shape: Sequence[int], *, row: str = "component"
) -> list[Picture]:
    """Return rows of weights drawn as images, if their columns are the voxels of a mask or the pixels of a shape."""
    width = weights.shape[1]
    if inside is None and len(shape) == 3 and math.prod(shape) == width:
        inside = np.ones(shape, dtype=np.bool_)
    if inside is not None and inside.ndim == 3 and int(inside.sum()) == width:
        return [
            Picture(
                figure_of(plot_slices(weights.T, inside)),
                f"Slices of the mask with the maps of {min(10, len(weights))} {row}s.",
                f"For each {row}, the slice in which its map is strongest. Each map has its own scale.",
                wide=True,
            )
        ]
    if len(shape) != 2 or math.prod(shape) != width:
        return []
    n_shown = min(8, len(weights))
    return [
        Picture(
            figure_of(plot_maps({"": weights.T}, (shape[0], shape[1]), n_shown=n_shown)),
            f"Images of {n_shown} {row}s of {len(weights)}.",
            "Red is positive, blue negative; each image has its own scale.",
            wide=True,
        )
    ]


def components(model: FittedModel, names: Sequence[str]) -> ReportSection | None:
    """Return the section about components: images if they were found in a basis on an image, otherwise weights."""
    weights = np.asarray(getattr(model, "components_", ()))
    if weights.ndim != 2:
        return None
    basis = getattr(model, "basis", None)
    inside = None if basis is None else as_basis(basis).inside
    if inside is None or inside.ndim == 1:
        return weights_section(weights, names, "Components")
    return map_section(weights, inside, "Components")


def map_section(weights: FloatArray, inside: BoolArray, title: str, *, row: str = "component") -> ReportSection:
    """Return a section that draws rows of weights as images of two or three dimensions."""
    shown = weights[:10]
    if inside.ndim == 3:
        axes, words = plot_slices(shown.T, inside), "the slice in which its map is strongest"
    else:
        whole = np.zeros((len(shown), *inside.shape))
        whole[:, inside] = shown
        height, width = inside.shape
        axes, words = plot_maps({"": whole.reshape(len(shown), -1).T}, (height, width), n_shown=len(shown)), "its map"
    picture = Picture(
        figure_of(axes),
        f"Maps of {len(shown)} {row}s on an image of {' x '.join(map(str, inside.shape))} voxels.",
        f"For each {row}, {words}. Each map has its own scale; red is positive, blue negative.",
        wide=True,
    )
    text = [f"The first {len(shown)} of {len(weights)} are shown."] if len(weights) > len(shown) else []
    return ReportSection(title, text=text, pictures=[picture])


def names_of(names: Sequence[str], width: int) -> Sequence[str]:
    """Return the names of the features, or their numbers if they have no names."""
    return names if len(names) == width else [str(at + 1) for at in range(width)]


def _numbered(names: Sequence[str]) -> str:
    """Return the part of a header that says that features are given by number; empty if they have names."""
    return "" if names and not names[0].isdigit() else ", by number"


def figure_of(axes: Axes) -> Figure:
    """Return the figure of Axes."""
    return cast("Figure", axes.figure)


def _largest(row: FloatArray, labels: Sequence[str]) -> str:
    order = np.argsort(-np.abs(row), kind="stable")[:_SHOWN_FEATURES]
    return ", ".join(f"{labels[at]} ({row[at]:+.3g})" for at in order)
