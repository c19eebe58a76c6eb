"""The inverses of the accountant are on the private side for tiny and for huge figures too; nothing overflows."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcape.core.errors import InvalidParameter
from dpcape.core.privacy.gaussian import SMALLEST_DELTA, delta_of, epsilon_of, mu_of
from dpcape.core.privacy.terms import printed_epsilon
from dpcape.study.study import Study

law = settings(max_examples=150, deadline=None, derandomize=True)
small_epsilons = st.floats(-16, -2.01).map(lambda exponent: 10.0**exponent)
all_deltas = st.one_of(st.floats(-299, -12), st.floats(-12, -0.05)).map(lambda exponent: 10.0**exponent)
small_mus = st.floats(-12, 1).map(lambda exponent: 10.0**exponent)


def reference_delta(epsilon: float, mu: float, digits: int = 60) -> Any:
    with mpmath.workdps(digits):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        return mpmath.ncdf(-e / m + m / 2) - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2)


@law
@given(small_epsilons, all_deltas)
def test_mu_is_never_too_large_below_epsilon_1e_2(epsilon: float, delta: float) -> None:
    mu = mu_of(epsilon, delta)
    assert reference_delta(epsilon, mu) <= delta
    # Nor does it waste.
    assert reference_delta(epsilon, mu * (1 + 1e-9)) > delta


@law
@given(all_deltas, small_mus)
def test_epsilon_is_never_too_small(delta: float, mu: float) -> None:
    epsilon = epsilon_of(delta, mu)
    assert reference_delta(epsilon, mu) <= delta
    if epsilon > 1e-6:
        # Near epsilon 0 delta hardly depends on it: what is exact there is delta.
        assert reference_delta(epsilon * (1 - 1e-6), mu) > delta * (1 - 1e-9)


@law
@given(small_epsilons, small_mus)
def test_delta_is_right_for_small_epsilons(epsilon: float, mu: float) -> None:
    exact = reference_delta(epsilon, mu)
    assert abs(delta_of(epsilon, mu) - exact) <= 5e-13 * exact + 1e-300


@pytest.mark.parametrize("epsilon", [0.999e-2, 1e-2, 1.001e-2])
@pytest.mark.parametrize("mu", [1e-4, 1e-3, 0.03, 0.999, 1.0, 1.001, 5.0])
def test_both_formulas_agree_where_they_meet(epsilon: float, mu: float) -> None:
    assert delta_of(epsilon, mu) == pytest.approx(float(reference_delta(epsilon, mu)), rel=1e-10, abs=1e-300)


@pytest.mark.parametrize("epsilon", [1e-13, 1e-10, 1e-8, 1e-6])
@pytest.mark.parametrize("delta", [1e-12, 1e-5])
def test_known_errors_of_the_old_formula(epsilon: float, delta: float) -> None:
    """At epsilon 1e-12 delta was 1.7 % too large; at 1e-14 nothing of it was left."""
    assert float(reference_delta(epsilon, mu_of(epsilon, delta)) / mpmath.mpf(delta)) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("epsilon", [1e3, 1e6, 1e9, 1e18, 1e21, 1e100, 1e300])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1])
def test_huge_epsilons_are_on_the_private_side(epsilon: float, delta: float) -> None:
    mu = mu_of(epsilon, delta)
    assert reference_delta(epsilon, mu, digits=900) <= delta
    assert mu == pytest.approx(math.sqrt(2 * epsilon), rel=0.2)
    found = epsilon_of(delta, mu)
    assert reference_delta(found, mu, digits=900) <= delta
    assert found == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize("mu", [1e154, 1e200, 1e308])
def test_a_huge_mu_overflows_to_no_protection(mu: float) -> None:
    assert epsilon_of(1e-5, mu) >= 1e307
    assert delta_of(1.0, mu) == 1.0


def test_a_delta_without_digits_is_refused_with_a_remedy() -> None:
    for answer in (lambda: mu_of(1.0, 1e-305), lambda: epsilon_of(1e-305, 1.0)):
        with pytest.raises(InvalidParameter, match=r"at least 1e-300; got 1e-305\. .* Choose a larger delta"):
            answer()
    assert mu_of(1.0, SMALLEST_DELTA) > 0
    # A ledger whose tails use delta up says that there is no bound.
    assert printed_epsilon(1e-5, 0.1, gap=0.0, tail=1e-5) == math.inf
    assert printed_epsilon(2e-300, 0.1, gap=0.0, tail=1.5e-300) == math.inf


TEXT = """
[study]
name = "huge"
analysis = "{analysis}"
epsilon = {epsilon}
delta = 1e-5
{parameters}
[protocol]
kind = "cape"
n_colluding = 1
[sites.a]
[sites.b]
[sites.c]
[data]
kind = "rows"
features = 3
bound = 1.0
"""


@pytest.mark.parametrize("epsilon", ["1e3", "1e18", "1e21", "1e300", "1.7e308", "1e-13", "1e-300"])
@pytest.mark.parametrize(("analysis", "parameters"), [("mean", ""), ("pca", "n_components = 2")])
def test_no_epsilon_of_a_study_file_overflows(epsilon: str, analysis: str, parameters: str) -> None:
    study = Study.parse(TEXT.format(analysis=analysis, epsilon=epsilon, parameters=parameters))
    assert 0 < study.charge("a").mu < math.inf


@pytest.mark.parametrize("epsilon", ["1" + "0" * 400, "1e309", "inf", "nan"])
def test_an_epsilon_that_is_no_number_is_refused(epsilon: str) -> None:
    with pytest.raises(InvalidParameter, match="epsilon"):
        Study.parse(TEXT.format(analysis="mean", epsilon=epsilon, parameters=""))
