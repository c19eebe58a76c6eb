"""Clipped gradients of a classifier with no or one hidden layer, summed over records.

The gradient of a record is rank one in each layer, so its length follows from the lengths of four vectors;
records are scaled before the two matrix products that a plain gradient needs anyway (no gradient of a single
record is ever formed).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.special import expit, softmax

from dpcape.arrays import FloatArray, IntArray
from dpcape.errors import InvalidParameter
from dpcape.facts import PublicFacts
from dpcape.formula import Number, choose, computed
from dpcape.statistics.extent import Extent, rounding_in_blocks
from dpcape.statistics.feature_maps import feature_blocks, feature_map, n_inputs
from dpcape.statistics.record_blocks import LabelledBlocks
from dpcape.statistics.statistic import Statistic, known

# Weights come from the aggregator. Up to this size no activation can overflow, so a site can answer whatever its
# records are.
LARGEST_WEIGHT = 1e6


@known
class NetworkGradient(Statistic[LabelledBlocks[IntArray], FloatArray]):
    """Mean of per-record gradients of the cross-entropy, each clipped to a public length.

    The network is y = output(W2 relu(W1 x + b1) + b2): one sigmoid for two classes, a softmax for more. The
    contribution is the stacked gradient (W1, b1, W2, b2) times min(1, clip / its length), so two
    contributions are at most 2 clip apart.

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
    kinds = frozenset({"labelled"})
    units = frozenset({"record"})

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
        _check_classes(facts)
        self._features, self._n_inputs = features, n_inputs(features, facts.n_features)
        self._hidden = _checked_layer("hidden", hidden, (None, self._n_inputs + 1))
        self._output = _checked_layer("output", output, (n_outputs(facts), len(self._hidden) + 1))
        self._clip = _checked_number("clip", clip, largest=1e9)
        self._input_scale = _checked_number("input_scale", input_scale, largest=1e9 / _longest(facts, features))

    @staticmethod
    def extent(*, n_features: Number, n_hidden: Number, n_outputs: Number, clip: Number) -> Extent:
        """Return the extent for layers of these widths and gradients of length at most ``clip``."""
        size = n_hidden * (n_features + 1) + n_outputs * (n_hidden + 1)
        # A contribution passes through one product per layer; count both widths.
        return Extent(size, 2 * clip, clip, rounding_in_blocks(n_features + n_hidden + n_outputs, clip))

    @property
    def numbers(self) -> Mapping[str, float]:
        n_features, n_hidden, n_outputs = self._widths
        return {"n_features": n_features, "n_hidden": n_hidden, "n_outputs": n_outputs, "clip": self._clip}

    @property
    def _widths(self) -> tuple[int, int, int]:
        return self._n_inputs, len(self._hidden), len(self._output)

    @property
    def assumption(self) -> str:
        return feature_map(self._features).assumption if self._features else super().assumption

    def total(self, records: LabelledBlocks[IntArray]) -> FloatArray:
        gradients = np.zeros_like(self._hidden), np.zeros_like(self._output)
        for block, codes in feature_blocks(records, self._features, self.facts.n_features):
            self._add(block, codes, gradients)
        return np.concatenate([gradient.ravel() for gradient in gradients])

    def _add(self, rows: FloatArray, codes: IntArray, gradients: tuple[FloatArray, FloatArray]) -> None:
        """Add the clipped gradients of one block."""
        # Scaling the weights instead of the rows saves a pass over the rows.
        weights, biases = self._hidden[:, :-1] * self._input_scale, self._hidden[:, -1]
        active = rows @ weights.T
        active += biases
        np.maximum(active, 0.0, out=active)
        late = _output_errors(active @ self._output[:, :-1].T + self._output[:, -1], codes)
        early = late @ self._output[:, :-1]
        early *= active > 0
        self._scale(rows, active, early, late)
        gradients[0][:, :-1] += early.T @ rows * self._input_scale
        gradients[0][:, -1] += early.sum(axis=0)
        gradients[1][:, :-1] += late.T @ active
        gradients[1][:, -1] += late.sum(axis=0)

    def _scale(self, rows: FloatArray, active: FloatArray, early: FloatArray, late: FloatArray) -> None:
        """Scale back-propagated errors so that each record's gradient is at most ``clip`` long.

        |W1 gradient|^2 = |early|^2 |x|^2, the bias adds |early|^2, and so on. The computed length is off by
        at most (sum of widths) roundings; aiming that much lower keeps the exact one within the bound.
        """
        squared = np.vecdot(early, early) * (np.vecdot(rows, rows) * self._input_scale**2 + 1.0)
        squared += np.vecdot(late, late) * (np.vecdot(active, active) + 1.0)
        target = self._clip * (1 - (sum(self._widths) + 64) * 2.0**-51)
        factors = target / np.maximum(np.sqrt(squared), target)
        early *= factors[:, np.newaxis]
        late *= factors[:, np.newaxis]


