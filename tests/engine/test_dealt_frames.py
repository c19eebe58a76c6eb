"""The dealer's boxes on an engine that is owned by an attacker: it can drop them, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pytest

from dpcape import Dealer, Federation, Replay, rows
from dpcape.core import messages as m
from dpcape.core.errors import DpcapeError, ProtocolError
from dpcape.core.messages import decode_from_site, encode
from dpcape.core.privacy.ledger import Ledger
from dpcape.core.protocols.dealt_noise import PAD_BYTES, box_context, parts_of, root_of, signed_box
from dpcape.core.protocols.noise_dealer import NoiseDealer
from dpcape.core.secure_sum.box import seal
from dpcape.core.secure_sum.identity import SIGNATURE_BYTES, Identity
from dpcape.core.site import Site
from dpcape.statistics.moments import second_moment
from dpcape.transport.carried_transport import Call, CarriedTransport
from dpcape.transport.carrier import Carrier, Delivery
from dpcape.transport.delivery_status import DeliveryStatus
from dpcape.transport.frames import Kind, Reply, decode_reply, signed_reply, split
from dpcape.transport.request_handler import JobBinding, RequestHandler
from dpcape.transport.timing import Timing

SITES, DEALER = ("lima", "lyon", "oslo"), "kiel"
EVERYBODY = (*SITES, DEALER)
KEYS = {name: Identity.generate() for name in EVERYBODY}
COORDINATOR, ATTACKER = Identity.generate(), Identity.generate()
QUICK = Timing(start=5.0, ready=1.0, retry=0.02, round=5.0, glance=0.05, ping=0.5, ping_timeout=0.5, silent_pings=3)

Answer = Callable[[bytes], bytes]


class OwnedEngine(Carrier):
    """Carries frames, keeps them, and lets an attacker put others in place of the replies."""

    can_ping: ClassVar[bool] = True

    def __init__(self, desks: dict[str, RequestHandler]) -> None:
        self._desks = desks
        self.crossed: list[tuple[str, bytes, bytes]] = []
        self.attack: Callable[[str, bytes, bytes], bytes | None] = lambda site, frame, reply: reply

    def carry(self, site: str, kind: Kind, data: bytes, timeout: float) -> Delivery:
        reply = self._desks[site].handle(data)
        if kind != "round":
            return Delivery("ok", reply)
        self.crossed.append((site, data, reply))
        changed = self.attack(site, data, reply)
        return Delivery("unreachable") if changed is None else Delivery("ok", changed)


class Stage:
    """Three sites and a dealer behind an engine that is owned."""

    def __init__(self) -> None:
        self.tables = {
            name: 0.3 * np.random.default_rng(number).normal(size=(40, 3)) for number, name in enumerate(SITES)
        }
        self.sites = {
            name: Site(name, rows(table, bound=1.0), ledger=Ledger(), identity=KEYS[name], noise=Replay(4))
            for name, table in self.tables.items()
        }
        self.dealer = NoiseDealer(KEYS[DEALER], Replay(4), separation="confined", sites=SITES)
        public = {name: key.public for name, key in KEYS.items()}
        self.dealer.pin(public)
        answers: dict[str, Answer] = {DEALER: self.dealer.answer}
        for name, site in self.sites.items():
            site.pin(public)
            answers[name] = site.answer
        self.engine = OwnedEngine({name: self.desk(name, answer) for name, answer in answers.items()})
        call = Call(job="job", study="d" * 64, identity=COORDINATOR, sites=public)
        self.line = CarriedTransport(
            SITES, self.engine, call=call, status=DeliveryStatus(EVERYBODY), timing=QUICK, dealer=DEALER
        )

    @staticmethod
    def desk(name: str, answer: Answer) -> RequestHandler:
        return RequestHandler(JobBinding("job", "d" * 64, name, COORDINATOR.public, KEYS[name]), lambda: answer)

    def run(self, n_releases: int = 1) -> Federation:
        self.line.gather()
        federation = Federation(self.line, protocol=Dealer(n_colluding=0, dealer=DEALER))
        private = federation.allow(1.0, 1e-5, shares=(1 / n_releases,) * n_releases)
        for _ in range(n_releases):
            private.mean(second_moment(federation.facts))
        self.guarantee = private.guarantee()
        return federation

    def charges(self) -> list[int]:
        return [len(site.ledger.charges) for site in self.sites.values()]


def body_of(name: str, reply: bytes) -> m.FromSite:
    return decode_from_site(decode_reply(reply, KEYS[name].public)[1])[1]


def test_a_study_runs_and_its_guarantee_names_the_dealer() -> None:
    stage = Stage()
    federation = stage.run()
    assert federation.separation[DEALER] == "confined"
    assert any(f"noise dealer {DEALER} is honest" in text for text in stage.guarantee.assumptions)
    assert any(text.startswith(f"at {DEALER}: ") for text in stage.guarantee.assumptions)
    assert stage.charges() == [1, 1, 1]


def test_what_crosses_the_engine_tells_nothing_of_the_noise() -> None:
    """Each share is found at its site, and nowhere in what the engine carried; each box opens at one site alone."""
    stage = Stage()
    keys, shares = {}, {}
    honest = stage.dealer._shares
    stage.dealer._shares = lambda *args: shares.setdefault("dealt", honest(*args))  # type: ignore[method-assign]
    for name, site in stage.sites.items():
        guard = site._guard
        site._guard = lambda *args, name=name, guard=guard: keys.setdefault(name, guard(*args))  # type: ignore[method-assign]
    stage.run()
    carried = b"".join(frame + reply for _, frame, reply in stage.engine.crossed)
    for share in shares["dealt"].values():
        assert share.astype("<i8").tobytes()[:24] not in carried
        assert share.astype(">i8").tobytes()[:24] not in carried
    dealt = next(reply for site, _, reply in stage.engine.crossed if isinstance(body_of(site, reply), m.Dealt))
    boxes = body_of(DEALER, dealt).boxes
    terms = next(iter(keys.values())).terms
    asked = [m.decode_to_site(bytes(split(frame)[1]))[1] for site, frame, _ in stage.engine.crossed if site == DEALER]
    request = next(message.request for message in asked if isinstance(message, m.Deal))
    for name in SITES:
        context = box_context(terms.digest(), 0, request, name, SITES)
        opened = keys[name].role._kept_key().open(parts_of(boxes[name])[2], context)
        assert opened[8 * len(SITES) + PAD_BYTES :] == shares["dealt"][name].astype("<i8").tobytes()
        for other in set(SITES) - {name}:
            with pytest.raises(ProtocolError, match="could not be opened"):
                keys[other].role._kept_key().open(parts_of(boxes[name])[2], context)


def own_boxes(stage: Stage, frame: bytes) -> m.Dealt:
    """Boxes that an attacker makes: sealed for the sites' own keys, with noise of its choice and its own signature."""
    deal = m.decode_to_site(bytes(split(frame)[1]))[1]
    assert isinstance(deal, m.Deal)
    scales = np.array([deal.shared_steps[site] for site in SITES], dtype="<f8").tobytes()
    contexts = {site: box_context(deal.terms, deal.release, deal.request, site, SITES) for site in SITES}
    zero = bytes(PAD_BYTES) + bytes(8 * deal.size)
    sealed = {site: seal(deal.receivers[site][SIGNATURE_BYTES:], scales + zero, contexts[site]) for site in SITES}
    root = root_of(sealed)
    return m.Dealt(boxes={site: signed_box(ATTACKER, contexts[site], root, sealed[site]) for site in SITES})


