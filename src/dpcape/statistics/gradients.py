"""Clipped gradients of a classifier with no, one or several hidden layers, summed over records.

The gradient of a record is rank one in each layer, so its length follows from the lengths of two vectors per layer;
records are scaled before the matrix products that a plain gradient needs anyway (no gradient of a single record is
ever formed).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from scipy.special import expit, softmax

from dpcape.core.arrays import FloatArray, IntArray
from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import Extent, rounding_in_blocks
from dpcape.core.facts import PublicFacts
from dpcape.core.record_blocks import LabelledBlocks
from dpcape.core.statistic import Statistic, known
from dpcape.statistics.feature_maps import feature_blocks, feature_map, n_inputs
from dpcape.statistics.row_products import row_products

# Weights come from the aggregator. Up to this size, number of layers and number of units no activation can overflow, so
# a site can answer whatever its records are: inputs are at most 1e9 long and a layer makes them at most 1e12 times as
# long, so a gradient is shorter than 1e9 * 1e12^9.
LARGEST_WEIGHT = 1e6
MOST_LAYERS, MOST_UNITS = 8, 10**6


class LayeredGradient(Statistic[LabelledBlocks[IntArray], FloatArray]):
    """Mean of per-record gradients of the cross-entropy of a layered network, each clipped to a public length.

    The network is y = output(W_L relu(... relu(W_1 x + b_1) ...) + b_L): one sigmoid for two classes, a softmax for
    more. A subclass says which layers there are and how they travel.

    Privacy
    -------
    The contribution of a record is the stacked gradient of its own cross-entropy in all weights and biases, times
    min(1, clip / its length). Its length is at most clip, so two contributions are at most 2 clip apart, whatever
    weights, scale and feature map are. The gradient in layer k is e_k (a_k, 1)', where a_k is what enters the layer and
    e_k the back-propagated error, so the squared length of all of it is the sum of |e_k|^2 (|a_k|^2 + 1), and no
    gradient of a single record is formed. a_k and e_k depend on the record and public weights only.
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

    @property
    def _n_units(self) -> int:
        """Number of inputs and of units of all layers: the length of the sums that a contribution passes through."""
        return self._n_inputs + sum(len(layer) for layer in self._layers)

    @property
    def assumption(self) -> str:
        return feature_map(self._features).assumption if self._features else super().assumption

    def total(self, records: LabelledBlocks[IntArray]) -> FloatArray:
        gradients = [np.zeros_like(layer) for layer in self._layers]
        for block, codes in feature_blocks(records, self._features, self.facts.n_features):
            self._add(block, codes, gradients)
        return np.concatenate([gradient.ravel() for gradient in gradients])

    def _add(self, rows: FloatArray, codes: IntArray, gradients: Sequence[FloatArray]) -> None:
        """Add the clipped gradients of one block."""
        entering, logits = self._forward(rows)
        errors = [_output_errors(logits, codes)]
        for layer, active in zip(self._layers[:0:-1], entering[:0:-1], strict=True):
            early = row_products(errors[0], layer[:, :-1])
            early *= active > 0
            errors.insert(0, early)
        factors = self._factors(entering, errors)[:, np.newaxis]
        for number, (gradient, active, error) in enumerate(zip(gradients, entering, errors, strict=True)):
            error *= factors
            # Rows are never scaled themselves, which saves a pass over them.
            gradient[:, :-1] += error.T @ active if number else error.T @ active * self._input_scale
            gradient[:, -1] += error.sum(axis=0)

    def _forward(self, rows: FloatArray) -> tuple[list[FloatArray], FloatArray]:
        """Return what enters each layer, rows without their scale first, and the outputs of the last one."""
        entering: list[FloatArray] = [rows]
        for number, layer in enumerate(self._layers):
            weights = layer[:, :-1] if number else layer[:, :-1] * self._input_scale
            # A unit is on or off by the sign of its input, so its rounding must not depend on other records.
            outputs = row_products(entering[-1], weights.T)
            outputs += layer[:, -1]
            if number < len(self._layers) - 1:
                np.maximum(outputs, 0.0, out=outputs)
                entering.append(outputs)
        return entering, outputs

    def _factors(self, entering: Sequence[FloatArray], errors: Sequence[FloatArray]) -> FloatArray:
        """Return the factors of back-propagated errors with which each record's gradient is at most ``clip`` long.

        The computed length is off by at most (sum of widths) roundings; aiming that much lower keeps the exact one
        within the bound.
        """
        scales = [self._input_scale**2] + [1.0] * (len(errors) - 1)
        squared = np.zeros(len(errors[0]))
        for active, error, scale in zip(entering, errors, scales, strict=True):
            squared += np.vecdot(error, error) * (np.vecdot(active, active) * scale + 1.0)
        target = self._clip * (1 - (self._n_units + 64) * 2.0**-51)
        factors: FloatArray = target / np.maximum(np.sqrt(squared), target)
        return factors


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
        self._layers = (first, _checked_layer("output", output, (n_outputs(facts), len(first) + 1)))

    @staticmethod
    def extent(*, n_features: float, n_hidden: float, n_outputs: float, clip: float) -> Extent:
        """Return the extent for layers of these widths and gradients of length at most ``clip``."""
        size = n_hidden * (n_features + 1) + n_outputs * (n_hidden + 1)
        # A contribution passes through one product per layer; count both widths.
        return Extent(size, 2 * clip, clip, rounding_in_blocks(n_features + n_hidden + n_outputs, clip))

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
        self._layers = (_checked_layer("output", output, (n_outputs(facts), self._n_inputs + 1)),)

    @staticmethod
    def extent(*, n_features: float, n_outputs: float, clip: float) -> Extent:
        """Return the extent for ``n_features`` inputs and gradients of length at most ``clip``."""
        size = n_outputs * (n_features + 1)
        return Extent(size, 2 * clip, clip, rounding_in_blocks(n_features + n_outputs, clip))

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
        self._layers = tuple(
            _checked_layer(f"layer {number + 1}", layer, (len(layer), layer.shape[1]))
            for number, layer in enumerate(layers_of(weights, all_widths))
        )

    @staticmethod
    def extent(*, size: float, n_units: float, clip: float) -> Extent:
        """Return the extent for ``size`` weights; ``n_units`` counts inputs and the units of all layers."""
        return Extent(size, 2 * clip, clip, rounding_in_blocks(n_units, clip))

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
    errors = softmax(logits, axis=1)
    errors[np.arange(len(codes)), codes] -= 1.0
    return errors


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
