"""A classifier with one hidden layer, trained across sites (dissertation, section 3.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

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

# Largest norm of a row at the network's input; found by trial on the papers' synthetic data (docs/analyses).
_INPUT_LENGTH = 3.0
_HIDDEN_SPREAD, _OUTPUT_SPREAD = 0.1, 0.5


class NetworkClassifier(FederatedEstimator):
    """Neural network classifier with one hidden layer of rectified linear units, trained by full-batch gradient steps.

    Each round releases the mean of the records' gradients, each clipped to a public norm. The number of rounds is fixed
    in advance, and the weights of its second half are averaged.

    Parameters
    ----------
    n_hidden : int
        Number of hidden units.
    epsilon : float or mapping
        Privacy parameter epsilon of all rounds together: one number for all sites, or one per site.
    delta : float
        Privacy parameter delta, the same at all sites; far below one over the number of records.
    n_iter : int
        Number of rounds, fixed in advance; the budget is divided among them.
    clip : float
        Norm to which each record's gradient is clipped.
    learning_rate : float
        Factor of the gradient in each step.
    random_state : int or None
        Public seed of the initial weights; None uses a new one each time.

    Attributes
    ----------
    hidden_ : array of shape (n_hidden, n_features + 1)
        Weights of the hidden layer; the last column holds the biases. Rows are first scaled to a norm of at most 3.
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
    ``n_iter`` releases of :func:`~dpcape.statistics.network_gradient`, diameter 2 clip, each with the same share of
    mu^2; composition is exact. The weights sent to the sites depend on earlier releases only.

    Edge cases
    ----------
    ==============================  ================================================
    numeric response                refused
    record with zero gradient       contributes zero
    weights diverging by noise      limited to 1e6
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
        """Return public random initial weights; biases are zero."""
        source = check_random_state(self.random_state)
        hidden = np.zeros((self.n_hidden, federation.n_features + 1))
        output = np.zeros((n_outputs(federation.facts), self.n_hidden + 1))
        hidden[:, :-1] = _HIDDEN_SPREAD * source.standard_normal(hidden[:, :-1].shape)
        output[:, :-1] = _OUTPUT_SPREAD * source.standard_normal(output[:, :-1].shape)
        return hidden, output

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Return the outputs before the final nonlinearity, one column per output unit."""
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

    def predict(self, X: ArrayLike) -> NDArray[np.str_]:
        """Return the most probable class of each row."""
        check_is_fitted(self, "guarantee_")
        chosen: NDArray[np.str_] = self.classes_[np.argmax(self.predict_proba(X), axis=1)]
        return chosen

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Return the share of rows whose class is predicted correctly."""
        return accuracy_of(self.predict(X), y, self.classes_)


def _step(layer: FloatArray, gradient: FloatArray, learning_rate: float) -> FloatArray:
    moved = layer - learning_rate * gradient.reshape(layer.shape)
    return np.clip(moved, -LARGEST_WEIGHT, LARGEST_WEIGHT)
