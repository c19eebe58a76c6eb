"""The best test between two neighbouring data sets, given the adversary's whole view.

Each row of the view is recorded with its dependence on the victim's statistic and on the noise sources. Noise is
Gaussian for all practical purposes, so the best test is linear, and the scores of several releases add up.
"""

from __future__ import annotations

import numpy as np

from dpcape.audit.adversaries import Adversary
from dpcape.audit.protocol_run import Observed
from dpcape.core.arrays import FloatArray, IntArray
from dpcape.core.privacy.calibration import ReleaseNoise


class _View:
    """View of the adversary: values, and their dependence on the victim's statistic, draws and own noises."""

    def __init__(self) -> None:
        self.values: list[FloatArray] = []
        self.shift: list[float] = []
        self.mixing: list[FloatArray] = []

    def add(self, values: IntArray | FloatArray, mixing: FloatArray, *, enters: bool = False) -> None:
        self.values.append(np.asarray(values, dtype=float))
        self.shift.append(float(enters))
        self.mixing.append(mixing)


def scores(adversary: Adversary, plan: ReleaseNoise, observed: Observed, difference: IntArray) -> FloatArray:
    """Return one score per trial; larger means that ``difference`` was added to the victim's statistic."""
    view = _view(adversary, observed)
    spread = np.array([*(plan.shared_steps(n) for n in adversary.sites), *(plan.own_steps(n) for n in adversary.sites)])
    weights = _weights(np.array(view.shift), np.array(view.mixing) * spread)
    along = sum(
        weight * values.reshape(-1, difference.size) @ difference.astype(float)
        for weight, values in zip(weights, view.values, strict=True)
    )
    return np.asarray(along)


def _view(adversary: Adversary, observed: Observed) -> _View:
    view = _View()
    n_sites = len(adversary.sites)
    draw, own = np.eye(n_sites, 2 * n_sites), np.eye(n_sites, 2 * n_sites, n_sites)
    index = {name: position for position, name in enumerate(adversary.sites)}
    protocol = adversary.protocol
    if not observed.releases:
        # Only the sum was opened.
        known = sum(observed.drawn[name, "own"] for name in adversary.colluding)
        view.add(observed.sums["sum"] - known, own[[index[n] for n in adversary.honest]].sum(axis=0), enters=True)
        return view
    cancelling = draw - draw.mean(axis=0) if protocol.shares_noise else np.zeros_like(draw)
    for name in adversary.honest:
        view.add(observed.releases[name], cancelling[index[name]] + own[index[name]], enters=name == adversary.victim)
    if protocol.shares_noise and not protocol.needs_dealer:
        view.add(observed.sums["sum of draws"], draw.sum(axis=0))
        for name in adversary.colluding:
            view.add(observed.drawn[name, "draw"], draw[index[name]])
        if adversary.lost:
            survivors = [index[n] for n in adversary.sites if n not in adversary.lost]
            view.add(observed.sums["correction"], draw[survivors].sum(axis=0))
    if protocol.needs_dealer:
        for name in adversary.colluding:
            # A colluding site knows what it received from the dealer: its release minus its own noise.
            view.add(observed.releases[name] - observed.drawn[name, "own"], cancelling[index[name]])
    return view


def _weights(shift: FloatArray, spread: FloatArray) -> FloatArray:
    """Return the weights of the best linear test between N(0, S S') and N(shift, S S')."""
    size = np.linalg.norm(spread, axis=1)
    left, values, _ = np.linalg.svd(spread / size[:, None], full_matrices=False)
    used = values > 1e-9 * values[0]
    inside = left[:, used].T @ (shift / size)
    weights: FloatArray = (left[:, used] @ (inside / values[used] ** 2)) / size
    return weights
