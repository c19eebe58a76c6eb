"""Clipped gradients of a classifier with no, one or several hidden layers, summed over records.

The gradient of a record is rank one in each layer, so its length follows from the lengths of two vectors per layer;
records are scaled before the matrix products that a plain gradient needs anyway (no gradient of a single record is
ever formed).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from dpcape.core.arrays import BoolArray, FloatArray, IntArray
from dpcape.core.contributions import Cross, Form, Sum
from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import Extent, exact_sums, row_error
from dpcape.core.facts import PublicFacts
from dpcape.core.grid import (
    ROW_BITS,
    GridRows,
    PublicColumns,
    lengths_of,
    on_grid,
    reach_on_grid,
    steps_per_unit,
    too_long,
)
from dpcape.core.kernel import Summed
from dpcape.core.record_blocks import TiledRecords
from dpcape.core.statistic import known
from dpcape.core.tiles import Tile
from dpcape.statistics.feature_maps import MappedTile, feature_map, mapped_tile, n_inputs, with_features

# Weights come from the aggregator. Up to this size, number of layers and number of units no activation can overflow, so
# a site can answer whatever its records are: inputs are at most 1e9 long and a layer makes them at most 1e12 times as
# long, so a gradient is shorter than 1e9 * 1e12^9.
LARGEST_WEIGHT = 1e6
MOST_LAYERS, MOST_UNITS = 8, 10**6

# Numbers per record by which records are divided into parts, at most: layers are not read again for fewer than 64.
_MOST_ENTRIES = 2048
# Inputs up to this length enter their layer's gradient as they are; longer ones are divided by their length.
_SHORT_INPUTS = 8.0


class _Entering(NamedTuple):
    """What enters a layer: rows on the grid, and lengths of (a, 1), by which all rows but short inputs are divided."""

    rows: GridRows
    lengths: FloatArray


class LayeredGradient(Summed[FloatArray]):
    """Mean of per-record gradients of the cross-entropy of a layered network, each clipped to a public length.

    The network is y = output(W_L relu(... relu(W_1 x + b_1) ...) + b_L): one sigmoid for two classes, a softmax for
    more. A subclass says which layers there are and how they travel.

    Privacy
    -------
    The contribution of a record is the stacked gradient of its own cross-entropy in all weights and biases, times
    min(1, target / its length). The gradient in layer k is e_k (a_k, 1)', where a_k is what enters the layer and e_k
    the back-propagated error, so the squared length of all of it is the sum of |e_k|^2 (|a_k|^2 + 1), and no gradient
    of a single record is formed. a_k and e_k depend on the record and public weights only: products are those of rows
    on the grid, so that a unit is on or off whatever stands beside a record.

    It is added as l r' with l and r on the grid: r = (a_k, 1)/|(a_k, 1)|, which is at most 1 + g long there, and l =
    |(a_k, 1)| times the scaled e_k, at most ``clip`` long, which moves by at most d_k. So the whole is at most (1 + g)
    (target + sqrt(sum of d_k^2)) long. In the first layer, short inputs are on the grid already, and r = (scale x, 1),
    at most R long, as it is; then d_1 counts R times. The target makes this ``clip``, so two contributions are at most
    2 clip apart, whatever weights, scale and feature map are.
    """

    kinds = frozenset({"labelled"})
    units = frozenset({"record"})
    _layers: tuple[FloatArray, ...]
    _n_inputs: int
    _features: str
    _clip: float
    _input_scale: float

    def _set(self, clip: float, input_scale: float, features: str) -> None:
        """Check and keep what all such gradients have, before their layers."""
        check_classes(self.facts)
        self._features, self._n_inputs = features, n_inputs(features, self.facts.n_features)
        self._clip = checked_number("clip", clip, largest=1e9)
        # Rows are at most as long as their bound, features at most 1.
        longest = 1.0 if features else self.facts.bounds[0]
        self._input_scale = checked_number("input_scale", input_scale, largest=1e9 / longest)
        self._longest = self._input_scale * reach_on_grid(longest, self._n_inputs)

    def _set_layers(self, *layers: FloatArray) -> None:
        """Keep checked layers, and what follows from them."""
        self._layers = layers
        first = layers[0]
        self._inputs = PublicColumns(first[:, :-1].T * self._input_scale)
        self._forwards = [PublicColumns(layer.T) for layer in layers[1:]]
        self._backwards = [PublicColumns(layer[:, :-1]) for layer in layers[1:]]
        self._reaches = [min(self._clip, longest) for longest in self._longest_sides()]
        moved = [row_error(len(layer), reach) for layer, reach in zip(layers, self._reaches, strict=True)]
        if self._is_short:
            moved[0] *= math.hypot(1.0, self._longest)
        widest = max(layer.shape[1] for layer in layers)
        self._target = (self._clip / reach_on_grid(1.0, widest) - math.hypot(*moved)) * (1 - 2.0**-40)

    def _longest_sides(self) -> list[float]:
        """Return how long l can be in each layer, before clipping: no longer than largest weights make it."""
        grows = [float(np.abs(layer).max()) * math.sqrt(layer.size) for layer in self._layers]
        # What enters each layer, forwards, and errors, backwards.
        lengths = [math.hypot(1.0, self._longest)]
        for grow in grows[:-1]:
            lengths.append(math.hypot(1.0, lengths[-1] * grow))
        errors = [math.sqrt(2)]
        for grow in grows[:0:-1]:
            errors.insert(0, errors[0] * grow)
        if self._is_short:
            lengths[0] = 1.0
        # An error may be zero.
        return [
            max(1.001 * length * error, 2.0**-30 * self._clip) for length, error in zip(lengths, errors, strict=True)
        ]

    @property
    def _is_short(self) -> bool:
        """Whether inputs enter the gradient of the first layer as they are."""
        return self._longest <= _SHORT_INPUTS

    @property
    def _n_units(self) -> int:
        """Number of inputs and of units of all layers."""
        return self._n_inputs + sum(len(layer) for layer in self._layers)

    @property
    def n_entries(self) -> int:
        # A quarter: parts are not made too small.
        return min(_MOST_ENTRIES, self._n_units // 4)

    @property
    def assumption(self) -> str:
        return feature_map(self._features).assumption if self._features else super().assumption

    def contributed(self, records: TiledRecords) -> Iterator[tuple[Sequence[Form], int, BoolArray | None]]:
        """Yield the terms of all tiles; features of the records are kept for the next round."""
        return super().contributed(with_features(records, self._features) if self._features else records)

    def terms(self, tile: Tile) -> Sequence[Form]:
        if self._features and not isinstance(tile, MappedTile):
            tile = mapped_tile(tile, self._features)
        entering, active, logits = self._forward(tile.rows)
        errors = [_output_errors(logits, tile.classes)]
        lengths: list[FloatArray] = []
        for number in range(len(active) - 1, -1, -1):
            lengths.insert(0, _lengths(errors[0]))
            errors.insert(0, self._early(errors[0], lengths[0], number, active[number]))
        lengths.insert(0, _lengths(errors[0]))
        factors = self._factors(entering, lengths)
        forms: list[Form] = []
        for number, (entry, error) in enumerate(zip(entering, errors, strict=True)):
            is_plain = number == 0 and self._is_short
            left = on_grid(error, self._reaches[number], factors if is_plain else factors * entry.lengths, out=error)
            forms += [Cross(left, entry.rows), Sum(left)] if is_plain else [Cross(left, entry.rows)]
        return forms

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        if not self._is_short:
            return np.concatenate([products.ravel() for products in sums])
        first, biases, *others = sums
        both = np.column_stack([self._input_scale * first, biases])
        return np.concatenate([both.ravel(), *(products.ravel() for products in others)])

    def _forward(self, rows: GridRows) -> tuple[list[_Entering], list[BoolArray], FloatArray]:
        """Return what enters each layer, which hidden units are not off, and the outputs of the last layer.

        Units are stored one after another: there are few, and what is computed of them goes from unit to unit.
        """
        outputs = rows.products_by_column(self._inputs).T
        outputs += self._layers[0][:, -1]
        entering, active = [self._first(rows)], []
        for columns in self._forwards:
            active.append(outputs > 0)
            entry = _directions(outputs)
            entering.append(entry)
            outputs = entry.rows.products_by_column(columns).T
            outputs *= entry.lengths[:, np.newaxis]
        return entering, active, outputs

    def _first(self, rows: GridRows) -> _Entering:
        """Return what enters the first layer; its lengths are those of rows on the grid, whose squares are exact."""
        squares = rows.squared_lengths() * self._input_scale**2
        squares += 1.0
        lengths = np.sqrt(squares, out=squares)
        if self._is_short:
            return _Entering(rows, lengths)
        # From above, so that no direction is longer than one.
        lengths *= 1 + 2.0**-40
        return _Entering(self._input_directions(rows, lengths), lengths)

    def _input_directions(self, rows: GridRows, lengths: FloatArray) -> GridRows:
        """Return (scale x, 1) divided by its length as :func:`on_grid` does, from rows that are on a grid already."""
        steps = steps_per_unit(ROW_BITS, rows.width + 1)
        ints, growth = np.empty((len(rows), rows.width + 1)), steps / lengths
        np.multiply(rows.ints, (growth * (self._input_scale / rows.steps))[:, np.newaxis], out=ints[:, :-1])
        ints[:, -1] = growth
        np.rint(ints, out=ints)
        lost = too_long(ints)
        if lost is not None:
            ints[lost] = 0.0
        return GridRows(ints, steps)

    def _early(self, error: FloatArray, lengths: FloatArray, number: int, active: BoolArray) -> FloatArray:
        """Return the errors of hidden layer ``number``, of units that are not off, from those of the next layer."""
        if error.shape[1] == 1:
            early: FloatArray = (self._layers[number + 1][0, :-1, np.newaxis] * error[:, 0]).T
        else:
            directions = on_grid(error, 1.0, 1 / np.where(lengths > 0, lengths, 1.0))
            early = directions.products_by_column(self._backwards[number]).T
            early *= lengths[:, np.newaxis]
        early *= active
        return early

    def _factors(self, entering: Sequence[_Entering], lengths: Sequence[FloatArray]) -> FloatArray:
        """Return the factors of back-propagated errors with which each record's gradient is at most the target long."""
        squared = np.zeros(len(lengths[0]))
        for entry, length in zip(entering, lengths, strict=True):
            squared += (length * entry.lengths) ** 2
        factors: FloatArray = self._target / np.maximum(np.sqrt(squared), self._target)
        return factors


