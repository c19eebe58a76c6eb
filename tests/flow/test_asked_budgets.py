"""A delta above 1/N is refused unless accepted, and an epsilon of one site that brings nothing is named."""

from __future__ import annotations

import dataclasses
import re
import warnings
from typing import Any

import msgspec
import numpy as np
import pytest

from dpcape import Cape, Exact, Federation, Independent, Mean, Replay, SecureSum, in_process, rows
from dpcape.core.errors import InvalidParameter, ProtocolError, UtilityWarning
from dpcape.core.privacy.unused_epsilon import unused_epsilons
from dpcape.study.study import Study

SIZES = {"lima": 400, "lyon": 900, "oslo": 300, "pune": 400}
ASKED = {"lima": 1.0, "lyon": 2.0, "oslo": 3.0, "pune": 4.0}


def federation(protocol: Any, **options: Any) -> Federation:
    rng = np.random.default_rng(3)
    sites = {name: rows(rng.normal(size=(size, 3)) / 4, bound=1.0) for name, size in SIZES.items()}
    return Federation(in_process(sites, noise=Replay(1)), protocol=protocol, **options)


def test_a_delta_above_one_over_the_number_of_records_is_refused_before_anything_is_charged() -> None:
    made = federation(Cape(n_colluding=1))
    with pytest.raises(InvalidParameter, match=r"at most 1/N for N = 2000 records; got 0\.001\..*accept_large_delta"):
        Mean(epsilon=1.0, delta=1e-3).fit(made)
    assert not any(made._transport.site(site).ledger.charges for site in SIZES)  # type: ignore[attr-defined]  # in process
    for delta in (1e-5, 1 / 2000):
        model = Mean(epsilon=1.0, delta=delta).fit(made)
        assert not any("1/N" in text for text in model.guarantee_.assumptions)


def test_an_accepted_delta_is_printed() -> None:
    made = federation(Cape(n_colluding=1), accept_large_delta=True)
    guarantee = Mean(epsilon=1.0, delta=1e-3).fit(made).guarantee_
    assert "delta is above 1/N (N = 2000 records), which was accepted" in guarantee.sentence()
    assert "about 2 whole records" in guarantee.sentence()
    # Only the word True accepts it.
    with pytest.raises(InvalidParameter, match="1/N"):
        Mean(epsilon=1.0, delta=1e-3).fit(federation(Cape(n_colluding=1), accept_large_delta="no"))


def test_exact_totals_have_no_delta() -> None:
    Mean(epsilon=1.0, delta=0.5).fit(federation(Exact()))


STUDY = """
[study]
name = "first"
analysis = "mean"
epsilon = 1.0
delta = 1e-3
{more}
[protocol]
kind = "cape"
n_colluding = 1
[sites.lima]
[sites.lyon]
[sites.oslo]
[sites.pune]
[data]
kind = "rows"
features = 3
bound = 1.0
"""


def test_a_site_refuses_a_large_delta_that_its_study_does_not_accept() -> None:
    terms = federation(Cape(n_colluding=1)).terms(1.0, 1e-3)
    terms = msgspec.structs.replace(terms, shares=Study.parse(STUDY.format(more="")).shares(SIZES))
    with pytest.raises(ProtocolError, match="1/N for N = 2000"):
        Study.parse(STUDY.format(more="")).check_terms(terms)
    with pytest.raises(ProtocolError, match="1/N for N = 2000"):
        Study.parse(STUDY.format(more="accept_large_delta = false")).check_terms(terms)
    accepted = Study.parse(STUDY.format(more="accept_large_delta = true"))
    accepted.check_terms(terms)
    assert accepted.digest() != Study.parse(STUDY.format(more="")).digest()


def test_a_study_accepts_it_in_so_many_words() -> None:
    with pytest.raises(InvalidParameter, match=r"line 6.*accept_large_delta of .study. must be true or false"):
        Study.parse(STUDY.strip().format(more='accept_large_delta = "yes"'))


@pytest.mark.parametrize("protocol", [Cape(n_colluding=1), SecureSum(n_colluding=1)], ids=str)
def test_epsilons_that_bring_nothing_are_named_with_weights_that_use_them(protocol: Any) -> None:
    made = federation(protocol)
    with pytest.warns(UtilityWarning, match="brings nothing") as caught:
        before = Mean(epsilon=ASKED, delta=1e-5).fit(made)
    text = next(str(entry.message) for entry in caught if "brings nothing" in str(entry.message))
    assert "lyon 2 (uses 1), oslo 3 (uses 1), pune 4 (uses 1)" in text
    # The sentence is true: that is what the guarantee of each site says.
    for site in SIZES:
        assert before.guarantee_.sites[site].epsilon == pytest.approx(1.0, rel=1e-4)
    weights = {name: float(value) for name, value in re.findall(r"'(\w+)': ([0-9.]+)", text)}
    assert sum(weights.values()) == pytest.approx(1.0, abs=1e-12)
    # Copied, they do what is said of them: every site uses its epsilon, under as much less noise.
    weighted = federation(protocol, weights=weights)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*brings nothing")
        after = Mean(epsilon=ASKED, delta=1e-5).fit(weighted)
    for site, asked in ASKED.items():
        assert 0.99 * asked < after.guarantee_.sites[site].epsilon <= asked
    ratio = after.releases_[0].scale / before.releases_[0].scale
    said = float(re.findall(r"with ([0-9.]+) times the noise", text)[0])
    assert ratio == pytest.approx(said, abs=0.006)
    assert ratio < 0.6


def test_where_each_site_has_its_own_noise_every_epsilon_counts() -> None:
    made = federation(Independent())
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*brings nothing")
        model = Mean(epsilon=ASKED, delta=1e-5).fit(made)
    assert model.guarantee_.sites["pune"].epsilon == pytest.approx(4.0, rel=1e-4)


def test_equal_epsilons_are_no_matter() -> None:
    terms = federation(Cape(n_colluding=1)).terms(dict.fromkeys(SIZES, 1.0), 1e-5)
    found = unused_epsilons(terms, Cape(n_colluding=1))
    assert dataclasses.astuple(found) == ({}, {}, 1.0)
