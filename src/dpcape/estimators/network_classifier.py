"""A classifier with no or one hidden layer, trained across sites (dissertation, section 3.4)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtri, expit, softmax
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from dpcape.analyses.description import Analysis
from dpcape.analyses.network_classifier import NETWORK_CLASSIFIER
from dpcape.arrays import FloatArray
from dpcape.estimators.class_labels import accuracy_of
from dpcape.estimators.estimator import FederatedEstimator, effective_share
from dpcape.federation import Allowance, Federation
from dpcape.postprocessing.verdicts import Verdict, of_strengths
from dpcape.statistics.feature_maps import feature_map, n_inputs
from dpcape.statistics.gradients import (
    LARGEST_WEIGHT,
    LinearGradient,
    NetworkGradient,
    linear_gradient,
    n_outputs,
    network_gradient,
)

# Largest norm of a row at the input, and step, of a network and of a linear classifier. Found by trial on the papers'
# synthetic data, and on a split of MNIST's training images (docs/analyses/network.md).
_INPUT_LENGTH, _LINEAR_INPUT_LENGTH = 3.0, 1.0
_STEP, _LINEAR_STEP, _STEP_OF_FEATURES = 2.5, 60.0, 150.0
_LINEAR_MOMENTUM = 0.9
_HIDDEN_SPREAD, _OUTPUT_SPREAD = 0.1, 0.5
# The weights of this last part of the rounds are averaged.
_AVERAGED = 0.5
# How often noise and sampling may exceed what a verdict allows for.
_ERROR = 0.05
_NOT_ACCURACY = "accuracy must be measured on other rows"


class NetworkClassifier(FederatedEstimator):
    """Neural network classifier with one hidden layer of rectified linear units, trained by full-batch gradient steps.

    Each round releases the mean of the records' gradients, each clipped to a public norm. The number of rounds is fixed
    in advance. Steps follow a running average of the released gradients, and the weights of the last rounds are
    averaged. Without hidden units it is a linear classifier (softmax regression), which needs fewer records.

    Parameters
    ----------
    n_hidden : int
        Number of hidden units; 0 for a linear classifier.
    epsilon : float or mapping
        Privacy parameter epsilon of all rounds together: one number for all sites, or one per site.
    delta : float
        Privacy parameter delta, the same at all sites; far below one over the number of records.
    n_iter : int
        Number of rounds, fixed in advance; the budget is divided among them.
    clip : float
        Norm to which each record's gradient is clipped.
    learning_rate : float or None
        Factor of the averaged gradient in each step; None for 2.5, and without hidden units 60 for rows
        and 150 for features.
    momentum : float or None
        Share of the earlier gradients in the running average, from 0 to 0.999; None for 0, and 0.9 without hidden
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
        Weights of the hidden layer; the last column holds the biases. Rows are first scaled to a norm of at most 3
        (1 without hidden units). No rows without hidden units.
    output_ : array of shape (outputs, n_hidden + 1)
        Weights of the output layer, biases last: one output for two classes, otherwise one per class.
    input_scale_ : float
        Factor by which rows are multiplied before they enter the network.
    classes_ : array of str
        Names of the classes.
    noise_scale_ : float
        Standard deviation of the noise on each entry of a released mean gradient.

    Privacy
    -------
    ``n_iter`` releases of :func:`~dpcape.statistics.network_gradient` (``linear_gradient`` without hidden units),
    diameter 2 clip, each with the same share of mu^2; composition is exact. Gradients are clipped after the
    feature map is applied. The weights sent to the sites depend on earlier releases only.

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
    ['0', '1']
    """

    analysis: ClassVar[Analysis | None] = NETWORK_CLASSIFIER
    _builder: ClassVar[str] = "labelled(X, y, bound=..., classes=[...])"
    _fitted: ClassVar[tuple[str, ...]] = ("hidden_", "output_", "input_scale_", "classes_", "noise_scale_")

    def __init__(
        self,
        n_hidden: int = 20,
        *,
        epsilon: float | Mapping[str, float],
        delta: float,
        n_iter: int = 20,
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
        weights = self._start(federation)
        hidden_size = self.n_hidden * self._n_columns(federation)
        average, kept, n_kept = np.zeros_like(weights), np.zeros_like(weights), 0
        n_rounds, momentum = private.left, self._momentum
        first_kept = n_rounds - math.ceil(_AVERAGED * n_rounds)
        total, lengths = np.zeros_like(weights), []
        for step in range(n_rounds):
            released = private.mean(self._gradient(federation, weights, hidden_size, scale))
            total = total + released
            lengths.append(float(np.linalg.norm(total)) / (step + 1))
            average = momentum * average + (1 - momentum) * released
            weights = np.clip(weights - self._step * average, -LARGEST_WEIGHT, LARGEST_WEIGHT)
            # Averaging the later iterates removes much of their noise (Polyak and Juditsky 1992).
            if step >= first_kept:
                kept, n_kept = kept + weights, n_kept + 1
        hidden, output = np.split(kept / n_kept, [hidden_size])
        self.hidden_ = hidden.reshape(self.n_hidden, self._n_columns(federation))
        self.output_ = output.reshape(n_outputs(federation.facts), -1)
        self.input_scale_ = scale
        self.classes_ = np.array(federation.facts.classes)
        self.noise_scale_ = private.releases[-1].scale
        self.verdicts_ = self._judged(federation, private, lengths, len(weights))

    def _judged(self, federation: Federation, private: Allowance, lengths: list[float], size: int) -> list[Verdict]:
        """Return the verdict on the direction of training, from the lengths of the mean gradients so far."""
        share = effective_share(federation, private.releases[-1].survivors)
        reached = gradient_of_noise(
            size, len(lengths), scale=self.noise_scale_ / private.valid, sampling=float(self.clip) * math.sqrt(share)
        )
        ratio = max(lengths[rounds - 1] / length for rounds, length in reached.items())
        judged = of_strengths(["direction of training"], [ratio], 1.0, what="mean gradient")
        return [replace(entry, reason=f"{entry.reason}; {_NOT_ACCURACY}") for entry in judged]

    @property
    def _step(self) -> float:
        if self.learning_rate is not None:
            return float(self.learning_rate)
        if self.n_hidden:
            return _STEP
        return _LINEAR_STEP if self.features is None else _STEP_OF_FEATURES

    @property
    def _momentum(self) -> float:
        if self.momentum is not None:
            return float(self.momentum)
        return 0.0 if self.n_hidden else _LINEAR_MOMENTUM

    def _n_columns(self, federation: Federation) -> int:
        """Return the columns of the first layer: inputs and bias."""
        return n_inputs(self.features or "", federation.n_features) + 1

    def _gradient(
        self, federation: Federation, weights: FloatArray, hidden_size: int, scale: float
    ) -> NetworkGradient | LinearGradient:
        facts, clip, features = federation.facts, float(self.clip), self.features or ""
        hidden, output = np.split(weights, [hidden_size])
        output = output.reshape(n_outputs(facts), -1)
        if not self.n_hidden:
            return linear_gradient(facts, output=output, clip=clip, input_scale=scale, features=features)
        hidden = hidden.reshape(self.n_hidden, -1)
        return network_gradient(facts, hidden=hidden, output=output, clip=clip, input_scale=scale, features=features)

    def _start(self, federation: Federation) -> FloatArray:
        """Return public initial weights, in one vector: random, or zero without hidden units; biases are zero."""
        outputs = n_outputs(federation.facts)
        if not self.n_hidden:
            return np.zeros(outputs * self._n_columns(federation))
        source = check_random_state(self.random_state)
        hidden = np.zeros((self.n_hidden, self._n_columns(federation)))
        output = np.zeros((outputs, self.n_hidden + 1))
        hidden[:, :-1] = _HIDDEN_SPREAD * source.standard_normal(hidden[:, :-1].shape)
        output[:, :-1] = _OUTPUT_SPREAD * source.standard_normal(output[:, :-1].shape)
        return np.concatenate([hidden.ravel(), output.ravel()])

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Return the outputs before the final nonlinearity, one column per output unit."""
        rows = self._checked_rows(X, getattr(self, "n_features_in_", 0))
        if self.features is not None:
            rows = feature_map(self.features).mapped(rows)
        active = rows * self.input_scale_
        if len(self.hidden_):
            active = np.maximum(active @ self.hidden_[:, :-1].T + self.hidden_[:, -1], 0.0)
        outputs: FloatArray = active @ self.output_[:, :-1].T + self.output_[:, -1]
        return outputs

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Return the probabilities of the classes, one row per record."""
        outputs = self.decision_function(X)
        if outputs.shape[1] > 1:
            probabilities: FloatArray = softmax(outputs, axis=1)
            return probabilities
        second = expit(outputs[:, 0])
        return np.stack([1 - second, second], axis=1)

    def predict(self, X: ArrayLike) -> NDArray[np.str_]:
        """Return the most probable class of each row."""
        check_is_fitted(self, "guarantee_")
        chosen: NDArray[np.str_] = self.classes_[np.argmax(self.predict_proba(X), axis=1)]
        return chosen

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Return the share of rows whose class is predicted correctly."""
        return accuracy_of(self.predict(X), y, self.classes_)


def gradient_of_noise(n_weights: int, n_rounds: int, *, scale: float, sampling: float) -> dict[int, float]:
    """Return the length that the mean gradient of the first 1, 2, 4, ... rounds has by noise and sampling alone.

    Some of them is longer in 5% of studies at most. The mean of N contributions that are at most clip long, and whose
    expectation is zero, is longer than (1 + sqrt(2 log(1/a))) clip / sqrt(N) in the share a of samples at most
    (McDiarmid); the mean over rounds is not longer than the longest.

    Parameters
    ----------
    n_weights : int
        Entries of a gradient.
    n_rounds : int
        Number of rounds.
    scale : float
        Standard deviation of the noise of each entry in one round.
    sampling : float
        The clip over the root of the effective number of records.
    """
    numbers = [2**power for power in range(n_rounds.bit_length())]
    level = _ERROR / 2 / len(numbers)
    noise, sampled = scale * math.sqrt(float(chdtri(n_weights, level))), 1 + math.sqrt(-2 * math.log(level))
    return {number: noise / math.sqrt(number) + sampled * sampling for number in numbers}