def _directions(outputs: FloatArray) -> _Entering:
    """Return (a, 1) of each record divided by its length, on the grid, and the length; a are positive outputs."""
    extended = np.empty((outputs.shape[1] + 1, len(outputs))).T
    np.maximum(outputs, 0.0, out=extended[:, :-1])
    extended[:, -1] = 1.0
    lengths = lengths_of(extended)
    return _Entering(on_grid(extended, 1.0, 1 / lengths, out=extended), lengths)


def _lengths(errors: FloatArray) -> FloatArray:
    """Return the lengths of errors, from above."""
    return np.abs(errors[:, 0]) if errors.shape[1] == 1 else lengths_of(errors)


@known
class NetworkGradient(LayeredGradient):
    """Mean of clipped gradients of a network with one hidden layer.

    The diameter is 2 clip (:class:`LayeredGradient`).

    Parameters
    ----------
    facts : PublicFacts
        Public facts of the records.
    hidden : (H, D + 1) array
        W1 with b1 as its last column.
    output : (outputs, H + 1) array
        W2 with b2 as its last column; one output for two classes, else one per class.
    clip : float
        Largest length of a record's contribution.
    input_scale : float
        Factor of the rows, or of their features, before they enter the network.
    features : str
        Name of a public feature map that is applied to rows first; empty for none.
    """

    name = "network_gradient"

    def __init__(
        self,
        facts: PublicFacts,
        hidden: FloatArray,
        output: FloatArray,
        clip: float,
        input_scale: float,
        features: str = "",
    ) -> None:
        super().__init__(facts, hidden=hidden, output=output, clip=clip, input_scale=input_scale, features=features)
        self._set(clip, input_scale, features)
        first = _checked_layer("hidden", hidden, (None, self._n_inputs + 1))
        self._set_layers(first, _checked_layer("output", output, (n_outputs(facts), len(first) + 1)))

    @staticmethod
    def extent(*, n_features: float, n_hidden: float, n_outputs: float, clip: float) -> Extent:
        """Return the extent for layers of these widths and gradients of length at most ``clip``."""
        size = n_hidden * (n_features + 1) + n_outputs * (n_hidden + 1)
        return exact_sums(size, 2 * clip, clip)

    @property
    def numbers(self) -> Mapping[str, float]:
        n_hidden, n_outputs = (len(layer) for layer in self._layers)
        return {"n_features": self._n_inputs, "n_hidden": n_hidden, "n_outputs": n_outputs, "clip": self._clip}


