"""The sampler is exact: checked word by word against integer arithmetic, not by statistics."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpcape.core import noise

SCALES = [1.0, 1.5, 7.3, 31.999, 32.0, 100.0, 2.0**24, 1.999 * 2**30, 2.0**50]
scales = st.one_of(st.sampled_from(SCALES), st.floats(1.0, 200.0), st.floats(1.0, 2.0**50))
words = st.integers(0, 2**64 - 1)


class Scripted:
    """A stream of given words, then of one word for ever; without one it notices that more are asked for."""

    def __init__(self, *words: int, then: int | None = None) -> None:
        self.words, self.then = list(words), then

    def uniform_words(self, n_words: int) -> np.ndarray:
        taken, self.words = self.words[:n_words], self.words[n_words:]
        if self.then is not None:
            taken += [self.then] * (n_words - len(taken))
        assert len(taken) == n_words, "the script has no more words"
        return np.array(taken, dtype=np.uint64)


def decide(envelope, value: int, block: int, word: int, *, then: int | None = None) -> bool:
    """Ask the product for one decision."""
    if word < int(envelope.sure[block]):
        return True
    arrays = (np.array([value]), np.array([block], dtype=np.uint16), np.array([word], dtype=np.uint64))
    return bool(noise._settle(envelope, *arrays, Scripted(then=then))[0])


def probability(exact, envelope, magnitude: int, block: int) -> Fraction:
    """The acceptance probability in units of 2^-64, correct to hundreds of bits."""
    low, high = (
        Fraction(envelope.height, int(envelope.counts[block])) * bound * 2**64
        for bound in exact.bell(magnitude, envelope.scale)
    )
    assert low // 1 == high // 1
    return low


def threshold(exact, envelope, magnitude: int, block: int) -> int:
    """Number of 64-bit words that lie wholly below the acceptance probability."""
    return probability(exact, envelope, magnitude, block) // 1


def test_the_reference_exponential_agrees_with_known_digits(exact):
    low, high = exact.exponential(Fraction(1))
    # 1/e, OEIS A068985.
    digits = Fraction(36787944117144232159552377016146086744581113103176, 10**50)
    assert digits - Fraction(1, 10**50) < low < high < digits + Fraction(1, 10**50)
    low, high = exact.exponential(Fraction(512))
    assert float(low) == pytest.approx(np.exp(-512.0), rel=1e-14)


@pytest.mark.parametrize("scale", SCALES)
def test_the_histogram_lies_above_the_curve(exact, scale):
    envelope = noise._envelope(scale)
    assert envelope.counts.sum() == noise._N_CELLS == len(envelope.block_of_cell)
    assert np.array_equal(np.bincount(envelope.block_of_cell, minlength=envelope.counts.size), envelope.counts)
    assert envelope.limit == Fraction(scale) * noise.CUTOFF // 1
    assert envelope.counts.size << envelope.width_bits > envelope.limit
    for block in range(0, envelope.counts.size, 1 + envelope.counts.size // 200):
        _, high = exact.bell(block << envelope.width_bits, scale)
        assert envelope.counts[block] >= envelope.height * high


@pytest.mark.parametrize("scale", SCALES)
def test_every_integer_has_its_codes(monkeypatch, scale):
    """Sign, cell and offset reach each integer of block j by exactly counts[j] codes, without gaps."""
    envelope = noise._envelope(scale)
    monkeypatch.setattr(noise, "_settle", lambda envelope, values, *_: np.abs(values) <= envelope.limit)
    n_blocks, width = envelope.counts.size, 1 << envelope.width_bits
    offsets = sorted(offset for offset in {0, 1, width // 3, width - 1} if offset < width)
    seen: dict[int, int] = {}
    cells = np.arange(noise._N_CELLS, dtype=np.uint64) << np.uint64(noise._CELL_SHIFT)
    for offset in offsets:
        for sign in (0, 1):
            proposals = cells | np.uint64(sign << 63) | np.uint64(offset)
            script = Scripted(*proposals.tolist(), then=0)
            values, counts = np.unique(noise._accepted(envelope, cells.size, script), return_counts=True)
            seen.update(zip(values.tolist(), counts.tolist(), strict=True))
    expected = {}
    for block in range(n_blocks):
        for offset in offsets:
            magnitude = block * width + offset
            expected[magnitude] = expected[-1 - magnitude] = int(envelope.counts[block])
    assert seen == {value: count for value, count in expected.items() if abs(value) <= envelope.limit}


@pytest.mark.parametrize("scale", [1.0, 1.5, 7.3, 31.999])
def test_the_law_is_the_discrete_gaussian(exact, scale):
    """Codes times acceptance threshold, over all integers: the law of a draw, to the last of 64 bits."""
    envelope = noise._envelope(scale)
    for magnitude in range(0, envelope.limit + 1, 1 + envelope.limit // 100):
        for value, block in ((magnitude, magnitude), (-magnitude, magnitude - 1)):
            if block < 0:
                continue
            edge = threshold(exact, envelope, magnitude, block)
            # The last word that lies wholly below is kept, the first that lies wholly above is not.
            assert edge == 0 or decide(envelope, value, block, edge - 1)
            assert edge + 1 >= 2**64 or not decide(envelope, value, block, edge + 1)
            # In between, the next word decides: all zeros is below, all ones above.
            within = probability(exact, envelope, magnitude, block) > edge
            assert decide(envelope, value, block, edge, then=0) == within
            assert not decide(envelope, value, block, edge, then=2**64 - 1)


@settings(max_examples=300, deadline=None)
@given(scale=scales, sign=st.booleans(), place=words, distance=st.integers(-(2**41), 2**41))
def test_decisions_near_the_edge_are_exact(exact, scale, sign, place, distance):
    """Words so close to the threshold that floating point cannot tell are still decided rightly."""
    envelope = noise._envelope(scale)
    magnitude = place % (envelope.limit + 1)
    code = magnitude - 1 if sign and magnitude else magnitude
    block = code >> envelope.width_bits
    edge = threshold(exact, envelope, magnitude, block)
    word = min(max(edge + distance, 0), 2**64 - 1)
    value = -magnitude if sign else magnitude
    if word == edge:
        within = probability(exact, envelope, magnitude, block) > edge
        assert decide(envelope, value, block, word, then=0) == within
        assert not decide(envelope, value, block, word, then=2**64 - 1)
    else:
        assert decide(envelope, value, block, word) == (word < edge)


@settings(max_examples=100, deadline=None)
@given(scale=scales, pairs=st.lists(st.tuples(words, words), min_size=1, max_size=20))
@example(scale=1.0, pairs=[(9_210_987_137_879_506_944, 0)])
def test_a_batch_equals_its_reading_word_by_word(exact, scale, pairs):
    envelope = noise._envelope(scale)
    proposals, uniforms = zip(*pairs, strict=True)
    expected = []
    for proposal, uniform in pairs:
        cell = (proposal >> 49) % 2**14
        block = int(np.searchsorted(np.cumsum(envelope.counts), cell, side="right"))
        code = (block << envelope.width_bits) + proposal % (1 << envelope.width_bits)
        value = -1 - code if proposal >> 63 else code
        if abs(value) <= envelope.limit and uniform < threshold(exact, envelope, abs(value), block):
            expected.append(value)
    # A word at its threshold asks for more digits, the largest of which put it above.
    script = Scripted(*proposals, *uniforms, then=2**64 - 1)
    assert noise._accepted(envelope, len(pairs), script).tolist() == expected


@pytest.fixture
def _always_slow(monkeypatch):
    monkeypatch.setattr(noise, "_GUARD", 2.0)
    noise._envelope.cache_clear()
    yield
    noise._envelope.cache_clear()


@pytest.fixture
def slow_calls(monkeypatch):
    calls: list[int] = []
    settle_exactly = noise._settle_exactly

    def counted(envelope, magnitude, block, word, stream):
        calls.append(magnitude)
        return settle_exactly(envelope, magnitude, block, word, stream)

    monkeypatch.setattr(noise, "_settle_exactly", counted)
    return calls


FAST = {scale: noise.Replay(11).integer_gaussian(scale, 3000) for scale in (1.5, 7.3, 2.0**30)}


@pytest.mark.parametrize("scale", FAST)
@pytest.mark.usefixtures("_always_slow")
def test_without_floating_point_the_draws_are_the_same(scale, slow_calls):
    draws = noise.Replay(11).integer_gaussian(scale, 3000)
    assert len(slow_calls) >= 3000  # every proposal was settled exactly
    assert np.array_equal(draws, FAST[scale])


@pytest.mark.usefixtures("_always_slow")
def test_the_slow_path_alone_has_the_right_law(distribution):
    draws = noise.Replay(12).integer_gaussian(3.7, 20_000)
    assert distribution.counts_p_value(draws, 3.7) > distribution.ALPHA
    assert distribution.counts_p_value(draws, 3.7 * 1.1) < distribution.ALPHA
    assert distribution.counts_p_value(draws, 3.7 * 0.9) < distribution.ALPHA


def test_an_inaccurate_exponential_changes_nothing(monkeypatch, exact):
    """The guard band forgives a relative error of 2^-26, far above what any numpy has."""
    for sign in (-1.0, 1.0):
        true_exp = np.exp
        with monkeypatch.context() as patch:
            patch.setattr(np, "exp", lambda x, e=true_exp, s=sign: e(x) * (1.0 + s * 2.0**-26))
            noise._envelope.cache_clear()
            envelope = noise._envelope(2.0**30)
            for magnitude in range(0, envelope.limit, envelope.limit // 97):
                block = magnitude >> envelope.width_bits
                edge = threshold(exact, envelope, magnitude, block)
                assert edge < 2**30 or decide(envelope, magnitude, block, edge - 2**30)
                assert not decide(envelope, magnitude, block, edge + 2**30)
        noise._envelope.cache_clear()


def test_numpy_exponential_is_as_accurate_as_the_proof_asks(exact):
    """docs/noise.md section 1.3 allows a relative error of 2^-42."""
    exponents = np.linspace(0.0, 520.0, 400) + 1e-3
    for exponent, value in zip(exponents, np.exp(-exponents), strict=True):
        low, _ = exact.exponential(Fraction(float(exponent)))
        assert abs(Fraction(float(value)) / low - 1) < Fraction(1, 2**42)


def test_batches_are_joined_in_order(monkeypatch):
    """A draw that needs several passes is the accepted values of the passes, one after the other."""
    monkeypatch.setattr(noise, "_CHUNK", 64)
    source = noise.Replay(3)
    draws = source.integer_gaussian(1e6, 500)
    stream, envelope = noise._Stream(noise._derived(source._key, b"draw1")), noise._envelope(1e6)
    passes = [noise._accepted(envelope, 64, stream) for _ in range(6)]
    joined = np.concatenate(passes)
    assert 300 < joined.size < 384
    assert np.array_equal(draws[: joined.size], joined)


@pytest.mark.parametrize("scale", SCALES)
def test_draws_stay_within_the_cut_off(scale):
    draws = noise.Replay(4).integer_gaussian(scale, 20_000)
    assert draws.dtype == np.int64
    assert np.abs(draws).max() <= noise.CUTOFF * scale


def test_the_cut_off_itself_is_reachable(exact):
    """The outermost integer is kept for small words and the next one never."""
    envelope = noise._envelope(1.5)
    edge = threshold(exact, envelope, 48, 48)
    assert envelope.limit == 48
    assert edge == 0  # its probability is below 2^-64: one word alone can never keep it
    assert decide(envelope, 48, 48, 0, then=0)
    assert not decide(envelope, -49, 48, 0, then=0)
