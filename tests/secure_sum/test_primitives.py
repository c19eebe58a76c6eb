"""Published vectors, second implementations, statistics of the primitives.

Checklist
---------
* HKDF against RFC 5869; AES-256 against FIPS 197 / SP 800-38A; X25519 against RFC 7748
* keystream against single-block AES and against GCM's counter mode, around the piece length
* every one of the 256 key bits matters; the top value is reachable; masked bytes are uniform (with teeth)
* no numpy.random and no random module in the package
"""

from __future__ import annotations

import ast
import hashlib
import pathlib

import numpy as np
import pytest
import scipy.stats
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

import dpcape.core.secure_sum
from dpcape.core.secure_sum import transcript
from dpcape.core.secure_sum.keystream import expand, extract, masked
from dpcape.core.secure_sum.links import agree
from dpcape.core.secure_sum.transcript import digest, equal, grouped

KEY = bytes(range(32))
ALPHA = 1e-6


def keystream(key: bytes, size: int) -> NDArray[np.uint64]:
    return masked(np.zeros(size, dtype=np.uint64), plus=[key])


def test_hkdf_rfc_5869() -> None:
    # Appendix A, cases 1 and 2; the first 32 bytes of the output do not depend on its length.
    first = extract(
        bytes.fromhex("0b" * 22),
        salt=bytes.fromhex("000102030405060708090a0b0c"),
        context=bytes.fromhex("f0f1f2f3f4f5f6f7f8f9"),
    )
    assert first.hex() == "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"
    second = extract(bytes(range(80)), salt=bytes(range(0x60, 0xB0)), context=bytes(range(0xB0, 0x100)))
    assert second.hex() == "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c"
    pseudo_random_key = bytes.fromhex("077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5")
    assert expand(pseudo_random_key, bytes.fromhex("f0f1f2f3f4f5f6f7f8f9")) == first


