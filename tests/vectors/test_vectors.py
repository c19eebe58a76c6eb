"""Exact inputs, exact outputs: every figure of the JSON files beside this one, to its last printed digit."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcape import Federation, Independent, in_process, rows
from dpcape.core.privacy.adversary_view import AdversaryView
from dpcape.core.privacy.calibration import calibrate, plan_release, worst_exposures
from dpcape.core.privacy.gaussian import compose, delta_of, epsilon_of, mu_of, zcdp_delta_of
from dpcape.core.protocols.cape import Cape
from dpcape.core.protocols.dealer import Dealer
from dpcape.core.protocols.protocol import Protocol
from dpcape.core.protocols.secure_sum import SecureSum
from dpcape.core.protocols.zero_sum import zero_sum_view
from dpcape.statistics.moments import centred_moments, second_moment


def _load(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(Path(__file__).with_name(f"{name}.json").read_text())
    assert content["provenance"]
    return content


GAUSSIAN, VIEWS, SCALES = _load("gaussian"), _load("views"), _load("scales")


def matches(value: float, printed: str, slack: float = 0.0) -> bool:
    """Tell whether a value rounds to the printed digits; ``slack`` is a further relative allowance."""
    last_digit = 10.0 ** Decimal(printed).as_tuple().exponent
    return abs(value - float(printed)) <= 0.5001 * last_digit + slack * abs(value)


def test_a_vector_is_matched_to_its_last_digit_and_no_further() -> None:
    assert matches(1.2345674, "1.234567")
    assert not matches(1.2345684, "1.234567")


@pytest.mark.parametrize("case", GAUSSIAN["delta"])
def test_delta(case: dict[str, Any]) -> None:
    assert matches(delta_of(case["epsilon"], case["mu"]), case["delta"])


@pytest.mark.parametrize("case", GAUSSIAN["epsilon"])
def test_epsilon(case: dict[str, Any]) -> None:
    # The mu of the longer compositions was printed with seven digits: allow what that leaves open.
    assert matches(epsilon_of(case["delta"], case["mu"]), case["epsilon"], slack=3e-7)


@pytest.mark.parametrize("case", GAUSSIAN["mu"])
def test_mu(case: dict[str, Any]) -> None:
    mu = mu_of(case["epsilon"], case["delta"])
    assert matches(mu, case["mu"])
    assert matches(1 / mu, case["scale"])


@pytest.mark.parametrize("case", GAUSSIAN["classical_scale_is_not_enough"])
def test_the_classical_scale_fails_at_large_epsilon(case: dict[str, Any]) -> None:
    classical = math.sqrt(2 * math.log(1.25 / case["claimed_delta"])) / case["epsilon"]
    assert matches(classical, case.get("scale", repr(classical)))
    true = delta_of(case["epsilon"], 1 / classical)
    assert matches(true, case["true_delta"])
    assert true > case["claimed_delta"]


def test_composition() -> None:
    case = GAUSSIAN["composition"]
    mu = compose(case["mus"] * case["n_rounds"])
    assert matches(mu, case["mu"])
    assert matches(epsilon_of(case["delta"], mu), case["epsilon"])


def test_zcdp() -> None:
    case = GAUSSIAN["zcdp"]
    assert matches(zcdp_delta_of(case["epsilon"], case["mu"] ** 2 / 2), case["delta"])
    rho = case["calibrated_rho"]
    assert zcdp_delta_of(case["epsilon"], rho) == pytest.approx(case["calibrated_delta"], rel=1e-6)
    assert matches(1 / math.sqrt(2 * rho), case["calibrated_scale"])


# Views. The published split has cancelling ratio 1: own variance tau^2 / n.


def _published(n_sites: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return np.full(n_sites, 1 / math.sqrt(n_sites)), np.ones(n_sites)


@pytest.mark.parametrize("case", VIEWS["cape_kappa"])
def test_exposure_of_cape_as_published(case: dict[str, Any]) -> None:
    n_sites, n_colluding = case["n_sites"], case["n_colluding"]
    own, shared = _published(n_sites)
    exposures = zero_sum_view(n_sites, range(n_colluding, n_sites), own, shared).exposures()
    assert matches(exposures[-1] ** 2, case["kappa"])


@pytest.mark.parametrize("case", [case for case in VIEWS["cape_kappa"] if 3 <= case["n_sites"] <= 10])
def test_exposure_through_the_protocols(case: dict[str, Any]) -> None:
    n_sites, n_colluding = case["n_sites"], case["n_colluding"]
    protocols: list[Protocol] = [Dealer(n_colluding=n_colluding, cancelling_ratio=1.0)]
    if n_colluding <= n_sites - 2:
        protocols.append(Cape(n_colluding=n_colluding, cancelling_ratio=1.0))
    for protocol in protocols:
        exposures = worst_exposures(protocol, *_published(n_sites))
        assert all(matches(exposure**2, case["kappa"]) for exposure in exposures)


def _sources(n_sites: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Rows that pick (draw after its mean is removed, draw, own noise) out of the sources (draws, owns)."""
    draw, own = np.eye(n_sites, 2 * n_sites), np.eye(n_sites, 2 * n_sites, n_sites)
    return draw - draw.mean(axis=0), draw, own


