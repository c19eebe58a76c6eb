"""Secure sums over a sparse masking graph in the engine's frames: eight sites, the fewest that have such a graph."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from dpcape import PCA, Cape, Federation, Replay, SecureSum, in_process, rows
from dpcape.core.protocols.protocol import Protocol
from dpcape.core.secure_sum.identity import Identity
from dpcape.site.in_process import InProcess
from dpcape.transport.carried_transport import Call, CarriedTransport
from dpcape.transport.delivery_status import DeliveryStatus
from dpcape.transport.request_handler import JobBinding, RequestHandler

from .test_line import COORDINATOR, QUICK, Wire

SITES = ("bonn", "lima", "lyon", "oslo", "pune", "rome", "turin", "york")
KEYS = {name: Identity.from_private_bytes(bytes([number] * 32)) for number, name in enumerate(SITES)}


def members() -> InProcess:
    draw = np.random.default_rng(0)
    return in_process({site: rows(0.3 * draw.normal(size=(40, 3)), bound=1.0) for site in SITES}, noise=Replay(5))


def over_frames() -> CarriedTransport:
    """Return a line of signed frames to the same sites."""
    sites = members()
    answers = {name: sites.site(name).answer for name in SITES}
    bindings = {name: JobBinding("job", "d" * 64, name, COORDINATOR.public, KEYS[name]) for name in SITES}
    desks = {name: RequestHandler(bindings[name], partial(answers.__getitem__, name)) for name in SITES}
    call = Call(job="job", study="d" * 64, identity=COORDINATOR, sites={name: key.public for name, key in KEYS.items()})
    line = CarriedTransport(SITES, Wire(desks), call=call, status=DeliveryStatus(SITES), timing=QUICK)
    line.gather()
    return line


@pytest.mark.parametrize(
    "protocol", [Cape(n_colluding=0, n_neighbours=6), SecureSum(n_colluding=0, n_neighbours=6)], ids=lambda p: p.name
)
def test_a_study_over_frames_equals_the_one_in_process(protocol: Protocol) -> None:
    found = [
        PCA(2, epsilon=1.0, delta=1e-5).fit(Federation(line, protocol=protocol, deadline=20.0))
        for line in (over_frames(), members())
    ]
    np.testing.assert_array_equal(found[0].components_, found[1].components_)
    for model in found:
        assert model.guarantee_.took_part == SITES
        assert any("at most 6 others" in text for text in model.guarantee_.assumptions)