@known
class LinearGradient(Statistic[LabelledBlocks[IntArray], FloatArray]):
    """Mean of per-record gradients of the cross-entropy of a linear classifier, each clipped to a public length.

    The classifier is y = output(W x + b): one sigmoid for two classes, a softmax for more. The contribution is the
    gradient (W, b) times min(1, clip / its length), so two contributions are at most 2 clip apart, whatever weights and
    feature map are. The gradient is e (x, 1)' with e the error of the outputs, so its length is |e| sqrt(|x|^2 + 1).

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
    kinds = frozenset({"labelled"})
    units = frozenset({"record"})

    def __init__(
        self, facts: PublicFacts, output: FloatArray, clip: float, input_scale: float, features: str = ""
    ) -> None:
        super().__init__(facts, output=output, clip=clip, input_scale=input_scale, features=features)
        _check_classes(facts)
        self._features, self._n_inputs = features, n_inputs(features, facts.n_features)
        self._output = _checked_layer("output", output, (n_outputs(facts), self._n_inputs + 1))
        self._clip = _checked_number("clip", clip, largest=1e9)
        self._input_scale = _checked_number("input_scale", input_scale, largest=1e9 / _longest(facts, features))

    @staticmethod
    def extent(*, n_features: Number, n_outputs: Number, clip: Number) -> Extent:
        """Return the extent for ``n_features`` inputs and gradients of length at most ``clip``."""
        size = n_outputs * (n_features + 1)
        return Extent(size, 2 * clip, clip, rounding_in_blocks(n_features + n_outputs, clip))

    @property
    def numbers(self) -> Mapping[str, float]:
        return {"n_features": self._n_inputs, "n_outputs": len(self._output), "clip": self._clip}

    @property
    def assumption(self) -> str:
        return feature_map(self._features).assumption if self._features else super().assumption

    def total(self, records: LabelledBlocks[IntArray]) -> FloatArray:
        gradient = np.zeros_like(self._output)
        weights, biases = self._output[:, :-1] * self._input_scale, self._output[:, -1]
        for block, codes in feature_blocks(records, self._features, self.facts.n_features):
            errors = _output_errors(block @ weights.T + biases, codes)
            squared = np.vecdot(errors, errors) * (np.vecdot(block, block) * self._input_scale**2 + 1.0)
            # Off by as many roundings as there are terms; aiming that much lower keeps the exact length within bounds.
            target = self._clip * (1 - (self._n_inputs + len(gradient) + 64) * 2.0**-51)
            errors *= (target / np.maximum(np.sqrt(squared), target))[:, np.newaxis]
            gradient[:, :-1] += errors.T @ block * self._input_scale
            gradient[:, -1] += errors.sum(axis=0)
        return gradient.ravel()


def _check_classes(facts: PublicFacts) -> None:
    if facts.classes is None:
        raise InvalidParameter(
            "Records for a classifier must have public classes; got a numeric response. "
            "Build them with labelled(X, y, bound=..., classes=[...])."
        )


def _longest(facts: PublicFacts, features: str) -> float:
    """Return the largest length of an input: the bound of rows, or one for features."""
    return 1.0 if features else facts.bounds[0]


def n_outputs(facts: PublicFacts) -> int:
    """Return the number of output units for these records: one for two classes, else one per class."""
    return int(computed(outputs_for(len(facts.classes or ()))))


def outputs_for(n_classes: Number) -> Number:
    """Return the number of output units for ``n_classes`` classes: one for two classes, else one per class."""
    return choose(n_classes == 2, 1, n_classes)


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
        raise InvalidParameter(
            f"{subject} must be a float64 matrix with {shape[0] or 'any number of'} rows and {shape[1]} columns; "
            f"got {getattr(weights, 'shape', type(weights).__name__)}. The last column holds the biases."
        )
    outside = np.flatnonzero(~(np.abs(weights) <= LARGEST_WEIGHT).all(axis=1))
    if outside.size:
        raise InvalidParameter(
            f"{subject} must have finite entries of at most {LARGEST_WEIGHT:g} in absolute value; got a larger or "
            f"non-finite entry in row {outside[0]}. Lower the learning rate."
        )
    layer: FloatArray = weights
    return layer


def _checked_number(subject: str, value: float, *, largest: float) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 1e-9 * largest * 1e-9 <= value <= largest:
        raise InvalidParameter(
            f"{subject} must be a positive number of at most {largest:g}; got {value!r}. Choose it near 1."
        )
    return float(value)


def network_gradient(
    facts: PublicFacts,
    *,
    hidden: FloatArray,
    output: FloatArray,
    clip: float,
    input_scale: float,
    features: str = "",
) -> NetworkGradient:
    """Mean of clipped gradients at the given weights."""
    return NetworkGradient(facts, hidden=hidden, output=output, clip=clip, input_scale=input_scale, features=features)


def linear_gradient(
    facts: PublicFacts, *, output: FloatArray, clip: float, input_scale: float, features: str = ""
) -> LinearGradient:
    """Mean of clipped gradients of a linear classifier at the given weights."""
    return LinearGradient(facts, output=output, clip=clip, input_scale=input_scale, features=features)