@known
class LinearGradient(LayeredGradient):
    """Mean of clipped gradients of a linear classifier.

    The classifier is y = output(W x + b): one sigmoid for two classes, a softmax for more. The diameter is 2 clip
    (:class:`LayeredGradient`).

    Parameters
    ----------
    facts : PublicFacts
        Public facts of the records.
    output : (outputs, inputs + 1) array
        W with b as its last column; one output for two classes, else one per class.
    clip : float
        Largest length of a record's contribution.
    input_scale : float
        Factor of the rows, or of their features.
    features : str
        Name of a public feature map that is applied to rows first; empty for none.
    """

    name = "linear_gradient"

    def __init__(
        self, facts: PublicFacts, output: FloatArray, clip: float, input_scale: float, features: str = ""
    ) -> None:
        super().__init__(facts, output=output, clip=clip, input_scale=input_scale, features=features)
        self._set(clip, input_scale, features)
        self._set_layers(_checked_layer("output", output, (n_outputs(facts), self._n_inputs + 1)))

    @staticmethod
    def extent(*, n_features: float, n_outputs: float, clip: float) -> Extent:
        """Return the extent for ``n_features`` inputs and gradients of length at most ``clip``."""
        size = n_outputs * (n_features + 1)
        return exact_sums(size, 2 * clip, clip)

    @property
    def numbers(self) -> Mapping[str, float]:
        return {"n_features": self._n_inputs, "n_outputs": len(self._layers[0]), "clip": self._clip}


