"""Keys, digests and signed texts of fixed input: a label that is rewritten changes every draw and breaks every session.

A label may look like a module's name (``dpcape.noise`` was both), so that moving files rewrites it. Nothing else would
notice: sites that all derive another key still agree with each other.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from dpcape.core.noise import Replay, _derived
from dpcape.core.protocols.cape import agreement
from dpcape.core.protocols.dealt_noise import answer_of, box_context, key_statement, root_of
from dpcape.core.protocols.protocol import request_digest
from dpcape.core.secure_sum import box, offers
from dpcape.core.secure_sum.certificate_request import request_statement
from dpcape.core.secure_sum.config import Config
from dpcape.core.secure_sum.graph import masking_graph
from dpcape.core.secure_sum.identity import Identity
from dpcape.core.secure_sum.keystream import masked
from dpcape.core.secure_sum.links import Links, _hello_body, _session_id
from dpcape.core.secure_sum.round_keys import acceptance, pair_context, pair_key, reliance, self_key, statement
from dpcape.core.secure_sum.signed_head import SignedHead
from dpcape.site.chain_head import Head, _slot
from dpcape.site.cohorts import RowStore
from dpcape.site.hash_chain import _hash

SOURCE = Path(__file__).parents[2] / "src" / "dpcape"
KEY, OTHER = bytes(range(32)), bytes(range(32, 64))
SITES = ("bern", "kyiv", "lima", "lyon", "oslo", "rome")
CONFIG = Config(sites=SITES, threshold=4, n_colluding=1, purpose=b"pilot")
SPARSE = Config(sites=tuple(f"s{n:02}" for n in range(12)), threshold=10, n_colluding=1, purpose=b"", n_neighbours=6)
LINKS = Links("lyon", config=CONFIG, session_id=OTHER, roots={"oslo": KEY})
PRIVATE, PUBLIC = X25519PrivateKey.from_private_bytes(KEY), offers.public_key(OTHER)
REQUEST = {"release": 1}


def _masks() -> bytes:
    return masked(np.arange(4, dtype=np.uint64), plus=[KEY], minus=[OTHER]).tobytes()


def _draws() -> bytes:
    return Replay(7).child("lyon", 0).integer_gaussian(2.0**40, 4).astype("<i8").tobytes()


VECTORS: dict[str, tuple[Callable[[], bytes], str]] = {
    "noise, derived key": (lambda: _derived(KEY, b"label"), "854ea5676c5f604dc7e36613c0c4a120"),
    "noise, replayed root": (lambda: Replay(7)._key, "90933e8d2ad863c8bf028dd9a38c2887"),
    "noise, draws of a child": (_draws, "120520ff6463f46542cc501903c02be6"),
    "secure sum, fingerprint": (
        lambda: Identity.from_private_bytes(KEY).fingerprint().encode(),
        "7c62b74eadcd4024636a9daaf16e40ef",
    ),
    "secure sum, configuration": (CONFIG.digest, "8e3dff167dc10f856587159d8667cf34"),
    "secure sum, sparse configuration": (SPARSE.digest, "0b27789644d752588cb0a5686a4c97ed"),
    "secure sum, graph": (
        lambda: str(masking_graph(SPARSE, KEY).neighbours("s00")).encode(),
        "bdd60ea7af9cd18fd2256a94a2186c64",
    ),
    "secure sum, hello": (
        lambda: _hello_body("lyon", nonce=KEY, key=OTHER, terms=KEY),
        "5fe14d65dc0a70700f4211781045b124",
    ),
    "secure sum, session": (lambda: _session_id({}, KEY), "5a5535656de9ec6954627b34c3006a61"),
    "secure sum, link": (lambda: LINKS.key("oslo", KEY), "f381884c07e1ffbaea4b95a4d5ef54fa"),
    "secure sum, box of shares": (
        lambda: offers._box_key(LINKS, "oslo", dealer="lyon", receiver="oslo", body=KEY),
        "2886be6a9cdac12ddf7335c09b4782e1",
    ),
    "secure sum, commitment": (
        lambda: offers.commitment(KEY, "lyon", epoch=1, round=2, kind=offers.SUM, seed=OTHER),
        "65cca80ca2f02a63276a66135279edf2",
    ),
    "secure sum, self-mask": (
        lambda: self_key(KEY, offers.SUM, epoch_digest=OTHER, round=1, size=3),
        "f009dabb5f5d0c0a334e017d0bc544c8",
    ),
    "secure sum, cover": (
        lambda: self_key(KEY, offers.COVER, epoch_digest=OTHER, round=1, size=3),
        "d3a59b8814bb2453ef15e4ac9ddc43b9",
    ),
    "secure sum, pair mask": (
        lambda: pair_key(
            PRIVATE,
            PUBLIC,
            names=("lyon", "oslo"),
            context=pair_context(OTHER, round=1, size=3, bound=None),
        ),
        "ac941109f779aa371dcfe92bc83ce66b",
    ),
    "secure sum, acceptance": (lambda: acceptance(KEY, "lyon"), "7fdb4baf69f45afc6d10fcc169cbf1c6"),
    "secure sum, reliance": (
        lambda: reliance(KEY, round=1, context=OTHER, site="lyon"),
        "338105db73204e945f9052672e6a269a",
    ),
    "secure sum, bound self-mask": (
        lambda: self_key(KEY, offers.SUM, epoch_digest=OTHER, round=1, size=3, bound=KEY),
        "1fdea5f1cbbad6e0eda71c092d1e7eb7",
    ),
    "secure sum, survivors": (
        lambda: statement(KEY, round=1, summed=True, covered=False, context=OTHER, survivors=SITES),
        "2119beec1ba2d82edab04d45ac83e250",
    ),
    "secure sum, masks": (_masks, "7375e9e33564f9dba7cc42001cc2b731"),
    "sealed box": (lambda: box._box_key(KEY, OTHER, KEY, b"context"), "198ba8c3547857306c4e8b505ce77a70"),
    "certificate request": (lambda: request_statement("lyon", b"pem"), "f7a95165241eb0d5a5ea260fb90c59aa"),
    "signed head": (
        lambda: SignedHead(site="lyon", length=1, head="ab", accepted=()).statement(),
        "648eafb802f574da7094ab8b62384fb9",
    ),
    "request": (lambda: request_digest(REQUEST), "2fbaaf5c80bf1166580c50fe1861999e"),
    "agreement of cape": (lambda: agreement(REQUEST, 2, SITES, np.arange(3)), "1cc8561514a7943ba1bce133d3c3e95f"),
    "dealt noise, context": (lambda: box_context(KEY, 1, OTHER, "lyon", SITES), "804e68b6c35e1f7f8cb05d08d7877e10"),
    "dealt noise, key": (lambda: key_statement(KEY, "lyon", OTHER), "12f15868d318a64dbf6afca4e8e5df90"),
    "dealt noise, root": (lambda: root_of({"lyon": KEY, "oslo": OTHER}), "e5e4480b3493ab315f7b2b037e4efe9c"),
    "dealt noise, check": (lambda: answer_of(np.arange(5), 3, KEY, OTHER), "4a03f918212e01c4f89841b4ef5c8a8e"),
    "head of a ledger": (lambda: _slot(Head(3, "ab")), "63704ebdaf1a1426927b25e863a8574f"),
    "row of a ledger": (
        lambda: _hash(1, "2026-01-01T00:00:00+00:00", "start", "{}", "0" * 64).encode(),
        "a3c5ac3c550a9cb0482dbeb9b0abf13d",
    ),
    "fingerprints of rows": (
        lambda: RowStore(Path("rows"), Identity.from_private_bytes(KEY))._key,
        "40bd27994cba42d153b31f378a99060e",
    ),
}

# Bytes with a meaning, labels of transcripts, and texts that name a form and its version.
LABELS = [
    "'dpcape box key 2\\x00'",
    "'dpcape dealt 5\\x00'",
    "'dpcape dealt root\\x00'",
    "'dpcape factor release 1'",
    "'dpcape ledger 1'",
    "'dpcape model 1'",
    "'dpcape results 2'",
    "'dpcape schema 1'",
    "'dpcape secure sum 1'",
    "'dpcape site 1'",
    "'dpcape study 1'",
    "b'child'",
    "b'dpcape agreement 3'",
    "b'dpcape dealt check\\x00'",
    "b'dpcape head 1 '",
    "b'dpcape kept releases 1\\n'",
    "b'dpcape replay'",
    "b'dpcape request 1'",
    "b'dpcape row fingerprints 1'",
    "b'dpcape terms 1'",
    "b'dpcape.noise'",
    "b'draw'",
    "digest accepted",
    "digest box",
    "digest box",
    "digest certificate request",
    "digest commitment",
    "digest epoch",
    "digest fingerprint",
    "digest graph",
    "digest hello",
    "digest ledger head",
    "digest offer",
    "digest offer",
    "digest pair",
    "digest pair mask",
    "digest recover",
    "digest relied on",
    "digest retry",
    "digest self",
    "digest session",
    "digest survivors",
]


@pytest.mark.parametrize("name", VECTORS)
def test_derived_bytes_stay_what_they_are(name: str) -> None:
    compute, expected = VECTORS[name]
    assert hashlib.sha256(compute()).hexdigest()[:32] == expected


def test_no_label_is_rewritten() -> None:
    found: Counter[str] = Counter()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            found.update(_labels(node))
    missing = Counter(LABELS) - found
    assert not missing, f"labels that are gone: {sorted(missing)}"


def _labels(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith("digest"):
        return [f"digest {part.value}" for part in node.args[:1] if isinstance(part, ast.Constant)]
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(value, bytes) and value.strip(b"\0\n").isascii() and len(value) > 1 and value.strip(b"\0"):
        return [repr(value)]
    is_form = isinstance(value, str) and value.startswith("dpcape ") and any(c.isdigit() or c == "\0" for c in value)
    return [repr(value)] if is_form and len(value) < 40 else []
