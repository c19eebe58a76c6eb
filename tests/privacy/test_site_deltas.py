"""A delta for every site, restated at one delta: every site has its own pair, exactly."""

from __future__ import annotations

from pathlib import Path

import mpmath
import numpy as np
import pytest

from dpcape import PCA, Cape, Exact, Federation, Independent, Mean, SecureSum, in_process, rows
from dpcape.core.errors import InvalidParameter
from dpcape.core.privacy.gaussian import delta_of, mu_of
from dpcape.core.privacy.site_deltas import at_one_delta, own_epsilon
from dpcape.core.privacy.terms import epsilon_reserve, tail_reserve
from dpcape.core.protocols.protocol import Protocol

PAIRS = {"lyon": (1.0, 1e-6), "oslo": (1.0, 1e-4), "lima": (0.3, 1e-5), "rome": (6.0, 1e-4)}


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 6.0, 20.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-4, 1e-2])
def test_a_restated_pair_is_the_same_noise(epsilon: float, delta: float) -> None:
    epsilons, least = at_one_delta({"a": (epsilon, delta), "b": (1.0, 1e-10)})
    found = epsilons["a"]
    assert least == 1e-10
    # Never more than was asked for, and at most a thousandth less.
    assert own_epsilon(found, least, delta) <= epsilon
    assert own_epsilon(found, least, delta) >= 0.999 * epsilon
    assert delta_of(epsilon, mu_of(found, least)) == pytest.approx(delta, rel=0.02)


@pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning")
@pytest.mark.parametrize("protocol", [Cape(n_colluding=1), SecureSum(n_colluding=1), Independent()])
def test_every_site_has_its_own_pair(protocol: object) -> None:
    epsilon, delta = at_one_delta(PAIRS)
    held = {site: rows(np.full((500, 2), 0.1), bound=1.0) for site in PAIRS}
    model = Mean(epsilon=epsilon, delta=delta).fit(Federation(in_process(held), protocol=protocol))
    for site, (asked, own) in PAIRS.items():
        mu = model.guarantee_.sites[site].mu
        # The mu of the guarantee, at the site's own delta, less the reserve for integer noise.
        assert delta_of(asked, mu) <= own
        assert model.guarantee_.sites[site].epsilon <= epsilon[site]


def test_pairs_at_the_smallest_delta_stay_as_they_are() -> None:
    assert at_one_delta({"a": (1.0, 1e-6), "b": (2.0, 1e-6)}) == ({"a": 1.0, "b": 2.0}, 1e-6)


@pytest.mark.parametrize(
    "pairs", [{}, {"a": (0.0, 1e-6)}, {"a": (float("inf"), 1e-6)}, {"a": (1.0, 0.0)}, {"a": (1.0, 1.0)}]
)
def test_what_is_no_pair_is_refused(pairs: dict[str, tuple[float, float]]) -> None:
    with pytest.raises(InvalidParameter):
        at_one_delta(pairs)


# A delta per site inside a fit.

DELTAS = {"lyon": 1e-6, "oslo": 4e-4, "lima": 1e-5, "rome": 1e-4}
EPSILONS = {"lyon": 1.0, "oslo": 1.0, "lima": 0.3, "rome": 6.0}


def federation(protocol: Protocol, **options: bool) -> Federation:
    held = {site: rows(np.full((500, 2), 0.1), bound=1.0) for site in DELTAS}
    return Federation(in_process(held), protocol=protocol, **options)


def exact_delta(epsilon: float, mu: float) -> mpmath.mpf:
    """Return delta of the Gaussian mechanism by its formula, with fifty digits (Balle and Wang 2018, theorem 8)."""
    with mpmath.workdps(50):
        eps, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        return mpmath.ncdf(m / 2 - eps / m) - mpmath.exp(eps) * mpmath.ncdf(-m / 2 - eps / m)


@pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning")
@pytest.mark.parametrize("protocol", [Cape(n_colluding=1), SecureSum(n_colluding=1), Independent()])
@pytest.mark.parametrize("epsilon", [EPSILONS, 1.0])
def test_a_fit_gives_every_site_its_own_pair(protocol: Protocol, epsilon: float | dict[str, float]) -> None:
    model = Mean(epsilon=epsilon, delta=DELTAS).fit(federation(protocol))
    found, terms = model.guarantee_, federation(protocol).terms(epsilon, DELTAS)
    assert {site: delta for site, (_, delta) in found.own_pairs.items()} == DELTAS
    assert found.delta == 1e-6
    for site, (own, delta) in found.own_pairs.items():
        asked = EPSILONS[site] if isinstance(epsilon, dict) else epsilon
        assert own <= asked
        # The exact curve, without any of the code that states the pair: integer noise costs e^gap and a tail.
        gap, tail = epsilon_reserve(terms.epsilons[site]), tail_reserve(1e-6)
        spent = mpmath.exp(gap) * exact_delta(own - gap, found.sites[site].mu) + tail
        assert 0.999999 * delta < spent <= delta * (1 + 1e-9)
    if isinstance(protocol, Independent):
        # Nothing is wasted: noise of each site is that of its own pair, within a thousandth.
        assert found.own_pairs["oslo"][0] >= 0.999 * (EPSILONS["oslo"] if isinstance(epsilon, dict) else 1.0)


@pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning")
def test_it_is_the_noise_that_the_restated_pairs_have() -> None:
    pairs = {site: (EPSILONS[site], delta) for site, delta in DELTAS.items()}
    epsilon, delta = at_one_delta(pairs)
    one, two = (federation(Cape(n_colluding=1)).terms(*asked) for asked in ((EPSILONS, DELTAS), (epsilon, delta)))
    assert (one.epsilons, one.delta) == (two.epsilons, two.delta)
    restated = Mean(epsilon=epsilon, delta=delta).fit(federation(Cape(n_colluding=1))).guarantee_
    asked = Mean(epsilon=EPSILONS, delta=DELTAS).fit(federation(Cape(n_colluding=1))).guarantee_
    assert asked.sites == restated.sites
    assert "own_pairs" not in restated.to_dict()
    assert asked.to_dict()["own_pairs"]["lima"][1] == 1e-5
    assert "at the delta of each site: lyon (" in asked.sentence()
    assert dict(asked.lines())["each site's own"].startswith("lyon (")


@pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning")
def test_plans_saved_models_and_runs_without_noise_take_it_too(tmp_path: Path) -> None:
    model = PCA(1, epsilon=EPSILONS, delta=DELTAS, center=False)
    assert model.plan(federation(Cape(n_colluding=1))).guarantee.delta == 1e-6
    model.fit(federation(Cape(n_colluding=1))).save(tmp_path / "model")
    assert PCA.load(tmp_path / "model").guarantee_ == model.guarantee_
    assert Mean(epsilon=1.0, delta=DELTAS).fit(federation(Exact())).guarantee_.own_pairs == {}


@pytest.mark.parametrize(
    "deltas",
    [{"lyon": 1e-6}, {**DELTAS, "nice": 1e-6}, {**DELTAS, "oslo": "1e-6"}, {**DELTAS, "oslo": 0.0}, {}],
)
def test_deltas_must_be_one_number_for_each_site(deltas: dict[str, object]) -> None:
    with pytest.raises(InvalidParameter, match=r"delta|pair"):
        Mean(epsilon=1.0, delta=deltas).fit(federation(Cape(n_colluding=1)))  # type: ignore[arg-type]  # wrong ones


@pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning")
def test_the_largest_delta_is_compared_with_the_number_of_records() -> None:
    large = {**DELTAS, "rome": 6e-4}
    with pytest.raises(InvalidParameter, match="1/N"):
        Mean(epsilon=1.0, delta=large).fit(federation(Cape(n_colluding=1)))
    accepted = Mean(epsilon=1.0, delta=large).fit(federation(Cape(n_colluding=1), accept_large_delta=True))
    assert any("above 1/N" in text for text in accepted.guarantee_.assumptions)
