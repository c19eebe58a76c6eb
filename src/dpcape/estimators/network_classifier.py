"""A classifier with one hidden layer, trained across sites (dissertation, section 3.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from dpcape.analyses.description import Analysis
from dpcape.analyses.network_classifier import NETWORK_CLASSIFIER
from dpcape.arrays import FloatArray
from dpcape.estimators.class_labels import accuracy_of
from dpcape.estimators.estimator import FederatedEstimator
from dpcape.federation import Allowance, Federation
from dpcape.statistics.gradients import LARGEST_WEIGHT, n_outputs, network_gradient

# Rows enter the network with this length at most; found by trial on the papers' synthetic data (docs/analyses).
_INPUT_LENGTH = 3.0
_HIDDEN_SPREAD, _OUTPUT_SPREAD = 0.1, 0.5


class NetworkClassifier(FederatedEstimator):
    """A network with one hidden layer of rectified linear units, trained by full-batch gradient steps.

    Each round releases the mean of the records' gradients, each clipped to a public length. Rounds are declared
    beforehand, and the weights of the second half of them are averaged.

    Parameters
    ----------
    n_hidden : int
        Hidden units.
    epsilon : float or mapping
        For all rounds together; one number, or one per site.
    delta : float
    n_iter : int
        Rounds; all of them are paid for.
    clip : float
        Largest length of a record's gradient.
    learning_rate : float
    random_state : int
        Public seed of the weights the training starts from.

    Attributes
    ----------
    hidden_ : (n_hidden, n_features + 1)
        Weights and, last, biases; rows are scaled to length 3 at most beforehand.
    output_ : (outputs, n_hidden + 1)
        One output for two classes, else one per class.
    input_scale_ : float
        What rows are multiplied by.
    classes_ : array of str
    noise_scale_ : float
        Standard deviation of the noise of each entry of a released mean gradient.

    Privacy
    -------
    ``n_iter`` releases of :func:`~dpcape.statistics.network_gradient`, diameter 2 clip, each with the same share of
    mu^2; composition is exact. The weights sent to the sites depend on earlier releases only.

    Edge cases
    ----------
    ==============================  ================================================
    numeric response                refused
    record with zero gradient       contributes zero
    weights driven off by noise     held within 1e6
    ==============================  ================================================

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
        learning_rate: float = 2.5,
        random_state: int = 0,
    ) -> None:
        self.n_hidden = n_hidden
        self.epsilon = epsilon
        self.delta = delta
        self.n_iter = n_iter
        self.clip = clip
        self.learning_rate = learning_rate
        self.random_state = random_state

    def _rounds(self, federation: Federation) -> range:
        return range(self.n_iter)

    def _fit(self, federation: Federation, private: Allowance) -> None:
        scale = _INPUT_LENGTH / federation.facts.bounds[0]
        hidden, output = self._start(federation)
        sums, n_kept = (np.zeros_like(hidden), np.zeros_like(output)), 0
        n_rounds = private.left
        for step in range(n_rounds):
            statistic = network_gradient(
                federation.facts, hidden=hidden, output=output, clip=float(self.clip), input_scale=scale
            )
            gradients = np.split(private.mean(statistic), [hidden.size])
            hidden, output = (
                _step(layer, gradient, self.learning_rate)
                for layer, gradient in zip((hidden, output), gradients, strict=True)
            )
            # Averaging the later iterates removes much of their noise (Polyak and Juditsky 1992).
            if 2 * (step + 1) > n_rounds:
                sums, n_kept = (sums[0] + hidden, sums[1] + output), n_kept + 1
        self.hidden_, self.output_ = sums[0] / n_kept, sums[1] / n_kept
        self.input_scale_ = scale
        self.classes_ = np.array(federation.facts.classes)
        self.noise_scale_ = private.releases[-1].scale

    def _start(self, federation: Federation) -> tuple[FloatArray, FloatArray]:
        """Return public random weights, biases zero."""
        source = check_random_state(self.random_state)
        hidden = np.zeros((self.n_hidden, federation.n_features + 1))
        output = np.zeros((n_outputs(federation.facts), self.n_hidden + 1))
        hidden[:, :-1] = _HIDDEN_SPREAD * source.standard_normal(hidden[:, :-1].shape)
        output[:, :-1] = _OUTPUT_SPREAD * source.standard_normal(output[:, :-1].shape)
        return hidden, output

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Return the outputs before the last nonlinearity, one column per output unit."""
        width = self.hidden_.shape[1] - 1 if hasattr(self, "hidden_") else 0
        rows = self._checked_rows(X, width) * self.input_scale_
        active = np.maximum(rows @ self.hidden_[:, :-1].T + self.hidden_[:, -1], 0.0)
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

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable class of each row."""
        check_is_fitted(self, "guarantee_")
        chosen: NDArray[Any] = self.classes_[np.argmax(self.predict_proba(X), axis=1)]
        return chosen

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Return the share of rows whose class is predicted."""
        return accuracy_of(self.predict(X), y, self.classes_)


def _step(layer: FloatArray, gradient: FloatArray, learning_rate: float) -> FloatArray:
    moved = layer - learning_rate * gradient.reshape(layer.shape)
    return np.clip(moved, -LARGEST_WEIGHT, LARGEST_WEIGHT)
