"""The dissertation's calibration of capeFM and of the network, and the guarantee it really provides.

The dissertation gives each degree of the loss noise for the whole budget (algorithm 8.2, theorem 8.1) and relies on
theorem 3.1 against the aggregator. This module computes the adversary's view instead. For comparison only: nothing
here is used to protect records.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpcape.core.errors import InvalidParameter
from dpcape.core.privacy.gaussian import epsilon_of
from dpcape_papers.published.cape import cape_exposure

# Sensitivities of the degrees 0, 1 and 2 times the number of records, as printed (sections 8.2.1 and 8.2.2).
LINEAR_SENSITIVITIES = (1.0, 4.0, math.sqrt(2))
LOGISTIC_SENSITIVITIES = (0.0, 1.0, math.sqrt(2) / 8)

# How much replacing one record changes all degrees together, each in units of its own sensitivity. Linear: x and x'
# orthogonal, y = 1 and y' = 0 give 1 + 1/4 + 1 = 2.25. Logistic: found in the same way, (5/4)^2 (tests/vectors).
JOINT_NORMALISED = {"linear": 1.5, "logistic": 1.25}


@dataclass(frozen=True)
class Comparison:
    """The epsilon that a paper claims, and the one that holds.

    Attributes
    ----------
    claimed_epsilon, delta : float
        As the paper states them.
    verified_epsilon : float
        Against the aggregator with the stated number of colluding sites, at the same delta.
    verified_output_only : float
        Against someone who sees only the result.
    """

    claimed_epsilon: float
    delta: float
    verified_epsilon: float
    verified_output_only: float


def classical_multiplier(epsilon: float, delta: float) -> float:
    """Return the papers' noise per unit of sensitivity, sqrt(2 ln(1.25 / delta)) / epsilon (eq. 2.1)."""
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def degree_scales(model: str, *, epsilon: float, delta: float, n_records: int) -> tuple[float, float, float]:
    """Return the papers' noise scales of degrees 0, 1 and 2 (algorithms 8.1 and 8.2), each for the whole budget."""
    sensitivities = {"linear": LINEAR_SENSITIVITIES, "logistic": LOGISTIC_SENSITIVITIES}
    if model not in sensitivities:
        raise InvalidParameter("model", "be 'linear' or 'logistic'", repr(model), "Choose one of the two.")
    per_sensitivity = classical_multiplier(epsilon, delta) / n_records
    constant, linear, quadratic = sensitivities[model]
    return per_sensitivity * constant, per_sensitivity * linear, per_sensitivity * quadratic


def capefm(
    model: str, *, epsilon: float, delta: float, n_sites: int, n_colluding: int, pooled: bool = False
) -> Comparison:
    """Compare the claim of theorem 8.1 with the guarantee that holds.

    Parameters
    ----------
    model : {'linear', 'logistic'}
        Which loss is perturbed.
    epsilon, delta : float
        As in algorithm 8.2.
    n_sites, n_colluding : int
        Number of sites, and of colluding sites; the noise is split as in the papers.
    pooled : bool
        True for algorithm 8.1 (one holder of all records), and if every site adds the whole noise.
    """
    if model not in JOINT_NORMALISED:
        raise InvalidParameter("model", "be 'linear' or 'logistic'", repr(model), "Choose one of the two.")
    one_release = JOINT_NORMALISED[model] / classical_multiplier(epsilon, delta)
    view = one_release if pooled else one_release * cape_exposure(n_sites, n_colluding)
    return Comparison(epsilon, delta, epsilon_of(delta, view), epsilon_of(delta, one_release))


def network(
    *, epsilon: float, delta: float, n_iter: int, n_sites: int, n_colluding: int, noise_delta: float = 0.01
) -> Comparison:
    """Compare the claim for the network of section 3.4 with the guarantee that holds after all rounds.

    Parameters
    ----------
    epsilon : float
        Per round, as plotted; the claim for all rounds is n_iter times as large.
    delta : float
        Delta at which the totals are compared.
    n_iter : int
        Number of rounds.
    n_sites, n_colluding : int
        Number of sites, and of colluding sites.
    noise_delta : float
        Delta in the papers' noise formula, 0.01 there; the delta of the claim would be n_iter times as large.
    """
    one_round = 1 / classical_multiplier(epsilon, noise_delta)
    all_rounds = one_round * math.sqrt(n_iter)
    against = all_rounds * cape_exposure(n_sites, n_colluding)
    return Comparison(n_iter * epsilon, delta, epsilon_of(delta, against), epsilon_of(delta, all_rounds))
