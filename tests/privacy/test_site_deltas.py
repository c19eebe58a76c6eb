"""A delta for every site, restated at one delta: every site has its own pair, exactly."""

from __future__ import annotations

import numpy as np
import pytest

from dpcape import Cape, Federation, Independent, Mean, SecureSum, in_process, rows
from dpcape.core.errors import InvalidParameter
from dpcape.core.privacy.gaussian import delta_of, mu_of
from dpcape.core.privacy.site_deltas import at_one_delta, own_epsilon

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


@pytest.mark.parametrize("pairs", [{}, {"a": (0.0, 1e-6)}, {"a": (1.0, 0.0)}, {"a": (1.0, 1.0)}])
def test_what_is_no_pair_is_refused(pairs: dict[str, tuple[float, float]]) -> None:
    with pytest.raises(InvalidParameter):
        at_one_delta(pairs)


def test_a_mapping_of_deltas_is_told_what_to_do() -> None:
    held = {site: rows(np.zeros((50, 1)), bound=1.0) for site in ("a", "b", "c")}
    federation = Federation(in_process(held), protocol=Cape(n_colluding=1))
    with pytest.raises(InvalidParameter, match="at_one_delta"):
        Mean(epsilon=1.0, delta={"a": 1e-6, "b": 1e-5, "c": 1e-5}).fit(federation)
