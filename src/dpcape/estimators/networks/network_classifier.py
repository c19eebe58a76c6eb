"""A classifier with no, one or several hidden layers, trained across sites (dissertation, section 3.4)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, softmax

from dpcape.analyses.description import Analysis
from dpcape.analyses.network_classifier import NETWORK_CLASSIFIER, hidden_widths
from dpcape.core.arrays import AnyArray, FloatArray
from dpcape.estimators.class_labels import accuracy_of, classes_of
from dpcape.estimators.estimator import FederatedEstimator
from dpcape.estimators.fitted import require_fitted
from dpcape.estimators.networks.gradient_rounds import WEIGHT, descended, public_step
from dpcape.estimators.reported import grid, numbered_from_one, weights_section
from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation
from dpcape.results import Result, Section
from dpcape.statistics.feature_maps import feature_map, n_inputs
from dpcape.statistics.gradients import (
    LayeredGradient,
    deep_gradient,
    layers_of,
    linear_gradient,
    n_outputs,
    n_weights,
    network_gradient,
)

# Largest norm of a row at the input, step and momentum of a network and of a linear classifier. Found by trial on the
# papers' synthetic data, and on a split of MNIST's training images (docs/analyses/network.md).
_INPUT_LENGTH, _LINEAR_INPUT_LENGTH = 3.0, 1.0
_STEP, _LINEAR_STEP, _STEP_OF_FEATURES = 10.0, 60.0, 150.0
_MOMENTUM, _LINEAR_MOMENTUM = 0.8, 0.9
_HIDDEN_SPREAD, _OUTPUT_SPREAD = 0.1, 0.5


class NetworkClassifier(FederatedEstimator):
    """Neural network classifier with layers of rectified linear units, trained by full-batch gradient steps.

    Each round releases the mean of the records' gradients, each clipped to a public norm. The number of rounds is fixed
    in advance. Steps follow a running average of the released gradients, and the weights of the last rounds are
    averaged. Without hidden units it is a linear classifier (softmax regression), which needs fewer records.

    Parameters
    ----------
    n_hidden : int or sequence of int
        Number of hidden units; 0 for a linear classifier; a sequence such as (40, 20) for several hidden layers.
    epsilon : float or mapping
        Privacy parameter epsilon of all rounds together: one number for all sites, or one per site.
    delta : float or mapping
        Privacy parameter delta, for all sites or per site; far below one over the number of records.
    n_iter : int
        Number of rounds, fixed in advance; the budget is divided among them.
    clip : float
        Norm to which each record's gradient is clipped.
    learning_rate : float or None
        Factor of the averaged gradient in each step; None for 10 / clip, and without hidden units 60 / clip for rows
        and 150 / clip for features. None is less where there is much noise, by a rule on the public noise scale.
    momentum : float or None
        Share of the earlier gradients in the running average, from 0 to 0.999; None for 0.8, and 0.9 without hidden
        units.
    features : str or None
        Name of a public feature map that each site applies to its rows first: "hog" for square grey images, or one that
        is registered at every site with :func:`~dpcape.statistics.known_map`. A map that is not part of dpcape makes
        the guarantee conditional. None takes rows as they are.
    random_state : int or None
        Public seed of the initial weights; None uses a new one each time.

    Attributes
    ----------
    hidden_ : array of shape (n_hidden, n_features + 1)
        Weights of the first hidden layer; the last column holds the biases. Rows are first scaled to a norm of at most
        3 (1 without hidden units). No rows without hidden units.
    inner_ : array
        Weights of the other hidden layers in one vector, each row by row with the bias last; empty if there are none.
    output_ : array of shape (outputs, n_hidden + 1)
        Weights of the output layer, biases last: one output for two classes, otherwise one per class.
    input_scale_ : float
        Factor by which rows are multiplied before they enter the network.
    classes_ : array
        The classes, as the sites' labels are: text, integers, numbers or Booleans.
    noise_scale_ : float
        Standard deviation of the noise on each entry of a released mean gradient.

    Privacy
    -------
    ``n_iter`` releases of ``network_gradient`` (``linear_gradient`` without hidden units,
    ``deep_gradient`` with several hidden layers), diameter 2 clip, each with the same share of mu^2; composition is
    exact. Gradients are clipped after the feature map is applied. The weights sent to the sites depend on earlier
    releases only.

    Edge cases
    ----------
    ==============================  ================================================
    numeric response                refused
    record with zero gradient       contributes zero
    weights diverging by noise      limited to 1e6
    ==============================  ================================================

    Notes
    -----
    The direction of training is judged by whether the mean gradient of the first rounds is longer than noise and
    sampling make it. Classes of unequal size, and random initial weights, make it long without any relation between
    rows and labels: measure accuracy on rows that were not used, and compare it with the share of the largest class.

    References
    ----------
    H. Imtiaz, dissertation, section 3.4; M. Abadi et al., *Deep learning with differential privacy*, 2016 (clipping).

    Examples
    --------
    >>> import numpy as np
    >>> from dpcape import Federation, Independent, NetworkClassifier, in_process, labelled
    >>> x = np.linspace(-1, 1, 4000)[:, None]
    >>> records = labelled(x, np.where(abs(x[:, 0]) > 0.5, 1, 0), bound=1.0, classes=[0, 1])
    >>> fed = Federation(in_process({"lyon": records}), protocol=Independent())
    >>> NetworkClassifier(8, epsilon=20.0, delta=1e-6, n_iter=60).fit(fed).predict([[0.0], [0.9]]).tolist()
    [0, 1]
    """

    analysis: ClassVar[Analysis | None] = NETWORK_CLASSIFIER
    _builder: ClassVar[str] = "labelled(X, y, bound=..., classes=[...])"
    _fitted: ClassVar[tuple[str, ...]] = ("hidden_", "inner_", "output_", "input_scale_", "classes_", "noise_scale_")

    def __init__(
        self,
        n_hidden: int | Sequence[int] = 20,
        *,
        epsilon: float | Mapping[str, float],
        delta: float | Mapping[str, float],
        n_iter: int = 60,
        clip: float = 1.0,
        learning_rate: float | None = None,
        momentum: float | None = None,
        features: str | None = None,
        random_state: int = 0,
    ) -> None:
        self.n_hidden = n_hidden
        self.epsilon = epsilon
        self.delta = delta
        self.n_iter = n_iter
        self.clip = clip
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.features = features
        self.random_state = random_state

    def _rounds(self, federation: Federation) -> range:
        return range(self.n_iter)

    def _fit(self, federation: Federation, private: Allowance) -> None:
        longest = federation.facts.bounds[0] if self.features is None else 1.0
        scale = (_INPUT_LENGTH if self.n_hidden else _LINEAR_INPUT_LENGTH) / longest
        descent = descended(
            private,
            self._start(federation),
            lambda at: self._gradient(federation, at, scale),
            step=self._step,
            momentum=self._momentum,
        )
        *hidden, self.output_ = layers_of(descent.weights, self._widths(federation))
        # One array per attribute, so that a model file holds plain arrays whatever the number of layers.
        self.hidden_ = hidden[0] if hidden else np.zeros((0, self.output_.shape[1]))
        self.inner_ = np.concatenate([np.zeros(0), *(layer.ravel() for layer in hidden[1:])])
        self.input_scale_ = scale
        self.classes_ = classes_of(federation.facts)
        self.noise_scale_ = private.releases[-1].scale
        self.verdicts_ = descent.verdicts(federation, private, clip=float(self.clip))

    @property
    def layers_(self) -> list[FloatArray]:
        """Weights of all layers, from the first to the output; the last column of each holds the biases."""
        require_fitted(self)
        inner = layers_of(self.inner_, hidden_widths(self.n_hidden))
        return [*([self.hidden_] if len(self.hidden_) else []), *inner, self.output_]

    def _step(self, noise_scale: float) -> float:
        if self.learning_rate is not None:
            return float(self.learning_rate)
        linear = _LINEAR_STEP if self.features is None else _STEP_OF_FEATURES
        default = _STEP if self.n_hidden else linear
        return public_step(default, clip=float(self.clip), n_rounds=self.n_iter, noise_scale=noise_scale)

    @property
    def _momentum(self) -> float:
        if self.momentum is not None:
            return float(self.momentum)
        return _MOMENTUM if self.n_hidden else _LINEAR_MOMENTUM

    def _widths(self, federation: Federation) -> tuple[int, ...]:
        """Return the number of inputs, of units of each hidden layer and of outputs."""
        inputs = n_inputs(self.features or "", federation.n_features)
        return inputs, *hidden_widths(self.n_hidden), n_outputs(federation.facts)

    def _gradient(self, federation: Federation, weights: FloatArray, scale: float) -> LayeredGradient:
        facts, clip, features = federation.facts, float(self.clip), self.features or ""
        widths = self._widths(federation)
        if len(widths) > 3:
            inner = widths[1:-1]
            return deep_gradient(facts, widths=inner, weights=weights, clip=clip, input_scale=scale, features=features)
        *hidden, output = layers_of(weights, widths)
        if not hidden:
            return linear_gradient(facts, output=output, clip=clip, input_scale=scale, features=features)
        return network_gradient(facts, hidden=hidden[0], output=output, clip=clip, input_scale=scale, features=features)

    def _start(self, federation: Federation) -> FloatArray:
        """Return public initial weights, in one vector: random, or zero without hidden units; biases are zero."""
        # Loaded when it is used: scikit-learn takes most of a second.
        from sklearn.utils import check_random_state

        widths = self._widths(federation)
        weights = np.zeros(n_weights(widths))
        source = check_random_state(self.random_state)
        for number, layer in enumerate(layers_of(weights, widths)):
            if self.n_hidden:
                layer[:, :-1] = self._spread(number, layer) * source.standard_normal(layer[:, :-1].shape)
        return weights

    def _spread(self, number: int, layer: FloatArray) -> float:
        """Return the standard deviation of a layer's initial weights."""
        if number == 0:
            return _HIDDEN_SPREAD
        if number == len(hidden_widths(self.n_hidden)):
            return _OUTPUT_SPREAD
        # Keeps the length of what passes through rectified units (He et al. 2015).
        return math.sqrt(2 / (layer.shape[1] - 1))

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Return the outputs before the final nonlinearity, one column per output unit."""
        rows = self._checked_rows(X, getattr(self, "n_features_in_", 0))
        if self.features is not None:
            rows = feature_map(self.features).mapped(rows)
        *hidden, output = self.layers_
        active = rows * self.input_scale_
        for layer in hidden:
            active = np.maximum(active @ layer[:, :-1].T + layer[:, -1], 0.0)
        return active @ output[:, :-1].T + output[:, -1]

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Return the probabilities of the classes, one row per record."""
        outputs = self.decision_function(X)
        if outputs.shape[1] > 1:
            return softmax(outputs, axis=1)
        second = expit(outputs[:, 0])
        return np.stack([1 - second, second], axis=1)

    def predict(self, X: ArrayLike) -> AnyArray:
        """Return the most probable class of each row."""
        require_fitted(self)
        chosen: AnyArray = self.classes_[np.argmax(self.predict_proba(X), axis=1)]
        return chosen

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Return the share of rows whose class is predicted correctly."""
        return accuracy_of(self.predict(X), y, self.classes_)

    def _result(self) -> Result:
        units, inputs = self.hidden_.shape[0], self.hidden_.shape[1] - 1
        names = [*(numbered_from_one(inputs) if self.features else self._names(inputs)), "bias"]
        hidden = grid("weight of the hidden unit", WEIGHT, self.hidden_, names, "unit")
        into = [*(numbered_from_one(self.output_.shape[1] - 1) if units else names[:-1]), "bias"]
        output = grid("weight of the output", WEIGHT, self.output_, into, "output")
        if not units:
            return Result((weights_section("Weights of the outputs", (hidden, output), self.output_, into, "output"),))
        first = weights_section("Weights of the hidden units", (hidden,), self.hidden_, names, "unit")
        return Result((first, Section(title="Weights of the outputs", estimates=(output,), tables=())))
