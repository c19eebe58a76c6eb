"""Losses that are polynomials in the parameters: the functional mechanism for a user's own loss.

A loss f(record; w) = sum over monomials of coefficient(record) * monomial(w) is determined by its mean coefficients
(dissertation, eqs. 8.2 and 8.3). They are released once, jointly over all degrees. Code is never sent to a site: a
loss is a class, registered by name with :func:`known_loss` in a module that every site has installed.

The coefficients of degree j form a symmetric tensor. Packed, the entry of a monomial is its coefficient divided by
the square root of its multiplicity, so that Euclidean length is the tensor's Frobenius norm and noise is the same
in every direction of w.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib import import_module
from typing import Any, ClassVar, TypeVar

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.errors import InvalidParameter
from dpcape.core.facts import PublicFacts
from dpcape.core.grid import factors_into
from dpcape.core.record_blocks import Targets
from dpcape.core.statistic import is_free, is_own
from dpcape.statistics.monomials import multiplicities, powers


class RecordLoss(ABC):
    """Loss given by the polynomial coefficients of each record.

    Attributes
    ----------
    name : str
        Name of the loss in messages.
    degree : int
        Largest degree J.
    parameter_bound : float
        Public largest length of the parameters; the polynomial is minimised within it.
    vectorised : bool
        Whether :meth:`coefficients` may be called with many records at once, which is faster. Row i of what it returns
        must then depend on record i only, which a search tries to refute. False: it is called with one record at a
        time. Losses of dpcape itself are always called with whole blocks.

    Privacy
    -------
    A site scales each record's packed coefficients to :meth:`bound` at most, so 2 * bound is a valid diameter whatever
    :meth:`coefficients` returns. A smaller :meth:`stated_diameter` is the author's claim: a search tries to violate it
    before anything is released, and the guarantee lists it among its assumptions. It never counts as less than the
    bound: a record whose coefficients are not finite contributes zero.
    """

    name: ClassVar[str]
    degree: ClassVar[int]
    parameter_bound: ClassVar[float]
    vectorised: ClassVar[bool] = False

    def n_parameters(self, facts: PublicFacts) -> int:
        """Return the number of parameters; one per feature unless overridden."""
        return facts.n_features

    @abstractmethod
    def coefficients(self, rows: FloatArray, targets: Targets | None, facts: PublicFacts) -> Sequence[FloatArray]:
        """Return one array per degree 0..J, (records, monomials), in the order of :func:`monomials`.

        ``targets`` are responses in [-1, 1], class codes, or None for records without them.
        """

    @abstractmethod
    def bound(self, facts: PublicFacts) -> float:
        """Return the largest length of a record's packed coefficients; longer ones are scaled down."""

    def stated_diameter(self, facts: PublicFacts) -> float | None:
        """Return the largest distance of two records' packed coefficients, or None to use twice the bound."""
        return None

    def weights(self, facts: PublicFacts) -> tuple[float, ...]:
        """Return the factor of each degree before noise is added; 0 leaves a degree out."""
        return (1.0,) * (self.degree + 1)

    def packed(self, rows: FloatArray, targets: Targets | None, facts: PublicFacts) -> FloatArray:
        """Return weighted packed coefficients, (records, size), scaled to the bound."""
        blocks = _coefficients(self, rows, targets, facts)
        weighted = [
            weight * np.asarray(block, dtype=np.float64) / np.sqrt(multiplicities(self.n_parameters(facts), degree))
            for degree, (block, weight) in enumerate(zip(blocks, self.weights(facts), strict=True))
            if weight
        ]
        stacked: FloatArray = np.concatenate(weighted, axis=1)
        stacked *= factors_into(stacked, self.bound(facts) * (1 - 2.0**-50))[:, np.newaxis]
        return stacked


