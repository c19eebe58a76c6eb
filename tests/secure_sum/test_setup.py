"""Set-up of a session: who is let in.

Checklist
---------
* own key replaced, two sites' keys swapped, duplicated key, missing site;
  unknown or unsigned key; other terms
* X25519 zero key, points of small order, wrong length
* old session's hello; begin twice; calls before begin
* configurations under which two survivor sets, or one honest value, could be opened
"""

from __future__ import annotations

import itertools

import msgspec
import pytest

from dpcape.core.errors import InvalidParameter, ProtocolError
from dpcape.core.secure_sum.config import Config
from dpcape.core.secure_sum.identity import Identity
from dpcape.core.secure_sum.messages import Hello
from dpcape.core.secure_sum.session import Session
from dpcape.core.secure_sum.transcript import digest

from .consortium import Consortium, change, flipped

# Points of small order on Curve25519 and its twist: RFC 7748, section 6.1, lets one reject what they give.
SMALL_ORDER = [
    bytes(32),
    b"\x01" + bytes(31),
    bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
    bytes.fromhex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
    bytes.fromhex("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
    bytes.fromhex("edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
    bytes.fromhex("eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
]


def resigned(sites: Consortium, hello: Hello) -> Hello:
    """The hello, signed anew by its sender's identity."""
    body = digest("hello", hello.sender, hello.nonce, hello.key, sites.config.digest())
    return change(hello, signature=sites.identities[hello.sender].sign(body))


def begin(sites: Consortium, hellos: list[Hello]) -> None:
    sites.sites["site000"].begin(hellos)


class TestHellos:
    def test_all_sites_reach_one_session(self) -> None:
        sites = Consortium(5).begin()
        assert len({site.session_id for site in sites.sites.values()}) == 1
        assert len({site.session_words for site in sites.sites.values()}) == 1
        assert Consortium(5).begin().sites["site000"].session_id != sites.sites["site000"].session_id

    def test_the_order_of_hellos_does_not_matter(self) -> None:
        sites = Consortium(3)
        for site, hellos in zip(sites.sites.values(), itertools.permutations(sites.hellos), strict=False):
            site.begin(list(hellos))
        assert len({site.session_id for site in sites.sites.values()}) == 1

    def test_missing_duplicate_or_strange_senders(self) -> None:
        for tamper in (
            lambda h: h[:3],
            lambda h: [*h, h[3]],
            lambda h: [*h[:3], h[2]],
            lambda h: [*h[:3], change(h[3], sender="stranger")],
            lambda h: [*h[:3], change(h[3], sender=3)],
            lambda h: [],
        ):
            sites = Consortium(4)
            with pytest.raises(ProtocolError, match="exactly one hello from each agreed site"):
                begin(sites, tamper(sites.hellos))

    def test_other_messages(self) -> None:
        sites = Consortium(4)
        with pytest.raises(ProtocolError, match="must be Hello messages"):
            begin(sites, [*sites.hellos[:3], None])

    def test_unsigned_altered_or_swapped(self) -> None:
        for tamper in (
            lambda h: change(h[3], signature=b""),
            lambda h: change(h[3], signature=None),
            lambda h: change(h[3], signature=flipped(h[3].signature)),
            lambda h: change(h[3], key=flipped(h[3].key)),
            lambda h: change(h[3], nonce=flipped(h[3].nonce)),
            lambda h: change(h[2], sender="site003"),
            lambda h: change(h[3], key=h[2].key),
        ):
            sites = Consortium(4)
            with pytest.raises(ProtocolError, match=r"site003 .* pinned identity .* Compare fingerprints"):
                begin(sites, [*sites.hellos[:3], tamper(sites.hellos)])

    def test_two_keys_swapped(self) -> None:
        sites = Consortium(4)
        first, second, third, fourth = sites.hellos
        with pytest.raises(ProtocolError, match="signed by its pinned identity"):
            begin(sites, [first, second, change(third, key=fourth.key), change(fourth, key=third.key)])

    def test_own_hello_replaced(self) -> None:
        sites = Consortium(4)
        other = sites.session("site000").hello()
        with pytest.raises(ProtocolError, match="own hello was changed"):
            begin(sites, [other, *sites.hellos[1:]])

    def test_a_key_under_two_names(self) -> None:
        sites = Consortium(4)
        copied = resigned(sites, change(sites.hellos[3], key=sites.hellos[2].key))
        with pytest.raises(ProtocolError, match="session keys must be distinct"):
            begin(sites, [*sites.hellos[:3], copied])

    @pytest.mark.parametrize("field", ["key", "nonce"])
    @pytest.mark.parametrize("value", [b"", b"x", bytes(33), None, "text"])
    def test_wrong_lengths(self, field: str, value: object) -> None:
        sites = Consortium(4)
        with pytest.raises(ProtocolError, match="must have a nonce"):
            begin(sites, [*sites.hellos[:3], change(sites.hellos[3], **{field: value})])

    @pytest.mark.parametrize("point", SMALL_ORDER)
    def test_points_of_small_order(self, point: bytes) -> None:
        sites = Consortium(4)
        with pytest.raises(ProtocolError, match="key of site site003 must be a valid X25519 key"):
            begin(sites, [*sites.hellos[:3], resigned(sites, change(sites.hellos[3], key=point))])

    def test_another_configuration(self) -> None:
        sites = Consortium(4)
        other = msgspec.structs.replace(sites.config, purpose=b"another study")
        session = Session("site003", sites.identities["site003"], pinned=sites.pinned, config=other)
        with pytest.raises(ProtocolError, match="for this configuration"):
            begin(sites, [*sites.hellos[:3], session.hello()])

    def test_an_unknown_identity(self) -> None:
        sites = Consortium(4)
        impostor = Identity.generate()
        pinned = {**sites.pinned, "site003": impostor.public}
        session = Session("site003", impostor, pinned=pinned, config=sites.config)
        with pytest.raises(ProtocolError, match=r"site003 .* pinned identity .* Compare fingerprints"):
            begin(sites, [*sites.hellos[:3], session.hello()])

    def test_one_try(self) -> None:
        sites = Consortium(4)
        with pytest.raises(ProtocolError, match="exactly one hello"):
            begin(sites, [])
        with pytest.raises(ProtocolError, match=r"must begin once.* Make a new session"):
            begin(sites, sites.hellos)
        assert sites.sites["site000"].session_id == b""
        assert sites.sites["site000"].session_words == ""

    def test_a_stale_hello_of_a_peer_gives_no_common_mask(self) -> None:
        sites = Consortium(3)
        stale = sites.hellos[2]
        sites.sites["site002"] = sites.session("site002")
        fresh = [*sites.hellos[:2], sites.sites["site002"].hello()]
        sites.sites["site000"].begin([*sites.hellos[:2], stale])
        for name in ("site001", "site002"):
            sites.sites[name].begin(fresh)
        vectors = sites.draws(50)
        assert not (sites.retry(vectors) == sum(vectors.values())).any()

    def test_calls_before_begin(self) -> None:
        sites = Consortium(3)
        site = sites.sites["site000"]
        for call in (
            lambda: site.offer(epoch=0, n_rounds=1),
            lambda: site.accept([]),
            lambda: site.retry_mask(round=0, attempt=0, roster=sites.names, vector=sites.draw()),
            lambda: site.recover_mask(round=0, vector=sites.draw()),
            lambda: site.self_mask(round=0, vector=sites.draw()),
        ):
            with pytest.raises(ProtocolError, match="session has not begun"):
                call()


class TestPinned:
    def test_incomplete_repeated_or_foreign(self) -> None:
        sites = Consortium(3)
        own = sites.identities["site000"]
        short = {name: key for name, key in sites.pinned.items() if name != "site002"}
        for pinned, reason in (
            (short, "site002 missing"),
            ({**sites.pinned, "site002": sites.pinned["site001"]}, "one key under two names"),
            ({**sites.pinned, "site000": Identity.generate().public}, "own public key"),
            ({**sites.pinned, "site002": b"short"}, "32 bytes"),
            ({**sites.pinned, "site002": None}, "32 bytes"),
        ):
            with pytest.raises(InvalidParameter, match=reason):
                Session("site000", own, pinned=pinned, config=sites.config)
        with pytest.raises(InvalidParameter, match="name must be one of"):
            Session("stranger", own, pinned=sites.pinned, config=sites.config)


def config(n_sites: int, *, threshold: int, n_colluding: int) -> Config:
    sites = tuple(f"site{k:03d}" for k in range(n_sites))
    return Config(sites=sites, threshold=threshold, n_colluding=n_colluding, purpose=b"")


class TestConfig:
    # docs/secure_sum.md, the conditions of a configuration.
    @pytest.mark.parametrize(
        ("n_sites", "n_colluding", "threshold", "floor"),
        [(3, 0, 2, 3), (4, 1, 3, 3), (10, 3, 7, 7), (25, 8, 17, 17), (50, 16, 34, 34), (200, 66, 134, 134)],
    )
    def test_least_thresholds(self, n_sites: int, n_colluding: int, threshold: int, floor: int) -> None:
        assert config(n_sites, threshold=threshold, n_colluding=n_colluding).floor == floor
        with pytest.raises(InvalidParameter, match=f"Raise threshold to {threshold} or more"):
            config(n_sites, threshold=threshold - 1, n_colluding=n_colluding)

    def test_every_accepted_setting_is_safe(self) -> None:
        for n_sites, threshold, n_colluding in itertools.product(range(1, 9), range(10), range(9)):
            n_honest = n_sites - n_colluding
            # Two disjoint groups of honest signers, each enough with the colluders' help, must not exist.
            two_sets = 2 * max(threshold - n_colluding, 0) <= n_honest
            alone = threshold - n_colluding < 2
            proper = n_sites >= 3 and threshold <= n_sites and not two_sets and not alone
            if proper:
                config(n_sites, threshold=threshold, n_colluding=n_colluding)
            else:
                with pytest.raises(InvalidParameter):
                    config(n_sites, threshold=threshold, n_colluding=n_colluding)

    @pytest.mark.parametrize(
        "sites",
        [
            ("b", "a", "c"), ("a", "b", "b"), ("a", "b"), (), ("", "a", "b"), ("a", "b", "c\n"),
            ("a", "b", "\ud800"), ("a", "b", "c" * 201), ["a", "b", "c"], ("a", "b", 3), None,
        ],
    )  # fmt: skip
    def test_improper_site_lists(self, sites: object) -> None:
        with pytest.raises(InvalidParameter, match="site"):
            Config(sites=sites, threshold=2, n_colluding=0, purpose=b"")

    @pytest.mark.parametrize("change", [{"threshold": 2.0}, {"threshold": True}, {"n_colluding": -1}, {"purpose": ""}])
    def test_improper_types(self, change: dict[str, object]) -> None:
        fields = {"sites": ("a", "b", "c"), "threshold": 3, "n_colluding": 0, "purpose": b""} | change
        with pytest.raises(InvalidParameter):
            Config(**fields)

    def test_every_term_is_in_the_digest(self) -> None:
        base = config(5, threshold=4, n_colluding=1)
        others = [
            config(6, threshold=4, n_colluding=1),
            config(5, threshold=5, n_colluding=1),
            config(5, threshold=4, n_colluding=2),
            msgspec.structs.replace(base, purpose=b"x"),
        ]
        assert len({c.digest() for c in (base, *others)}) == 5

    def test_decoding_checks_too(self) -> None:
        data = msgspec.msgpack.encode(config(4, threshold=3, n_colluding=0))
        assert msgspec.msgpack.decode(data, type=Config) == config(4, threshold=3, n_colluding=0)
        bad = msgspec.msgpack.encode({"sites": ["a", "b"], "threshold": 2, "n_colluding": 0, "purpose": b""})
        with pytest.raises(msgspec.ValidationError, match="at least 3"):
            msgspec.msgpack.decode(bad, type=Config)