def _kappa(shift: Any, mixing: Any, *, site: int = 0) -> float:
    """Exposure of a site under the published split, squared."""
    n_sites = np.atleast_2d(mixing).shape[1] // 2
    own, shared = _published(n_sites)
    view = AdversaryView(
        shift=np.atleast_2d(shift), mixing=np.atleast_2d(mixing), variances=np.concatenate([shared, own]) ** 2
    )
    return float(view.exposures()[site] ** 2)


def test_exposure_to_other_adversaries() -> None:
    case = VIEWS["cape_other_adversaries"]
    n_sites = case["n_sites"]
    zero_sum, draw, own = _sources(n_sites)
    eye, mean = np.eye(n_sites), np.full(n_sites, 1 / n_sites)
    assert matches(_kappa(eye[0], (zero_sum + own)[0]), case["single_message"])
    # The result's sensitivity is 1/n of a site's, and so is its scale relative to tau.
    assert matches(_kappa(mean, mean @ (zero_sum + own)), case["output"])
    known = np.vstack([mean @ (zero_sum + own), draw[7:], own[7:]])
    shift = np.vstack([mean, np.zeros((6, n_sites))])
    assert matches(_kappa(shift, known), case["output_and_3_sites"])


@pytest.mark.parametrize(("honest", "key"), [((0, 1, 2, 3), "mu_all_honest"), ((0, 1, 2), "mu_last_colludes")])
def test_unequal_sites(honest: Sequence[int], key: str) -> None:
    case = VIEWS["asymmetric"]
    weights, sensitivities = np.array(case["weights"]), np.array(case["sensitivities"])
    own = weights * np.sqrt(case["own_variances"])
    shared = weights * np.sqrt(case["shared_variances"])
    mus = zero_sum_view(4, honest, own, shared).exposures() * weights * sensitivities
    assert all(matches(mus[site], case[key][site]) for site in honest)


@pytest.mark.parametrize("case", VIEWS["dropout"])
def test_drop_outs(case: dict[str, Any]) -> None:
    n_sites, n_colluding = case["n_sites"], case["n_colluding"]
    survivors = list(range(case["n_dropped"], n_sites))
    honest = survivors[: len(survivors) - n_colluding]
    colluders = survivors[len(survivors) - n_colluding :]
    zero_sum, draw, own = _sources(n_sites)
    seen = [*(zero_sum + own)[honest], draw.sum(axis=0), *draw[colluders]]
    shift = np.zeros((len(seen), n_sites))
    shift[range(len(honest)), honest] = 1
    site = honest[0]
    if "uncorrected" in case:
        assert matches(_kappa(shift, seen, site=site), case["uncorrected"])
    corrected = [*seen, draw[survivors].sum(axis=0)]
    padded = np.vstack([shift, np.zeros(n_sites)])
    assert matches(_kappa(padded, corrected, site=site), case["corrected"])
    # The product takes every dropped draw as known, which is the same for one dropped site and never less.
    product = zero_sum_view(n_sites, honest, *_published(n_sites)).exposures()[site] ** 2
    assert product >= _kappa(padded, corrected, site=site) * (1 - 1e-12)
    assert matches(product, case["corrected"])