def in_place(stage: Stage, signer: Identity) -> Callable[[str, bytes, bytes], bytes | None]:
    """Replace the dealer's answer by the attacker's boxes in a frame that somebody signed."""

    def attack(site: str, frame: bytes, reply: bytes) -> bytes:
        header, body = decode_reply(reply, KEYS[site].public)
        allowance, message = decode_from_site(body)
        if not isinstance(message, m.Dealt):
            return reply
        forged = encode(own_boxes(stage, frame), allowance=allowance)
        return signed_reply(Reply(state="ok", number=header.number, job="job", request=header.request), signer, forged)

    return attack


def test_boxes_that_the_engine_makes_are_refused_and_nothing_is_charged() -> None:
    stage = Stage()
    stage.engine.attack = in_place(stage, ATTACKER)
    with pytest.raises(ProtocolError, match=f"noise dealer {DEALER} did not answer"):
        stage.run()
    assert stage.charges() == [0, 0, 0]


def test_a_coordinator_that_makes_boxes_itself_is_refused_by_the_sites() -> None:
    """Even one that holds the dealer's line: boxes need the signature of the identity that the steward pinned."""
    stage = Stage()
    stage.engine.attack = in_place(stage, KEYS[DEALER])
    with pytest.raises(ProtocolError, match="not signed by the pinned dealer"):
        stage.run()
    assert stage.charges() == [0, 0, 0]


def test_an_earlier_answer_of_the_dealer_does_not_serve_again() -> None:
    stage, kept = Stage(), []

    def replayed(site: str, frame: bytes, reply: bytes) -> bytes:
        if site != DEALER or not isinstance(body_of(site, reply), m.Dealt):
            return reply
        kept.append(reply)
        return kept[0]

    stage.engine.attack = replayed
    with pytest.raises(ProtocolError, match=f"noise dealer {DEALER} did not answer"):
        stage.run(2)
    assert len(kept) == 2
    assert [site.ledger._next for site in stage.sites.values()] == [
        dict.fromkeys(site.ledger._next, 1) for site in stage.sites.values()
    ]


@pytest.mark.parametrize("who", EVERYBODY)
def test_boxes_that_are_dropped_end_the_release_uncharged(who: str) -> None:
    stage = Stage()

    def dropped(site: str, frame: bytes, reply: bytes) -> bytes | None:
        is_box = isinstance(body_of(site, reply), m.Dealt | m.DealtChecked)
        return None if site == who and is_box else reply

    stage.engine.attack = dropped
    with pytest.raises(DpcapeError, match=r"^The (release|run) failed because .*(did not answer|took their noise)"):
        stage.run()
    assert stage.charges() == [0, 0, 0]