class LinearPredictorLoss(RecordLoss):
    """Loss sum_j a_j(y) (x.w)^j, whose sensitivity is computed.

    Each a_j is clamped to a public interval [low_j, high_j]. With M the larger of their sizes and B the bound of a
    row, two records' degree-j blocks a x^j and a' x'^j are apart by a^2 |x|^2j + a'^2 |x'|^2j - 2 a a' (x.x')^j,
    squared: at most (2 M B^j)^2 for odd j; for even j, where (x.x')^j >= 0, at most the larger of 2 (M B^j)^2 and
    ((max(high, 0) - min(low, 0)) B^j)^2; for j = 0, (high - low)^2. Their weighted sum bounds the joint distance.
    """

    @abstractmethod
    def predictor_coefficients(self, targets: Targets | None, facts: PublicFacts) -> FloatArray:
        """Return a_j for each record, (records, J + 1)."""

    @abstractmethod
    def intervals(self, facts: PublicFacts) -> FloatArray:
        """Return the public interval of each a_j, (J + 1, 2)."""

    def coefficients(self, rows: FloatArray, targets: Targets | None, facts: PublicFacts) -> Sequence[FloatArray]:
        lows, highs = self._checked_intervals(facts).T
        heights = np.clip(self.predictor_coefficients(targets, facts), lows, highs)
        heights = np.broadcast_to(heights, (len(rows), self.degree + 1))
        width = self.n_parameters(facts)
        return [
            heights[:, [degree]] * multiplicities(width, degree) * powers(rows, degree)
            for degree in range(self.degree + 1)
        ]

    def block_diameters(self, facts: PublicFacts) -> FloatArray:
        """Return the largest distance of two records' blocks, degree by degree, without weights."""
        lows, highs = self._checked_intervals(facts).T
        size = np.maximum(np.abs(lows), np.abs(highs))
        reach = facts.bounds[0] ** np.arange(self.degree + 1)
        odd = np.arange(self.degree + 1) % 2 == 1
        even = np.maximum(math.sqrt(2) * size, np.maximum(highs, 0.0) - np.minimum(lows, 0.0))
        result: FloatArray = np.where(odd, 2 * size, even) * reach
        result[0] = highs[0] - lows[0]
        return result

    def weights(self, facts: PublicFacts) -> tuple[float, ...]:
        """Return the weights that minimise the noise of the loss at the largest parameters; the constant has none.

        Noise of degree j at |w| = r has variance (sum_k weight_k^2 d_k^2) r^2j / weight_j^2 up to a factor; the sum
        over j is least for weight_j^2 = r^j / d_j (Cauchy and Schwarz). A degree that no record can change gets
        weight 0.
        """
        diameters = self.block_diameters(facts)
        scaled = self.parameter_bound ** np.arange(self.degree + 1) / np.where(diameters > 0, diameters, 1.0)
        weights = np.sqrt(np.where(diameters > 0, scaled, 0.0))
        return (0.0, *(float(weight) for weight in weights[1:]))

    def stated_diameter(self, facts: PublicFacts) -> float:
        """Return the computed joint diameter; it is proved above, given that intervals are enforced."""
        return math.hypot(*(np.array(self.weights(facts)) * self.block_diameters(facts)))

    def bound(self, facts: PublicFacts) -> float:
        lows, highs = self._checked_intervals(facts).T
        size = np.maximum(np.abs(lows), np.abs(highs)) * facts.bounds[0] ** np.arange(self.degree + 1)
        # The relative slack covers the rounding of monomials, so that scaling to the bound changes nothing.
        return math.hypot(*(np.array(self.weights(facts)) * size)) * (1 + 1e-9)

    def _checked_intervals(self, facts: PublicFacts) -> FloatArray:
        intervals = np.asarray(self.intervals(facts), dtype=np.float64)
        wanted = (self.degree + 1, 2)
        if intervals.shape != wanted or not np.isfinite(intervals).all() or (np.diff(intervals) < 0).any():
            subject = f"intervals of the loss {self.name!r}"
            must = f"be {wanted[0]} pairs (low, high) of finite numbers"
            remedy = "Correct the loss, or map features by public ranges and use a smaller bound."
            raise InvalidParameter(subject, must, f"shape {intervals.shape} at bound {facts.bounds[0]:g}", remedy)
        return intervals


def _coefficients(loss: RecordLoss, rows: FloatArray, targets: Any, facts: PublicFacts) -> Sequence[FloatArray]:
    """Return a loss's coefficients of a block; those of another author's loss are asked for record by record."""
    if is_own(type(loss)) or loss.vectorised or not len(rows):
        return loss.coefficients(rows, targets, facts)
    single = [
        loss.coefficients(rows[[at]], None if targets is None else targets[[at]], facts) for at in range(len(rows))
    ]
    return [np.concatenate(blocks) for blocks in zip(*single, strict=True)]


LOSSES = {"poisson": "dpcape.statistics.poisson_loss"}
"""Losses of dpcape: name -> module."""
_LOSSES: dict[str, RecordLoss] = {}
_L = TypeVar("_L", bound=type[RecordLoss])


def known_loss(cls: _L) -> _L:
    """Register a loss class under its name (class decorator). Its module must be installed at every site."""
    if cls.packed is not RecordLoss.packed:
        must, remedy = "not override packed(), which enforces the bound", "Override coefficients() instead."
        raise InvalidParameter(f"The loss {cls.name!r}", must, f"{cls.__name__}.packed", remedy)
    if cls.name in _LOSSES or not is_free(cls.name, cls, LOSSES):
        raise InvalidParameter("The name of a loss", "be new", f"{cls.name!r}, which is registered", "Rename the loss.")
    _LOSSES[cls.name] = cls()
    return cls


def own_losses() -> frozenset[str]:
    """Return the names of dpcape's own losses."""
    return frozenset(LOSSES)


def loss_of(name: str) -> RecordLoss:
    """Return the registered loss of this name; one of dpcape's own is imported when it is asked for."""
    if name in LOSSES:
        import_module(LOSSES[name])
    if name not in _LOSSES:
        raise InvalidParameter(
            "loss",
            f"be one of {sorted({*_LOSSES, *LOSSES})}",
            repr(name),
            "In a run of your own, import the module that defines it; a study needs a package that declares it, "
            "allowed at every site (docs/packages.md).",
        )
    return _LOSSES[name]