@known
class DeepGradient(LayeredGradient):
    """Mean of clipped gradients of a network with several hidden layers.

    The diameter is 2 clip (:class:`LayeredGradient`).

    Parameters
    ----------
    facts : PublicFacts
        Public facts of the records.
    widths : array of int
        Units of the hidden layers, from the first to the last; at most 8 layers.
    weights : array
        All layers in one vector, each row by row with the bias last.
    clip : float
        Largest length of a record's contribution.
    input_scale : float
        Factor of the rows, or of their features, before they enter the network.
    features : str
        Name of a public feature map that is applied to rows first; empty for none.
    """

    name = "deep_gradient"

    def __init__(
        self,
        facts: PublicFacts,
        widths: IntArray,
        weights: FloatArray,
        clip: float,
        input_scale: float,
        features: str = "",
    ) -> None:
        super().__init__(facts, widths=widths, weights=weights, clip=clip, input_scale=input_scale, features=features)
        self._set(clip, input_scale, features)
        all_widths = (self._n_inputs, *_checked_widths(widths), n_outputs(facts))
        _check_vector(weights, n_weights(all_widths))
        self._set_layers(
            *(
                _checked_layer(f"layer {number + 1}", layer, (len(layer), layer.shape[1]))
                for number, layer in enumerate(layers_of(weights, all_widths))
            )
        )

    @staticmethod
    def extent(*, size: float, n_units: float, clip: float) -> Extent:
        """Return the extent for ``size`` weights; ``n_units`` counts inputs and the units of all layers."""
        return exact_sums(size, 2 * clip, clip)

    @property
    def numbers(self) -> Mapping[str, float]:
        return {"size": sum(layer.size for layer in self._layers), "n_units": self._n_units, "clip": self._clip}


def n_weights(widths: Sequence[int]) -> int:
    """Return the number of weights and biases of layers between these widths, inputs first and outputs last."""
    return sum((before + 1) * after for before, after in pairwise(widths))


def layers_of(weights: FloatArray, widths: Sequence[int]) -> list[FloatArray]:
    """Return the layers that one vector holds, as matrices whose last column holds the biases."""
    layers, start = [], 0
    for before, after in pairwise(widths):
        stop = start + after * (before + 1)
        layers.append(weights[start:stop].reshape(after, before + 1))
        start = stop
    return layers


def _checked_widths(widths: IntArray) -> tuple[int, ...]:
    fits = isinstance(widths, np.ndarray) and widths.ndim == 1 and widths.dtype.kind == "i"
    if not fits or not 1 <= len(widths) <= MOST_LAYERS or not all(1 <= width <= MOST_UNITS for width in widths):
        must = f"be from 1 to {MOST_LAYERS} whole numbers from 1 to {MOST_UNITS}"
        raise InvalidParameter("widths", must, repr(widths), "Install the same dpcape version everywhere.")
    return tuple(int(width) for width in widths)


