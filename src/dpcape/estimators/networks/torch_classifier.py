"""A classifier whose network is a registered PyTorch module, trained across sites."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax

from dpcape.analyses.description import Analysis
from dpcape.analyses.torch_classifier import TORCH_CLASSIFIER
from dpcape.core.arrays import AnyArray, FloatArray
from dpcape.core.errors import InvalidParameter
from dpcape.estimators.class_labels import accuracy_of, classes_of
from dpcape.estimators.estimator import FederatedEstimator
from dpcape.estimators.fitted import require_fitted
from dpcape.estimators.networks.gradient_rounds import WEIGHT, descended, public_step
from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation
from dpcape.postprocessing.verdicts import numbered
from dpcape.results import LARGEST, Estimates, Result, Section
from dpcape.statistics.modules import module_gradient, module_of
from dpcape.statistics.torch_modules import TorchModule

if TYPE_CHECKING:
    import torch

# Found on a split of MNIST's training images (docs/analyses/network.md).
_STEP, _MOMENTUM = 10.0, 0.8


class TorchClassifier(FederatedEstimator):
    """Classifier whose network is a PyTorch module of your own, trained by full-batch gradient steps.

    The module is registered by name with :func:`~dpcape.statistics.known_module`; its code is never sent. Each round
    releases the mean of the records' gradients of the cross-entropy, each clipped to a public norm. The number of
    rounds is fixed in advance. Steps follow a running average of the released gradients, and the weights of the
    second half of the rounds are averaged. A study can name a module that a package declares; sites that are served run
    it in sandboxed children.

    Parameters
    ----------
    module : str
        Name of the registered module. It receives rows as the sites hold them, scaled and clipped.
    epsilon : float or mapping
        Privacy parameter epsilon of all rounds together: one number for all sites, or one per site.
    delta : float or mapping
        Privacy parameter delta, for all sites or per site; far below one over the number of records.
    n_iter : int
        Number of rounds, fixed in advance; the budget is divided among them.
    clip : float
        Norm to which each record's gradient is clipped.
    learning_rate : float or None
        Factor of the averaged gradient in each step; None for 10 / clip, and less where there is much noise, by a rule
        on the public noise scale.
    momentum : float or None
        Share of the earlier gradients in the running average, from 0 to 0.999; None for 0.8.
    random_state : int or None
        Public seed of the initial weights, which the module chooses; None uses a new one each time.

    Attributes
    ----------
    weights_ : array of shape (n_weights,)
        Trainable parameters of the module, one after another in the order of ``named_parameters``.
    classes_ : array
        The classes, one per output, as the sites' labels are: text, integers, numbers or Booleans.
    noise_scale_ : float
        Standard deviation of the noise on each entry of a released mean gradient.

    Privacy
    -------
    ``n_iter`` releases of ``module_gradient``, diameter 2 clip, each with the same share of
    mu^2; composition is exact. The guarantee is conditional: the module must treat each record by itself and keep
    nothing of it. It is applied to single records; layers that mix records (batch normalisation) or are random
    (dropout) are refused, and a search with synthetic records tries to refute the rest.

    Edge cases
    ----------
    ==================================  ================================================
    numeric response                    refused
    record without a finite gradient    contributes zero
    weights diverging by noise          limited to 1e6
    PyTorch not installed               refused, with the command that installs it
    ==================================  ================================================

    Notes
    -----
    Verdicts are those of :class:`NetworkClassifier`: measure accuracy on rows that were not used.

    References
    ----------
    M. Abadi et al., *Deep learning with differential privacy*, 2016 (clipping).
    """

    analysis: ClassVar[Analysis | None] = TORCH_CLASSIFIER
    _builder: ClassVar[str] = "labelled(X, y, bound=..., classes=[...])"
    _fitted: ClassVar[tuple[str, ...]] = ("weights_", "classes_", "noise_scale_")

    def __init__(
        self,
        module: str,
        *,
        epsilon: float | Mapping[str, float],
        delta: float | Mapping[str, float],
        n_iter: int = 60,
        clip: float = 1.0,
        learning_rate: float | None = None,
        momentum: float | None = None,
        random_state: int = 0,
    ) -> None:
        self.module = module
        self.epsilon = epsilon
        self.delta = delta
        self.n_iter = n_iter
        self.clip = clip
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.random_state = random_state

    def _rounds(self, federation: Federation) -> range:
        return range(self.n_iter)

    def _fit(self, federation: Federation, private: Allowance) -> None:
        # Loaded when it is used: scikit-learn takes most of a second.
        from sklearn.utils import check_random_state

        facts = federation.facts
        seed = int(check_random_state(self.random_state).randint(2**31))
        start = module_of(self.module).start(federation.n_features, len(facts.classes or ()), seed)
        descent = descended(
            private,
            start,
            lambda weights: module_gradient(facts, module=self.module, weights=weights, clip=float(self.clip)),
            step=self._step,
            momentum=_MOMENTUM if self.momentum is None else float(self.momentum),
        )
        self.weights_ = descent.weights
        self.classes_ = classes_of(facts)
        self.noise_scale_ = private.releases[-1].scale
        self.verdicts_ = descent.verdicts(federation, private, clip=float(self.clip))

    def _step(self, noise_scale: float) -> float:
        if self.learning_rate is not None:
            return float(self.learning_rate)
        return public_step(_STEP, clip=float(self.clip), n_rounds=self.n_iter, noise_scale=noise_scale)

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Return the outputs before the softmax, one column per class."""
        rows = self._checked_rows(X, getattr(self, "n_features_in_", 0))
        return module_of(self.module).outputs(self.weights_, rows, len(self.classes_))

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Return the probabilities of the classes, one row per record."""
        return softmax(self.decision_function(X), axis=1)

    def predict(self, X: ArrayLike) -> AnyArray:
        """Return the most probable class of each row."""
        require_fitted(self)
        chosen: AnyArray = self.classes_[np.argmax(self.decision_function(X), axis=1)]
        return chosen

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Return the share of rows whose class is predicted correctly."""
        return accuracy_of(self.predict(X), y, self.classes_)

    def to_torch(self) -> torch.nn.Module:
        """Return the module with the fitted weights, in double precision and in evaluation mode."""
        require_fitted(self)
        registered = module_of(self.module)
        if not isinstance(registered, TorchModule):
            subject, got = f"The module {self.module!r}", type(registered).__name__
            raise InvalidParameter(subject, "be a PyTorch module", got, "Register it with known_module.")
        return registered.module(self.weights_, self.n_features_in_, len(self.classes_))

    def _result(self) -> Result:
        names = numbered("weight", len(self.weights_)) if len(self.weights_) <= LARGEST else ""
        weights = Estimates(quantity="weight of the module", estimand=WEIGHT, names=names, value=self.weights_)
        return Result((Section(title="Weights of the module", estimates=(weights,)),))
