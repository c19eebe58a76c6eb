"""What a site takes from the line: signed, addressed, in order, one at a time. No engine is needed here."""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcape.errors import InvalidParameter, LedgerRefused, ProtocolError
from dpcape.secure_sum import Identity
from dpcape.transport import frames
from dpcape.transport.frames import Ask, Reply, decode_ask, decode_reply, signed
from dpcape.transport.request_handler import JobBinding, RequestHandler

COORDINATOR = Identity.from_private_bytes(bytes(range(32)))
ROGUE = Identity.from_private_bytes(bytes(range(1, 33)))
POST = JobBinding(job="job", study="d" * 64, site="lyon", coordinator=COORDINATOR.public)


def ask(**changes: object) -> Ask:
    fields = {"kind": "round", "job": "job", "study": "d" * 64, "site": "lyon", "number": 1, "body": b"hello"}
    return Ask(**{**fields, **changes})


def desk(answer: Callable[[bytes], bytes] = bytes.upper) -> RequestHandler:
    made = RequestHandler(POST, lambda: answer)
    made.wait_until_open(5)
    return made


def put(to: RequestHandler, request: Ask, identity: Identity = COORDINATOR) -> Reply:
    return decode_reply(to.handle(signed(request, identity)))


def test_a_round_is_answered_once_and_in_order() -> None:
    here = desk()
    assert put(here, ask()).body == b"HELLO"
    assert put(here, ask()).state == "stale"
    assert put(here, ask(number=3)).state == "ok"
    assert put(here, ask(number=2)).state == "stale"
    assert put(here, ask(kind="ping", number=0, body=b"")).number == 3
    assert put(here, ask(kind="ready", number=0, body=b"")).about["dpcape"]


@pytest.mark.parametrize("changes", [{"job": "other"}, {"site": "oslo"}, {"study": "e" * 64}])
def test_a_frame_for_somebody_else_is_refused(changes: dict[str, object]) -> None:
    reply = put(desk(), ask(**changes))
    assert (reply.state, reply.error, reply.body) == ("refused", "ProtocolError", b"")


def test_another_participant_cannot_ask() -> None:
    served: list[bytes] = []
    here = desk(lambda body: served.append(body) or b"")
    reply = put(here, ask(), ROGUE)
    assert "signed by the pinned coordinator" in reply.text
    genuine = msgspec.msgpack.decode(signed(ask(), COORDINATOR), type=Ask)
    for changes in ({"body": b"other"}, {"number": 2}, {"kind": "ready"}, {"signature": b""}, {"signature": bytes(64)}):
        altered = msgspec.structs.replace(genuine, **changes)
        assert decode_reply(here.handle(msgspec.msgpack.encode(altered))).state == "refused"
    assert served == []


def test_a_busy_site_takes_no_second_request() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(body: bytes) -> bytes:
        begun.set()
        go_on.wait(5)
        return body

    here = desk(slow)
    first = threading.Thread(target=put, args=(here, ask()))
    first.start()
    assert begun.wait(5)
    assert put(here, ask(number=2)).state == "busy"
    assert put(here, ask(kind="ping", number=0, body=b"")).state == "ok"
    go_on.set()
    first.join(5)
    assert put(here, ask(number=2)).state == "ok"


@pytest.mark.parametrize(
    ("error", "kind", "speaks"),
    [
        (LedgerRefused("ceiling"), "LedgerRefused", True),
        (ProtocolError("stage"), "ProtocolError", True),
        (InvalidParameter("row 17 of /data/secret.csv"), "InvalidParameter", False),
        (RuntimeError("row 17"), "ProtocolError", False),
    ],
)
def test_refusals_speak_only_words_made_to_leave(error: Exception, kind: str, speaks: bool) -> None:
    def refuse() -> Callable[[bytes], bytes]:
        raise error

    here = RequestHandler(POST, refuse)
    here.wait_until_open(5)
    reply = put(here, ask(kind="ready", number=0, body=b""))
    assert (reply.state, reply.error) == ("refused", kind)
    assert (str(error) in reply.text) == speaks
    assert "17" not in reply.text


def test_a_site_that_still_reads_its_data_is_busy() -> None:
    go_on = threading.Event()

    def open_slowly() -> Callable[[bytes], bytes]:
        go_on.wait(5)
        return bytes.upper

    here = RequestHandler(POST, open_slowly)
    assert put(here, ask(kind="ready", number=0, body=b"")).state == "busy"
    assert put(here, ask()).state == "busy"
    go_on.set()
    here.wait_until_open(5)
    assert put(here, ask()).state == "ok"


def test_unknown_versions_and_sizes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ProtocolError, match="version 1; got 2"):
        decode_ask(signed(ask(version=2), COORDINATOR), COORDINATOR.public)
    with pytest.raises(ProtocolError, match="version 1; got 9"):
        decode_reply(msgspec.msgpack.encode(Reply(version=9, state="ok", number=0)))
    with pytest.raises(ProtocolError, match="ping request must have at most"):
        decode_ask(signed(ask(kind="ping", body=bytes(2**17)), COORDINATOR), COORDINATOR.public)
    monkeypatch.setattr(frames, "MAX_FRAME_BYTES", 100)
    with pytest.raises(ProtocolError, match="at most 100 bytes"):
        decode_ask(signed(ask(body=bytes(200)), COORDINATOR), COORDINATOR.public)


GENUINE = signed(ask(), COORDINATOR)


@settings(deadline=None, max_examples=300)
@given(
    data=st.one_of(
        st.binary(max_size=200),
        st.tuples(st.integers(0, len(GENUINE) - 1), st.integers(1, 255)).map(
            lambda change: GENUINE[: change[0]] + bytes([GENUINE[change[0]] ^ change[1]]) + GENUINE[change[0] + 1 :]
        ),
        st.integers(0, len(GENUINE) - 1).map(lambda length: GENUINE[:length]),
        st.none(),
        st.text(max_size=20),
        st.dictionaries(st.text(max_size=3), st.integers(), max_size=3),
    )
)
def test_malformed_frames_are_refused_and_never_served(data: object) -> None:
    served: list[bytes] = []
    here = desk(lambda body: served.append(body) or b"")
    assert decode_reply(here.handle(data)).state == "refused"
    assert served == []


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=200))
def test_malformed_replies_are_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_reply(b"\xc1" + data)
