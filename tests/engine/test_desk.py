"""What a site takes from the line: signed, addressed, in order, one at a time. No engine is needed here."""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcape.core.errors import InvalidParameter, LedgerRefused, ProtocolError
from dpcape.core.secure_sum.identity import Identity
from dpcape.transport import frames
from dpcape.transport.frames import (
    Ask,
    Reply,
    decode_ask,
    decode_reply,
    request_digest,
    signed,
    signed_reply,
    split,
)
from dpcape.transport.request_handler import JobBinding, RequestHandler

COORDINATOR = Identity.from_private_bytes(bytes(range(32)))
ROGUE = Identity.from_private_bytes(bytes(range(1, 33)))
SITE = Identity.from_private_bytes(bytes(range(2, 34)))
POST = JobBinding(job="job", study="d" * 64, site="lyon", coordinator=COORDINATOR.public, identity=SITE)


def ask(**changes: object) -> Ask:
    fields = {"kind": "round", "job": "job", "study": "d" * 64, "site": "lyon", "number": 1}
    return Ask(**{**fields, **changes})


def desk(answer: Callable[[bytes], bytes] = bytes.upper) -> RequestHandler:
    made = RequestHandler(POST, lambda: answer)
    made.wait_until_open(5)
    return made


def frame(to: RequestHandler, request: Ask, identity: Identity = COORDINATOR) -> bytes:
    """A request's frame, with the session the site drew."""
    is_round = request.kind == "round"
    sealed = msgspec.structs.replace(request, session=to._session if is_round else "")
    return signed(sealed, identity, b"hello" if is_round else b"")


def put(to: RequestHandler, request: Ask, identity: Identity = COORDINATOR) -> Reply:
    return decode_reply(to.handle(frame(to, request, identity)), SITE.public)[0]


def unsigned(data: bytes) -> Reply:
    """A reply that no coordinator believes."""
    with pytest.raises(ProtocolError, match="not signed"):
        decode_reply(data, SITE.public)
    return msgspec.msgpack.decode(split(data)[0][:-64], type=Reply)


def test_a_round_is_answered_once_and_in_order() -> None:
    here = desk()
    first = frame(here, ask())
    reply, body = decode_reply(here.handle(first), SITE.public)
    assert body == b"HELLO"
    assert (reply.job, reply.number, reply.request) == ("job", 1, request_digest(split(first)[0]))
    assert put(here, ask()).state == "stale"
    assert put(here, ask(number=3)).state == "ok"
    assert put(here, ask(number=2)).state == "stale"
    assert put(here, ask(kind="ping", number=0)).number == 3
    assert put(here, ask(kind="ready", number=0)).about["dpcape"]


@pytest.mark.parametrize("changes", [{"job": "other"}, {"site": "oslo"}, {"study": "e" * 64}])
def test_a_frame_for_somebody_else_is_refused(changes: dict[str, object]) -> None:
    reply = put(desk(), ask(**changes))
    assert (reply.state, reply.error, reply.length) == ("refused", "ProtocolError", 0)


def test_another_participant_cannot_ask() -> None:
    served: list[bytes] = []
    here = desk(lambda body: served.append(body) or b"")
    reply = unsigned(here.handle(frame(here, ask(), ROGUE)))
    assert "signature is not the pinned coordinator's" in reply.text
    genuine = frame(here, ask())
    for place in (0, 3, 10, 60, len(genuine) - 70, len(genuine) - 1):
        altered = genuine[:place] + bytes([genuine[place] ^ 1]) + genuine[place + 1 :]
        # Not signed: a captured engine must not be able to make refusals that end a study.
        assert unsigned(here.handle(altered)).state == "refused"
    assert served == []


def test_a_request_of_before_a_restart_is_not_served() -> None:
    recorded = frame(desk(), ask())
    assert decode_reply(desk().handle(recorded), SITE.public)[0].state == "restarted"


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
    assert put(here, ask(kind="ping", number=0)).state == "ok"
    go_on.set()
    first.join(5)
    assert put(here, ask(number=2)).state == "ok"


@pytest.mark.parametrize(
    ("error", "kind", "speaks"),
    [
        (LedgerRefused("ceiling"), "LedgerRefused", True),
        (ProtocolError("stage"), "ProtocolError", True),
        (InvalidParameter("row 17 of /data/secret.csv"), "ProtocolError", False),
        (RuntimeError("row 17"), "ProtocolError", False),
    ],
)
def test_refusals_speak_only_words_made_to_leave(error: Exception, kind: str, speaks: bool) -> None:
    def refuse() -> Callable[[bytes], bytes]:
        raise error

    here = RequestHandler(POST, refuse)
    here.wait_until_open(5)
    reply = put(here, ask(kind="ready", number=0))
    assert (reply.state, reply.error) == ("refused", kind)
    assert (str(error) in reply.text) == speaks
    assert "17" not in reply.text


def test_a_site_that_still_reads_its_data_is_busy() -> None:
    go_on = threading.Event()

    def open_slowly() -> Callable[[bytes], bytes]:
        go_on.wait(5)
        return bytes.upper

    here = RequestHandler(POST, open_slowly)
    assert put(here, ask(kind="ready", number=0)).state == "busy"
    assert put(here, ask()).state == "busy"
    go_on.set()
    here.wait_until_open(5)
    assert put(here, ask()).state == "ok"


def test_unknown_versions_and_sizes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ProtocolError, match="version 2; got 3"):
        decode_ask(signed(ask(version=3), COORDINATOR), COORDINATOR.public)
    with pytest.raises(ProtocolError, match="version 2; got 9"):
        decode_reply(signed_reply(Reply(version=9, state="ok", number=0), SITE), SITE.public)
    with pytest.raises(ProtocolError, match="ping request must have a body of an allowed length"):
        decode_ask(signed(ask(kind="ping"), COORDINATOR, bytes(10)), COORDINATOR.public)
    with pytest.raises(ProtocolError, match="header must have 1 to 65536 bytes"):
        decode_ask((2**20).to_bytes(4, "big") + bytes(2**20), COORDINATOR.public)
    with pytest.raises(ProtocolError, match="header must have at most"):
        signed(ask(job="x" * 2**17), COORDINATOR)
    monkeypatch.setattr(frames, "MAX_FRAME_BYTES", 100)
    with pytest.raises(ProtocolError, match="at most 100 bytes"):
        decode_ask(signed(ask(), COORDINATOR, bytes(200)), COORDINATOR.public)


GENUINE = signed(ask(), COORDINATOR, b"hello")


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
    assert unsigned(here.handle(data)).state == "refused"
    assert served == []


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=200))
def test_malformed_replies_are_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_reply(b"\xc1" + data, SITE.public)