def test_aes_256_published_blocks() -> None:
    # FIPS 197, appendix C.3; SP 800-38A, F.5.5; and the zero key on the zero block, which is our first block.
    key = bytes(range(32))
    block = bytes.fromhex("00112233445566778899aabbccddeeff")
    encryptor = Cipher(algorithms.AES256(key), modes.ECB()).encryptor()
    assert encryptor.update(block).hex() == "8ea2b7ca516745bfeafc49904b496089"
    counter = Cipher(
        algorithms.AES256(bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")),
        modes.CTR(bytes.fromhex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff")),
    ).encryptor()
    plain = bytes.fromhex("6bc1bee22e409f96e93d7e117393172a")
    assert counter.update(plain).hex() == "601ec313775789a5b7a7f504bbf3d228"
    assert keystream(bytes(32), 2).tobytes().hex() == "dc95c078a2408989ad48a21492842087"


@pytest.mark.parametrize("size", [0, 1, 2, 3, 32_767, 32_768, 32_769, 65_536, 65_537])
def test_keystream_equals_two_other_implementations(size: int) -> None:
    n_blocks = (size + 1) // 2
    counters = b"".join(k.to_bytes(16, "big") for k in range(n_blocks))
    blocks = Cipher(algorithms.AES256(KEY), modes.ECB()).encryptor().update(counters)
    words = keystream(KEY, size)
    assert words.tobytes() == blocks[: 8 * size]
    # GCM counts from block 2 when its nonce is zero.
    galois = Cipher(algorithms.AES256(KEY), modes.GCM(bytes(12))).encryptor()
    assert galois.update(bytes(max(8 * size - 32, 0))) == words.tobytes()[32:]


def test_x25519_rfc_7748() -> None:
    # Section 6.1.
    alice = X25519PrivateKey.from_private_bytes(
        bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
    )
    bob = bytes.fromhex("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f")
    shared = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"
    assert agree(alice, bob, peer="bob").hex() == shared


def test_plus_and_minus_cancel() -> None:
    vector = np.arange(100_000, dtype=np.uint64)
    other = digest("other")
    np.testing.assert_array_equal(masked(masked(vector, plus=[KEY, other]), minus=[other, KEY]), vector)
    np.testing.assert_array_equal(masked(vector, plus=[KEY], minus=[KEY]), vector)


def test_every_key_bit_changes_the_mask() -> None:
    seen = {keystream(KEY, 4).tobytes()}
    for bit in range(256):
        changed = (int.from_bytes(KEY, "big") ^ 1 << bit).to_bytes(32, "big")
        seen.add(keystream(changed, 4).tobytes())
    assert len(seen) == 257


def test_the_whole_range_of_words_is_reachable() -> None:
    words = keystream(KEY, 1_000_000)
    # Seen top and bottom 16 bits: each pattern is missing with probability exp(-15) ~ 2e-7 for a fixed key.
    for part in (words >> np.uint64(48), words & np.uint64(0xFFFF)):
        assert {0, 0xFFFF} <= set(part.tolist())


def uniform(words: NDArray[np.uint64]) -> bool:
    """Chi-square test of all bytes; a uniform vector is rejected with probability ALPHA."""
    counts = np.bincount(np.frombuffer(words.tobytes(), dtype=np.uint8), minlength=256)
    return bool(scipy.stats.chisquare(counts).pvalue > ALPHA)


def test_masked_bytes_are_uniform_whatever_the_input() -> None:
    for value in (0, 1, 2**63, 2**64 - 1):
        vector = np.full(200_000, value, dtype=np.uint64)
        assert uniform(masked(vector, plus=[KEY]))
        assert uniform(masked(vector, plus=[digest("a")], minus=[digest("b")]))
    # Teeth: 31-bit words, and words that never take their top byte value.
    assert not uniform(keystream(KEY, 200_000) >> np.uint64(1))
    assert not uniform(keystream(KEY, 200_000) & ~np.uint64(1 << 56))


def test_digest_is_injective_in_its_parts() -> None:
    lists: list[tuple[bytes | str | int, ...]] = [
        (), (b"",), ("",), (0,), (b"ab",), (b"a", b"b"), (b"", b"ab"), ("ab",), ("a", "b"),
        (1,), (b"\1",), ("\1",), ((1).to_bytes(8, "big"),),
    ]  # fmt: skip
    variants = [*(digest("label", *parts) for parts in lists), digest("labela", "b")]
    assert len(set(variants)) == len(variants)


def test_comparison_and_grouping() -> None:
    assert equal(b"abc", b"abc")
    assert not equal(b"abc", b"abd")
    assert grouped(bytes(range(32))) == "0001 0203 0405 0607 0809 0a0b 0c0d 0e0f"


def test_no_other_randomness_in_the_package() -> None:
    folder = pathlib.Path(dpcape.core.secure_sum.__file__).parent
    files = sorted(folder.glob("*.py"))
    assert len(files) > 10
    for path in files:
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [getattr(node, "module", None), *(alias.name for alias in node.names)]
                assert not {"random", "numpy.random"} & set(names), path.name
            if isinstance(node, ast.Attribute):
                assert node.attr not in {"random", "default_rng", "RandomState"}, path.name


def test_texts_of_any_length_have_digests_and_long_ones_are_not_remembered() -> None:
    before = transcript._text.cache_info().currsize
    long = [f"{number}" * 1000 for number in range(20)]
    assert len({transcript.digest("label", text) for text in long}) == len(long)
    assert transcript._text.cache_info().currsize <= before + 1
    start = b"s" + len(transcript.VERSION).to_bytes(8, "big") + transcript.VERSION.encode()
    for text in ("", "lyon", "é" * 300):
        parts = [b"s" + len(part.encode()).to_bytes(8, "big") + part.encode() for part in ("label", text)]
        assert transcript.digest("label", text) == hashlib.sha256(start + b"".join(parts)).digest()
