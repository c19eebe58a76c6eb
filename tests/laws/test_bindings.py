"""What is signed, masked for or agreed to is all of it: changing any part changes the digest."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from dpcape import Cape, rows
from dpcape.core.messages import Request
from dpcape.core.privacy.calibration import plan_release
from dpcape.core.privacy.terms import Terms
from dpcape.core.protocols.cape import agreement
from dpcape.core.protocols.secure_session import request_digest, session_config
from dpcape.statistics.moments import centred_moments

PROTOCOL = Cape(n_colluding=1)
SITES = ("lima", "lyon", "oslo", "rome")


def made_terms() -> Terms:
    return Terms(
        allowance="a",
        settings=PROTOCOL.settings(4),
        epsilons=dict.fromkeys(SITES, 1.0),
        delta=1e-5,
        shares=(0.5, 0.5),
        n_records=dict.fromkeys(SITES, 100),
        weights=dict.fromkeys(SITES, 0.25),
        facts=rows(np.zeros((1, 3)), bound=1.0).facts().shape_facts(),
    )


def made_request() -> Request:
    terms = made_terms()
    statistic = centred_moments(terms.facts)
    plan = plan_release(terms, 0, statistic, PROTOCOL)
    return Request(release=0, statistic=statistic.name, public={"mean_weight": 0.5}, plan=plan)


CHANGED_TERMS: dict[str, Any] = {
    "allowance": "b",
    "settings": Cape(n_colluding=0).settings(4),
    "epsilons": {**dict.fromkeys(SITES, 1.0), "rome": 1.0000001},
    "delta": 1.0000001e-5,
    "shares": (0.5, 0.4),
    "n_records": {**dict.fromkeys(SITES, 100), "rome": 101},
    "weights": {},
    "facts": rows(np.zeros((1, 3)), bound=2.0).facts().shape_facts(),
}


@pytest.mark.parametrize("field", msgspec.structs.fields(Terms), ids=lambda field: field.name)
def test_every_term_is_in_the_digest(field: Any) -> None:
    terms = made_terms()
    changed = msgspec.structs.replace(terms, **{field.name: CHANGED_TERMS[field.name]})
    assert changed.digest() != terms.digest()
    # Hence in what a secure sum is agreed for, and so in every mask and signature of its session.
    assert session_config(changed, SITES, 0).purpose != session_config(terms, SITES, 0).purpose


def test_a_session_is_of_its_terms_number_and_sites() -> None:
    terms = made_terms()
    first = session_config(terms, SITES, 0)
    assert (first.threshold, first.n_colluding) == (terms.settings.minimum_sites, terms.settings.n_colluding)
    assert session_config(terms, SITES, 1).digest() != first.digest()
    assert session_config(terms, SITES[::-1], 0) == first


@pytest.mark.parametrize("field", msgspec.structs.fields(Request), ids=lambda field: field.name)
def test_every_part_of_a_request_is_in_its_digest(field: Any) -> None:
    request = made_request()
    plan = msgspec.structs.replace(request.plan, step=request.plan.step / 2)
    others = {"release": 1, "statistic": "second_moment", "public": {"mean_weight": 0.25}, "plan": plan}
    changed = msgspec.structs.replace(request, **{field.name: others[field.name]})
    assert request_digest(changed) != request_digest(request)


def test_an_agreement_is_of_its_request_its_roster_and_its_sum() -> None:
    request, agreed = made_request(), np.array([3, -4, 5], dtype=np.int64)
    made = agreement(request, SITES, agreed)
    assert agreement(request, SITES[::-1], agreed) == made
    others = [
        agreement(msgspec.structs.replace(request, release=1), SITES, agreed),
        agreement(request, SITES[:3], agreed),
        agreement(request, (*SITES[:3], "riga"), agreed),
        agreement(request, SITES, agreed + np.array([0, 0, 1])),
    ]
    assert len({made, *others}) == 5