def test_a_late_release_after_the_correction_is_covered_by_own_noise_only() -> None:
    case = VIEWS["late_release_of_one_dropped_site"]
    n_sites = case["n_sites"]
    zero_sum, draw, own = _sources(n_sites)
    seen = np.vstack([zero_sum + own, draw.sum(axis=0), draw[1:].sum(axis=0)])
    shift = np.vstack([np.eye(n_sites), np.zeros((2, n_sites))])
    assert matches(_kappa(shift, seen, site=0), case["kappa"])


class _Paper000:
    """Rows of the three-noise scheme of the capeCCA paper: E dealt and cancelling, F known to the aggregator, G own."""

    def __init__(self, n_sites: int) -> None:
        self.n_sites = n_sites
        eye = np.eye(3 * n_sites)
        draw, self.masks, self.owns = eye[:n_sites], eye[n_sites : 2 * n_sites], eye[2 * n_sites :]
        self.zero_sum = draw - draw.mean(axis=0)
        self.messages = self.zero_sum + self.masks + self.owns
        variance = 1 - 1 / n_sites
        self.variances = np.repeat([1.0, variance, 1 / n_sites], n_sites)

    def kappa(self, known: Sequence[np.ndarray[Any, Any]], *, messages: bool, output: bool) -> float:
        """Exposure of site 0, squared; ``known`` are noises the adversary knows."""
        mixing, shift = (
            [np.atleast_2d(entry) for entry in known],
            [np.zeros((np.atleast_2d(entry).shape[0], self.n_sites)) for entry in known],
        )
        if messages:
            mixing.append(self.messages)
            shift.append(np.eye(self.n_sites))
        if output:
            mixing.append(self.owns.mean(axis=0, keepdims=True))
            shift.append(np.full((1, self.n_sites), 1 / self.n_sites))
        view = AdversaryView(shift=np.vstack(shift), mixing=np.vstack(mixing), variances=self.variances)
        return float(view.exposures()[0] ** 2)

    def of_sites(self, n_colluding: int) -> list[np.ndarray[Any, Any]]:
        taken = slice(self.n_sites - n_colluding, self.n_sites)
        return [self.zero_sum[taken], self.masks[taken], self.owns[taken]]


def test_views_of_the_capecca_paper() -> None:
    case = VIEWS["paper_000"]
    scheme, n_colluding = _Paper000(case["n_sites"]), case["n_colluding"]
    some, all_but_two = scheme.of_sites(n_colluding), scheme.of_sites(case["n_sites"] - 2)
    found = {
        "outsider_output": scheme.kappa([], messages=False, output=True),
        "outsider_messages": scheme.kappa([], messages=True, output=False),
        "outsider_messages_output": scheme.kappa([], messages=True, output=True),
        "outsider_messages_sites": scheme.kappa(some, messages=True, output=False),
        "outsider_messages_output_sites": scheme.kappa(some, messages=True, output=True),
        "output_two_honest": scheme.kappa(all_but_two, messages=False, output=True),
        "aggregator": scheme.kappa([scheme.masks], messages=True, output=True),
        "aggregator_sites": scheme.kappa([scheme.masks, *some], messages=True, output=True),
        "aggregator_two_honest": scheme.kappa([scheme.masks, *all_but_two], messages=True, output=True),
        "generator_aggregator": scheme.kappa([scheme.masks, scheme.zero_sum], messages=True, output=True),
    }
    assert {key: matches(value, case[key]) for key, value in found.items()} == dict.fromkeys(found, True)


def test_an_antisymmetric_difference_under_symmetric_noise_is_bare() -> None:
    # One site releases an asymmetric 2 x 2 matrix with symmetric noise; a record moves entry (0, 1) alone.
    mixing = np.array([[1.0, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]])
    bare = AdversaryView(shift=np.array([[0.0], [1.0], [0.0], [0.0]]), mixing=mixing, variances=np.ones(3))
    assert bare.exposures()[0] == math.inf
    symmetrised = AdversaryView(shift=np.array([[0.0], [0.5], [0.5], [0.0]]), mixing=mixing, variances=np.ones(3))
    assert symmetrised.exposures()[0] == pytest.approx(0.5)