def _check_vector(weights: FloatArray, size: int) -> None:
    if not isinstance(weights, np.ndarray) or weights.shape != (size,):
        must, remedy = f"be a vector of {size} numbers for these layers", "Install the same dpcape version everywhere."
        raise InvalidParameter("weights", must, getattr(weights, "shape", type(weights).__name__), remedy)


def check_classes(facts: PublicFacts) -> None:
    """Refuse records without public classes."""
    if facts.classes is None:
        remedy = "Build them with labelled(X, y, bound=..., classes=[...])."
        raise InvalidParameter("Records for a classifier", "have public classes", "a numeric response", remedy)


def n_outputs(facts: PublicFacts) -> int:
    """Return the number of output units for these records: one for two classes, else one per class."""
    return int(outputs_for(len(facts.classes or ())))


def outputs_for(n_classes: float) -> float:
    """Return the number of output units for ``n_classes`` classes: one for two classes, else one per class."""
    return 1 if n_classes == 2 else n_classes


def _output_errors(logits: FloatArray, codes: IntArray) -> FloatArray:
    """Return the gradient of the cross-entropy in the logits: probability minus indicator."""
    if logits.shape[1] == 1:
        errors: FloatArray = expit(logits)
        errors[:, 0] -= codes
        return errors
    heights: FloatArray = logits - logits.max(axis=1)[:, np.newaxis]
    np.exp(heights, out=heights)
    all_heights = np.zeros(len(heights))
    for number in range(heights.shape[1]):
        all_heights += heights[:, number]
    heights /= all_heights[:, np.newaxis]
    for number in range(heights.shape[1]):
        heights[:, number] -= codes == number
    return heights


def _checked_layer(subject: str, weights: FloatArray, shape: tuple[int | None, int]) -> FloatArray:
    fits = isinstance(weights, np.ndarray) and weights.ndim == 2 and weights.dtype == np.float64
    if not fits or weights.shape[1] != shape[1] or shape[0] not in (None, weights.shape[0]) or not weights.size:
        must = f"be a float64 matrix with {shape[0] or 'any number of'} rows and {shape[1]} columns"
        remedy = "The last column holds the biases."
        raise InvalidParameter(subject, must, getattr(weights, "shape", type(weights).__name__), remedy)
    outside = np.flatnonzero(~(np.abs(weights) <= LARGEST_WEIGHT).all(axis=1))
    if outside.size:
        must = f"have finite entries of at most {LARGEST_WEIGHT:g} in absolute value"
        remedy = "Lower the learning rate."
        raise InvalidParameter(subject, must, f"a larger or non-finite entry in row {outside[0]}", remedy)
    layer: FloatArray = weights
    return layer


def checked_number(subject: str, value: float, *, largest: float) -> float:
    """Return a positive number of at most ``largest`` that a message holds."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 1e-9 * largest * 1e-9 <= value <= largest:
        remedy = "Choose it near 1."
        raise InvalidParameter(subject, f"be a positive number of at most {largest:g}", repr(value), remedy)
    return float(value)


def network_gradient(
    facts: PublicFacts, *, hidden: FloatArray, output: FloatArray, clip: float, input_scale: float, features: str = ""
) -> NetworkGradient:
    """Mean of clipped gradients at the given weights."""
    return NetworkGradient(facts, hidden=hidden, output=output, clip=clip, input_scale=input_scale, features=features)


def linear_gradient(
    facts: PublicFacts, *, output: FloatArray, clip: float, input_scale: float, features: str = ""
) -> LinearGradient:
    """Mean of clipped gradients of a linear classifier at the given weights."""
    return LinearGradient(facts, output=output, clip=clip, input_scale=input_scale, features=features)


def deep_gradient(
    facts: PublicFacts,
    *,
    widths: Sequence[int] | IntArray,
    weights: FloatArray,
    clip: float,
    input_scale: float,
    features: str = "",
) -> DeepGradient:
    """Mean of clipped gradients of a network with hidden layers of these widths at the given weights."""
    units = np.asarray(widths, dtype=np.int64)
    return DeepGradient(facts, widths=units, weights=weights, clip=clip, input_scale=input_scale, features=features)
