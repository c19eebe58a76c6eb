"""What noise is expected to cost, from a declared spectrum: public knowledge or a guess, never the records.

The same formulas are in the planner's page (``errors.js``); ``tests/browser`` holds the two against each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcape.errors import InvalidParameter
from dpcape.facts import Facts
from dpcape.planning.kept_energy import kept_energy
from dpcape.postprocessing.eigen import noise_norm

Vector = NDArray[np.float64]
SHAPES = ("power", "geometric", "flat")


@dataclass(frozen=True)
class Declared:
    """What somebody knows or supposes about the records.

    Attributes
    ----------
    shape : str
        "power" (eigenvalue j is proportional to j^-decay), "geometric" (to decay^(j-1)) or "flat".
    decay : float
        The exponent, or the ratio.
    energy : float
        Mean squared length of a record over the squared bound.
    values : tuple of float
        Eigenvalues over the squared bound, instead of shape, decay and energy; zeros are added at the end.
    explained : float
        For regressions, the share of the response's variance that the features explain.

    Examples
    --------
    >>> Declared(shape="geometric", decay=0.5, energy=0.75).spectrum(2).tolist()
    [0.5, 0.25]
    """

    shape: str = "power"
    decay: float = 1.0
    energy: float = 0.5
    values: tuple[float, ...] = ()
    explained: float = 0.5

    def spectrum(self, size: int) -> Vector:
        """Return so many eigenvalues, descending, for a bound of one."""
        if self.values:
            return self._own(size)
        self._check()
        ranks = np.arange(1.0, size + 1)
        if self.shape == "flat":
            raw = np.ones(size)
        else:
            raw = ranks**-self.decay if self.shape == "power" else self.decay ** (ranks - 1)
        spectrum: Vector = raw * (self.energy / raw.sum())
        return spectrum

    def _own(self, size: int) -> Vector:
        own = np.array(self.values, dtype=np.float64)
        if own.size > size or not (own >= 0).all() or (np.diff(own) > 0).any() or not 0 < own.sum() <= 1 + 1e-9:
            raise InvalidParameter(
                f"eigenvalues must be at most {size} numbers, descending, not negative, adding to at most 1 (the "
                "squared bound); got others."
            )
        return np.concatenate([own, np.zeros(size - own.size)])

    def _check(self) -> None:
        if self.shape not in SHAPES:
            raise InvalidParameter(f"shape must be one of {', '.join(SHAPES)}; got {self.shape!r}.")
        if not 0 < self.energy <= 1:
            raise InvalidParameter(f"energy must be above 0 and at most 1; got {self.energy!r}.")
        largest = 1.0 if self.shape == "geometric" else 10.0
        if self.shape != "flat" and not 0 < self.decay <= largest:
            raise InvalidParameter(f"decay must be above 0 and at most {largest:g} here; got {self.decay!r}.")


@dataclass(frozen=True)
class Measure:
    """An expected error as a function of the noise scales of the releases, in order.

    Attributes
    ----------
    title : str
        What is measured, in words.
    unit : str
        "share" (of one), "bound" (in units of the bound), or "ratio".
    value : callable
        From scales to the error; never falls when scales grow.
    is_error : bool
        False where it says how large the noise is, but not what that does to the result.
    """

    title: str
    unit: str
    value: Callable[[Sequence[float]], float]
    is_error: bool = True


def measure_of(analysis: str, facts: Facts, options: Mapping[str, Any], declared: Declared) -> Measure | None:
    """Return the error of an analysis (by its name in a study), or None where there is no formula for it."""
    # Imported here: its measures are built from this file's.
    from dpcape.planning.noise_measures import NOISE_MEASURES

    make = {**_MEASURES, **NOISE_MEASURES}.get(analysis)
    known = facts.unit == "record" or analysis == "joint_ica"
    return make(facts, options, declared) if make is not None and known else None


def _mean(facts: Facts, options: Mapping[str, Any], declared: Declared) -> Measure:
    bound = math.hypot(*facts.bounds)
    return Measure("noise of each entry of the mean, against the bound", "bound", lambda s: s[0] / bound)


def _pca(facts: Facts, options: Mapping[str, Any], declared: Declared) -> Measure:
    spectrum = declared.spectrum(facts.n_features) * math.hypot(*facts.bounds) ** 2
    wanted = checked_components(options["n_components"], facts.n_features)
    return Measure("captured energy lost to noise", "share", lambda s: 1 - kept_energy(spectrum, wanted, s[0]))


def _cca(facts: Facts, options: Mapping[str, Any], declared: Declared) -> Measure:
    """What :class:`dpcape.CCA` compares correlations with: Chevet's bound on whitened noise."""
    spectra = [declared.spectrum(width) * bound**2 for width, bound in zip(facts.widths, facts.bounds, strict=True)]

    def reached(scales: Sequence[float]) -> float:
        if scales[0] == 0:
            return 0.0
        sums, tops = [], []
        for spectrum in spectra:
            floored = np.maximum(spectrum, 1.5 * noise_norm(scales[0], spectrum.size))
            sums.append(math.sqrt(float(np.sum(1 / floored))))
            tops.append(1 / math.sqrt(float(floored.min())))
        return scales[0] / math.sqrt(2) * (sums[0] * tops[1] + tops[0] * sums[1])

    return Measure("correlation that noise alone would reach", "share", reached)


def _regression(facts: Facts, options: Mapping[str, Any], declared: Declared) -> Measure:
    """Share of the explained variance lost, for coefficients of common variance (as ``shrinkage.py`` supposes).

    Responses in [-1, 1] are taken as spread evenly (variance 1/3), two classes as equally frequent (variance 1). In
    direction j the right-hand side has noise n = cross noise + what noise on the moment adds through the coefficients;
    a coefficient of prior variance t keeps the variance t n / (t a_j^2 + n).
    """
    bound = facts.bounds[0]
    spectrum = declared.spectrum(facts.n_features) * bound**2
    if not 0 < declared.explained < 1:
        raise InvalidParameter(f"explained must be strictly between 0 and 1; got {declared.explained!r}.")
    variance = declared.explained * (1.0 if facts.classes is not None else 1 / 3)
    prior = variance / float(spectrum.sum())
    response_weight = bound * math.sqrt(0.5)

    def lost(scales: Sequence[float]) -> float:
        noise = scales[0] ** 2 / 2 * (1 / response_weight**2 + prior * spectrum.size)
        hidden = spectrum * prior * noise / (prior * spectrum**2 + noise) if noise > 0 else np.zeros(1)
        return float(hidden.sum()) / variance

    return Measure("explained variance lost to noise", "share", lost)


def checked_components(n_components: Any, largest: int) -> int:
    """Return a number of components from 1 to ``largest``."""
    if not isinstance(n_components, int) or isinstance(n_components, bool) or not 1 <= n_components <= largest:
        raise InvalidParameter(
            f"n_components must be a number from 1 to {largest} to expect an error of; got {n_components!r}."
        )
    return n_components


_MEASURES: dict[str, Callable[[Facts, Mapping[str, Any], Declared], Measure]] = {
    "mean": _mean,
    "pca": _pca,
    "cca": _cca,
    "linear_regression": _regression,
    "logistic_regression": _regression,
}