def test_views_without_noise_or_without_rows() -> None:
    nothing = AdversaryView(shift=np.zeros((1, 2)), mixing=np.zeros((1, 1)), variances=np.ones(1))
    assert nothing.exposures().tolist() == [0.0, 0.0]
    one_bare = AdversaryView(
        shift=np.array([[1.0, 0], [0, 1.0]]), mixing=np.array([[0.0], [1.0]]), variances=np.array([4.0])
    )
    assert one_bare.exposures().tolist() == [math.inf, 0.5]


# Scales.


def _demand() -> float:
    return mu_of(SCALES["at"]["epsilon"], SCALES["at"]["delta"])


@pytest.mark.parametrize("case", SCALES["secure_sum"])
def test_secure_sum_scales(case: dict[str, Any]) -> None:
    protocol = SecureSum(n_colluding=case["n_colluding"], minimum_sites=case["minimum_sites"])
    ones = np.ones(case["n_sites"])
    own, _, mus = calibrate(protocol, case["sensitivity"] * ones, _demand() * ones)
    assert matches(own[0], case["own_scale"])
    least = case["minimum_sites"]
    assert matches(math.hypot(*own[:least]) / least, case["mean_scale"])
    assert (mus <= _demand()).all()


@pytest.mark.parametrize("case", SCALES["cape"])
def test_cape_scales(case: dict[str, Any]) -> None:
    protocol = Cape(
        n_colluding=case["n_colluding"],
        minimum_sites=case["minimum_sites"],
        cancelling_ratio=case["cancelling_ratio"],
    )
    ones = np.ones(case["n_sites"])
    own, shared, _ = calibrate(protocol, case["sensitivity"] * ones, _demand() * ones)
    assert matches(own[0], case["own_scale"])
    if "shared_scale" in case:
        assert matches(shared[0], case["shared_scale"])


@pytest.mark.parametrize("case", SCALES["relative_to_pooled"])
def test_noise_relative_to_pooled_data(case: dict[str, Any]) -> None:
    n_sites, n_colluding = case["n_sites"], case["n_colluding"]
    protocols: dict[str, Protocol] = {
        "independent": Independent(),
        "cape_as_published": Cape(n_colluding=n_colluding, cancelling_ratio=1.0),
        "cape": Cape(n_colluding=n_colluding),
        "secure_sum": SecureSum(n_colluding=n_colluding),
    }
    for name, protocol in protocols.items():
        own, _, _ = calibrate(protocol, np.ones(n_sites), np.ones(n_sites))
        # One pooled site of the same sensitivity in the sum would need scale 1.
        assert matches(math.hypot(*own), case[name]), name


def test_single_site_moments() -> None:
    case = SCALES["single_site_10000_records"]
    ones = np.full((10_000, 1), 1.0)
    federation = Federation(in_process({"here": rows(ones, bound=1.0)}), protocol=Independent())
    terms = federation.terms(SCALES["at"]["epsilon"], SCALES["at"]["delta"])

    def scale(statistic: Any) -> float:
        return plan_release(terms, 0, statistic, federation.protocol).own_scales["here"] / 10_000

    # The reserve for integer noise (at most 5e-7 of epsilon, 1e-6 of delta) costs less than 1e-6 here, and rows
    # of one column on the grid are longer by 2^-20 1.5, their squares by twice that.
    moment = scale(second_moment(federation.facts))
    assert matches(moment, case["second_moment_diagonal"], slack=4e-6)
    assert moment > float(case["second_moment_diagonal"]) * (1 - 1e-7)
    assert matches(moment / math.sqrt(2), case["second_moment_off_diagonal"], slack=4e-6)
    joint = scale(centred_moments(federation.facts, mean_weight=1.0))
    assert matches(joint, case["mean_and_second_moment"], slack=4e-6)
