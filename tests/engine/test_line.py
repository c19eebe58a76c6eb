"""The coordinator's line over a carrier that misbehaves on purpose: who is lost, when, and what it is called."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from dpcape import PCA, Cape, Federation, Replay, in_process, rows
from dpcape.core.errors import LedgerRefused, SiteLost, TransportError
from dpcape.core.secure_sum.identity import Identity
from dpcape.engines.flare.live_table import table
from dpcape.transport.carried_transport import Call, CarriedTransport
from dpcape.transport.carrier import Carrier, Delivery
from dpcape.transport.delivery_status import DeliveryStatus
from dpcape.transport.frames import Ask, Kind, signed
from dpcape.transport.request_handler import JobBinding, RequestHandler
from dpcape.transport.timing import PRESET, Timing

COORDINATOR = Identity.from_private_bytes(bytes(range(32)))
SITES = ("lima", "lyon", "oslo", "pune")
KEYS = {name: Identity.from_private_bytes(bytes([number] * 32)) for number, name in enumerate(SITES)}
CALL = Call(job="job", study="d" * 64, identity=COORDINATOR, sites={name: key.public for name, key in KEYS.items()})
QUICK = Timing(start=1.0, ready=0.5, retry=0.02, round=5.0, glance=0.05, ping=0.1, ping_timeout=0.2, silent_pings=3)


class Wire(Carrier):
    """Carries to desks in this process; ``faults`` decides per site, kind and call what happens instead."""

    can_ping: ClassVar[bool] = True

    def __init__(self, desks: Mapping[str, RequestHandler]) -> None:
        self.desks = desks
        self.faults: dict[str, Callable[[Kind, float], Delivery | None]] = {}

    def carry(self, site: str, kind: Kind, data: bytes, timeout: float) -> Delivery:
        fault = self.faults.get(site, lambda kind, timeout: None)(kind, timeout)
        return Delivery("ok", self.desks[site].handle(data)) if fault is None else fault


def binding(name: str) -> JobBinding:
    return JobBinding("job", "d" * 64, name, COORDINATOR.public, KEYS[name])


def desks_for(answers: Mapping[str, Callable[[bytes], bytes]]) -> dict[str, RequestHandler]:
    made = {}
    for name, answer in answers.items():
        made[name] = RequestHandler(binding(name), lambda answer=answer: answer)
    return made


def gathered(wire: Wire, status: DeliveryStatus | None = None, **options: object) -> CarriedTransport:
    """A line whose sites have said that they are ready."""
    line = line_to(wire, status, **options)
    faults, wire.faults = wire.faults, {}
    line.gather()
    wire.faults = faults
    return line


def line_to(
    wire: Wire, status: DeliveryStatus | None = None, *, timing: Timing = QUICK, **options: object
) -> CarriedTransport:
    told = DeliveryStatus(tuple(wire.desks)) if status is None else status
    return CarriedTransport(tuple(wire.desks), wire, call=CALL, status=told, timing=timing, **options)


def echo() -> Wire:
    return Wire(desks_for(dict.fromkeys(SITES, bytes.upper)))


def hang(kind: Kind, timeout: float) -> Delivery:
    time.sleep(timeout)
    return Delivery("timeout")


def test_replies_come_back_by_site() -> None:
    line = line_to(echo())
    assert set(line.gather()) == set(SITES)
    replies, missing = line.ask({"lima": b"a", "oslo": b"b"}, 2.0)
    assert (replies, missing) == ({"lima": b"A", "oslo": b"B"}, ())


def test_threads_are_used_again_and_one_that_waits_for_a_silent_site_delays_nobody() -> None:
    wire = echo()
    line = gathered(wire)
    line.ask(dict.fromkeys(SITES, b"x"), 2.0)
    running = threading.active_count()
    for _ in range(50):
        line.ask(dict.fromkeys(SITES, b"x"), 2.0)
    assert threading.active_count() <= running + 1
    wire.faults["oslo"] = lambda kind, timeout: None if kind == "ping" else hang(kind, 10.0)
    line.ask(dict.fromkeys(SITES, b"x"), 0.2)
    del wire.faults["oslo"]
    replies, missing = line.ask(dict.fromkeys(SITES, b"y"), 5.0)
    assert (sorted(replies), missing) == (sorted(SITES), ())


def test_a_killed_site_is_noticed_by_a_ping_long_before_the_deadline() -> None:
    wire, status = echo(), DeliveryStatus(SITES)
    wire.faults["oslo"] = lambda kind, timeout: Delivery("unreachable") if kind == "ping" else hang(kind, 10.0)
    begun = time.monotonic()
    replies, missing = gathered(wire, status).ask(dict.fromkeys(SITES, b"x"), 10.0)
    assert (sorted(replies), missing) == (["lima", "lyon", "pune"], ("oslo",))
    assert time.monotonic() - begun < 5.0
    assert status.snapshot()["sites"]["oslo"]["state"] == "lost"


def test_the_preset_notices_a_killed_site_within_five_seconds() -> None:
    assert PRESET.ping + PRESET.glance + 1.0 < 5.0


def test_a_silent_machine_is_given_up_after_several_pings() -> None:
    wire = echo()
    wire.faults["oslo"] = lambda kind, timeout: hang(kind, min(timeout, 10.0))
    begun = time.monotonic()
    _, missing = gathered(wire).ask(dict.fromkeys(SITES, b"x"), 10.0)
    assert missing == ("oslo",)
    assert 0.3 < time.monotonic() - begun < 5.0


def test_a_slow_site_that_answers_pings_is_awaited_until_the_deadline_and_not_longer() -> None:
    wire, status = echo(), DeliveryStatus(SITES)
    wire.faults["pune"] = lambda kind, timeout: None if kind != "round" else hang(kind, 6.0)
    line = gathered(wire, status)
    begun = time.monotonic()
    _, missing = line.ask(dict.fromkeys(SITES, b"x"), 0.7)
    assert missing == ("pune",)
    assert 0.6 < time.monotonic() - begun < 5.0
    assert status.snapshot()["sites"]["pune"]["state"] == "late"
    wire.faults.clear()
    assert line.ask({"pune": b"y"}, 5.0) == ({"pune": b"Y"}, ())


def test_a_lost_site_is_not_asked_again() -> None:
    wire = echo()
    wire.faults["lyon"] = lambda kind, timeout: Delivery("unreachable")
    line = gathered(wire)
    assert line.ask(dict.fromkeys(SITES, b"x"), 1.0)[1] == ("lyon",)
    wire.faults["lyon"] = lambda kind, timeout: pytest.fail("asked again")
    assert line.ask(dict.fromkeys(SITES, b"x"), 1.0)[1] == ("lyon",)


def test_sites_that_are_never_ready_are_named() -> None:
    wire = echo()
    wire.faults["lima"] = wire.faults["pune"] = lambda kind, timeout: Delivery("unreachable")
    with pytest.raises(SiteLost, match=r"lima, pune.*Nothing was charged"):
        line_to(wire).gather()


def test_a_study_starts_without_a_silent_site_if_enough_are_left() -> None:
    wire, status = echo(), DeliveryStatus(SITES)
    wire.faults["lima"] = lambda kind, timeout: Delivery("unreachable")
    line = line_to(wire, status)
    assert set(line.gather(3)) == set(line.sites) == {"lyon", "oslo", "pune"}
    assert status.snapshot()["sites"]["lima"]["note"] == "was never ready"
    with pytest.raises(SiteLost, match=r"lima.*4 sites must take part"):
        line_to(wire).gather(4)


def altered(frame: bytes) -> bytes:
    return frame[:-1] + bytes([frame[-1] ^ 1])


@pytest.mark.parametrize("forge", ["body", "signature", "another site", "garbage", "an earlier reply"])
def test_a_captured_engine_cannot_answer_for_its_site(forge: str) -> None:
    wire, status = echo(), DeliveryStatus(SITES)
    line, earlier = gathered(wire, status), []
    inner = wire.desks["oslo"].handle

    class Captured:
        def handle(self, data: bytes) -> bytes:
            genuine = inner(data)
            earlier.append(genuine)
            return {
                "body": altered(genuine),
                "signature": genuine[:80] + altered(genuine[80:81]) + genuine[81:],
                "another site": wire.desks["lima"].handle(data),
                "garbage": b"garbage",
                "an earlier reply": earlier[0],
            }[forge]

    if forge == "an earlier reply":
        earlier.append(inner(signed(Ask(kind="ping", job="job", study="d" * 64, site="oslo", number=0), COORDINATOR)))
    wire.desks["oslo"] = Captured()
    replies, missing = line.ask(dict.fromkeys(SITES, b"x"), 5.0)
    assert (sorted(replies), missing) == (["lima", "lyon", "pune"], ("oslo",))
    assert status.snapshot()["sites"]["oslo"]["note"] == "its reply is not signed with its identity"


def test_a_vault_that_died_is_a_lost_site_and_not_a_late_one() -> None:
    wire, status = echo(), DeliveryStatus(SITES)
    wire.faults["pune"] = lambda kind, timeout: Delivery("no vault")
    assert gathered(wire, status).ask(dict.fromkeys(SITES, b"x"), 5.0)[1] == ("pune",)
    assert status.snapshot()["sites"]["pune"] | {"since": 0} == {
        "state": "lost",
        "since": 0,
        "note": "its vault is gone",
    }


def test_a_restarted_site_does_not_take_requests_of_before() -> None:
    wire, status = echo(), DeliveryStatus(SITES)
    line = gathered(wire, status)
    wire.desks["oslo"] = RequestHandler(binding("oslo"), lambda: bytes.upper)
    wire.desks["oslo"].wait_until_open(5)
    assert line.ask(dict.fromkeys(SITES, b"x"), 5.0)[1] == ("oslo",)
    assert status.snapshot()["sites"]["oslo"]["note"] == "it was restarted during the study"


def test_a_site_that_starts_late_or_reads_for_long_is_awaited() -> None:
    wire, calls = echo(), iter(range(100))
    wire.faults["oslo"] = lambda kind, timeout: Delivery("error") if next(calls) < 5 else None
    go_on = threading.Event()

    def reads() -> Callable[[bytes], bytes]:
        go_on.wait(5)
        return bytes.upper

    wire.desks["pune"] = RequestHandler(binding("pune"), reads)
    # Longer than ``start``, which is for silence alone.
    threading.Timer(1.5, go_on.set).start()
    assert set(line_to(wire).gather()) == set(SITES)


def test_a_refusal_carries_the_sites_name_and_kind() -> None:
    def refuse() -> Callable[[bytes], bytes]:
        raise LedgerRefused("a study must be approved.")

    wire = echo()
    wire.desks["oslo"] = RequestHandler(binding("oslo"), refuse)
    with pytest.raises(LedgerRefused, match=r"^oslo: a study must be approved"):
        line_to(wire).gather()


def test_cancelling_ends_a_round() -> None:
    wire, cancelled = echo(), threading.Event()
    wire.faults["lima"] = lambda kind, timeout: hang(kind, 10.0) if kind == "round" else None
    threading.Timer(0.3, cancelled.set).start()
    begun = time.monotonic()
    with pytest.raises(TransportError, match="cancelled"):
        gathered(wire, is_cancelled=cancelled.is_set).ask(dict.fromkeys(SITES, b"x"), 10.0)
    assert time.monotonic() - begun < 5.0


def consortium(seed: int) -> tuple[Wire, dict[str, object]]:
    draw = np.random.default_rng(0)
    records = {site: rows(0.3 * draw.normal(size=(60, 3)), bound=1.0) for site in SITES}
    members = in_process(records, noise=Replay(seed))
    return Wire(desks_for({site: members.site(site).answer for site in SITES})), records


def fit(line: object) -> PCA:
    federation = Federation(line, protocol=Cape(n_colluding=0, minimum_sites=3), deadline=20.0)
    return PCA(2, epsilon=1.0, delta=1e-5).fit(federation)


def test_a_study_over_the_line_equals_the_one_in_process() -> None:
    wire, records = consortium(5)
    over_line = fit(gathered(wire))
    assert np.array_equal(over_line.components_, fit(in_process(records, noise=Replay(5))).components_)


@pytest.mark.parametrize("at_call", range(2, 10))
def test_whenever_a_site_dies_the_study_finishes_without_it_or_before_it(at_call: int) -> None:
    wire, _ = consortium(5)
    calls = iter(range(1000))
    wire.faults["oslo"] = lambda kind, timeout: (
        Delivery("unreachable") if kind == "ping" or next(calls) >= at_call else None
    )
    took_part = fit(gathered(wire)).guarantee_.took_part
    assert took_part in (SITES, ("lima", "lyon", "pune"))


def test_status_is_a_table_for_people_and_json_for_scripts(tmp_path: Path) -> None:
    status = DeliveryStatus(SITES, tmp_path / "events.jsonl")
    status.phase("gathering", sites=list(SITES))
    status.site("oslo", "lost", "its process or connection is gone")
    status.release(3, 7, statistic="second_moment")
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [event["event"] for event in events] == ["gathering", "lost", "release"]
    snapshot = status.snapshot(after=2)
    assert [event["event"] for event in snapshot["events"]] == ["release"]
    shown = table("first", snapshot)
    assert shown.row_count == len(SITES)
    assert "release 3 of 7" in str(shown.title)
