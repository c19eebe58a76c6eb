"""Secure sum: masked vectors beside the bare keystream, a thousand rounds, and Flower's SecAgg+ functions.

One thread, process CPU time, least of interleaved repetitions. Run: ``python benchmarks/secure_sum.py``. Flower is
no dependency of dpcape: without flwr that comparison is left out, and the run says so. To make it, install flwr
beside dpcape's dependencies in an environment of its own.
"""

from __future__ import annotations

import importlib.util
import os
import time
from functools import partial
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray
from timing import cpu_times, show

from dpcape.core.secure_sum.aggregate import RecoverRound
from dpcape.core.secure_sum.aggregator_epoch import AggregatorEpoch
from dpcape.core.secure_sum.config import Config
from dpcape.core.secure_sum.fixed_point import from_ring, to_ring
from dpcape.core.secure_sum.identity import Identity
from dpcape.core.secure_sum.masking import retry_sum
from dpcape.core.secure_sum.session import Session

Words = NDArray[np.uint64]
PIECE_BYTES = 262_144
FRACTIONAL_BITS = 40


class Consortium:
    """Sites and aggregator in one process."""

    def __init__(self, n_sites: int, n_colluding: int) -> None:
        names = tuple(f"site{k:03d}" for k in range(n_sites))
        threshold = (n_sites + n_colluding) // 2 + 1
        self.config = Config(sites=names, threshold=threshold, n_colluding=n_colluding, purpose=b"benchmark")
        identities = {name: Identity.generate() for name in names}
        self.pinned = {name: identity.public for name, identity in identities.items()}
        self.sites = {n: Session(n, identities[n], pinned=self.pinned, config=self.config) for n in names}
        self.hellos = [site.hello() for site in self.sites.values()]

    def begin(self, *, only: str = "") -> Consortium:
        """Check hellos at all sites, or at one only when no other is to be used."""
        for name, site in self.sites.items():
            if not only or name == only:
                site.begin(self.hellos)
        return self

    def epoch(self, number: int, *, n_rounds: int) -> AggregatorEpoch:
        offers = [site.offer(epoch=number, n_rounds=n_rounds) for site in self.sites.values()]
        epoch = AggregatorEpoch(self.config, hellos=self.hellos, offers=offers, pinned=self.pinned)
        for name, site in self.sites.items():
            epoch.confirm(name, site.accept([offer.addressed_to(name) for offer in offers]))
        return epoch

    def retry(self, vectors: dict[str, Words], *, round: int) -> Words:
        roster = self.config.sites
        sent = {
            name: self.sites[name].retry_mask(round=round, attempt=0, roster=roster, vector=vector)
            for name, vector in vectors.items()
        }
        return retry_sum(roster, sent)

    def recover(self, epoch: AggregatorEpoch, vectors: dict[str, Words], *, round: int) -> Words:
        """One RECOVER round of the sites that have a vector."""
        aggregator = RecoverRound(epoch, round=round)
        for name, vector in vectors.items():
            aggregator.add_masked(name, self.sites[name].recover_mask(round=round, vector=vector))
        survivors = aggregator.settle()
        for name in survivors:
            aggregator.add_signature(name, self.sites[name].sign_survivors(round=round, survivors=survivors))
        quorum = aggregator.quorum()
        for name in survivors:
            opening = self.sites[name].open(round=round, survivors=survivors, signatures=quorum)
            aggregator.add_opening(opening)
        return aggregator.total()

    def cape(self, epoch: AggregatorEpoch, vectors: dict[str, Words], *, round: int) -> dict[str, Words]:
        """One CAPE release in which nobody is lost: a RETRY sum, then releases under their self-masks."""
        self.retry(vectors, round=epoch.number * epoch.n_rounds + round)
        aggregator = RecoverRound(epoch, round=round)
        for name, vector in vectors.items():
            aggregator.add_covered(name, self.sites[name].self_mask(round=round, vector=vector))
        survivors = aggregator.settle()
        for name in survivors:
            aggregator.add_signature(name, self.sites[name].sign_survivors(round=round, survivors=survivors))
        quorum = aggregator.quorum()
        for name in survivors:
            opening = self.sites[name].open(round=round, survivors=survivors, signatures=quorum)
            aggregator.add_opening(opening)
        return aggregator.releases()


def words(size: int) -> Words:
    return np.frombuffer(os.urandom(8 * size), dtype=np.uint64)


def pure_keystream(n_streams: int, size: int) -> None:
    """Generate as much AES-256-CTR keystream as masking needs, and do nothing with it."""
    zeros, buffer = memoryview(bytes(PIECE_BYTES)), bytearray(PIECE_BYTES)
    for _ in range(n_streams):
        stream = Cipher(AES256(os.urandom(32)), CTR(bytes(16))).encryptor()
        for start in range(0, 8 * size, PIECE_BYTES):
            stream.update_into(zeros[: 8 * size - start], buffer)


def masked_vectors(size: int = 1_000_000) -> None:
    """One site's masked vector over the keystream it consists of."""
    for n_sites in (10, 50, 200):
        sites = Consortium(n_sites, -(-n_sites // 3) - 1).begin(only="site000")
        site, vector, number = sites.sites["site000"], words(size), iter(range(10**6))

        def retry(site: Session = site, vector: Words = vector, sites: Consortium = sites) -> None:
            site.retry_mask(round=next(number), attempt=0, roster=sites.config.sites, vector=vector)  # noqa: B023

        keystream = partial(pure_keystream, n_sites - 1, size)
        least = cpu_times({"masked": retry, "keystream": keystream}, 9 if n_sites < 200 else 4)
        title = f"RETRY masked vector / keystream, {n_sites} sites, 10^6 entries ({1e3 * least['masked']:.1f} ms)"
        show(title, least["masked"] / least["keystream"], "<= 2")


def many_rounds(n_rounds: int = 1000, size: int = 400) -> None:
    """CPU seconds of four sites and the aggregator together."""
    for name in ("RETRY", "RECOVER", "CAPE"):
        start = time.process_time()
        sites = Consortium(4, 1).begin()
        for first in range(0, n_rounds, 100):
            epoch = sites.epoch(first // 100, n_rounds=100) if name != "RETRY" else None
            for k in range(100):
                vectors = {site: words(size) for site in sites.config.sites}
                if epoch is None:
                    sites.retry(vectors, round=first + k)
                else:
                    (sites.recover if name == "RECOVER" else sites.cape)(epoch, vectors, round=k)
        seconds = time.process_time() - start
        show(f"{name}, {n_rounds} rounds, 4 sites, {size} entries, CPU seconds in all", seconds, "< 10")


def offers() -> None:
    """CPU milliseconds per round of one site's offer."""
    for n_sites, n_rounds in ((4, 1), (4, 1000), (10, 1000), (50, 100), (200, 10)):
        sites = Consortium(n_sites, -(-n_sites // 3) - 1).begin(only="site000")
        number = iter(range(100))
        offer = partial(_offer, sites.sites["site000"], number, n_rounds)
        least = cpu_times({"offer": offer}, 3)["offer"]
        show(
            f"offer of one site, {n_sites} sites, {n_rounds} rounds: ms per round", 1e3 * least / n_rounds, "(no goal)"
        )


def _offer(site: Session, number: Any, n_rounds: int) -> None:
    site.offer(epoch=next(number), n_rounds=n_rounds)


def against_flower(n_sites: int = 10, n_colluding: int = 3, size: int = 1_000_000) -> None:
    """Whole aggregation with one drop-out, set-up included: all sites and the aggregator."""
    if importlib.util.find_spec("flwr") is None:
        print("flwr is not installed: the comparison with Flower's SecAgg+ functions was left out.")
        return
    generator = np.random.default_rng(1)
    vectors = {f"site{k:03d}": generator.uniform(-8, 8, size) for k in range(n_sites)}
    lost = f"site{n_sites - 1:03d}"
    exact = np.sum([vector for name, vector in vectors.items() if name != lost], axis=0)
    threshold = (n_sites + n_colluding) // 2 + 1
    totals: dict[str, NDArray[np.float64]] = {}

    def ours() -> None:
        totals["ours"] = _our_sum(vectors, lost, n_colluding)

    def theirs() -> None:
        totals["theirs"] = Flower(list(vectors.values()), threshold).total()

    least = cpu_times({"ours": ours, "theirs": theirs}, 6)
    errors = {name: float(np.abs(total - exact).max()) for name, total in totals.items()}
    title = f"Flower / RECOVER, {n_sites} sites, one lost ({least['theirs']:.2f} s / {least['ours']:.2f} s)"
    show(title, least["theirs"] / least["ours"], ">= 5")
    print(f"largest error: Flower {errors['theirs']:.1e}, RECOVER {errors['ours']:.1e}")
    show("error of Flower / error of RECOVER, in units of 10^5", errors["theirs"] / errors["ours"] / 1e5, ">= 1")


def _our_sum(vectors: dict[str, NDArray[np.float64]], lost: str, n_colluding: int) -> NDArray[np.float64]:
    """The sum of all but one site, by RECOVER on a grid of 2^-40."""
    sites = Consortium(len(vectors), n_colluding).begin()
    epoch = sites.epoch(0, n_rounds=1)
    sent = {
        name: to_ring(np.rint(vector * 2.0**FRACTIONAL_BITS).astype(np.int64))
        for name, vector in vectors.items()
        if name != lost
    }
    total = from_ring(sites.recover(epoch, sent, round=0))
    return total * 2.0**-FRACTIONAL_BITS


class Flower:
    """Flower's own functions in the order of its client and workflow; every site is every other's neighbour.

    Its defaults: clipping at 8, 2^22 quantisation steps, modulus 2^32. Message packing is left out, as on our side.
    """

    clip, steps, modulus = 8.0, 2**22, 2**32

    def __init__(self, vectors: list[NDArray[np.float64]], threshold: int) -> None:
        from flwr.common.secure_aggregation import ndarrays_arithmetic, quantization, secaggplus_utils
        from flwr.common.secure_aggregation.crypto import shamir, symmetric_encryption
        from flwr.supercore.primitives import asymmetric

        self.vectors, self.threshold, self.nodes = vectors, threshold, range(len(vectors))
        self.arithmetic, self.quantization, self.keys = ndarrays_arithmetic, quantization, asymmetric
        self.shamir, self.symmetric = shamir, symmetric_encryption
        self.expand = partial(
            secaggplus_utils.pseudo_rand_gen, num_range=self.modulus, dimensions_list=[vectors[0].shape]
        )

    def total(self) -> NDArray[np.float64]:
        """Return the sum of all but the last site."""
        self._make_keys()
        self._share()
        active = self.nodes[:-1]
        masked = self._masked(active[0])
        for i in active[1:]:
            masked = self.arithmetic.parameters_addition(masked, self._masked(i))
        total = self._unmasked(self.arithmetic.parameters_mod(masked, self.modulus), active)
        decoded = self.quantization.dequantize(total, self.clip, self.steps)
        return np.asarray(decoded[0] - (len(active) - 1) * self.clip)

    def _make_keys(self) -> None:
        keys = self.keys
        pairs = [[keys.generate_key_pairs() for _ in range(2)] for _ in self.nodes]
        self.private = [[keys.private_key_to_bytes(pair[0]) for pair in both] for both in pairs]
        self.public = [[keys.public_key_to_bytes(pair[1]) for pair in both] for both in pairs]
        self.seeds = [os.urandom(32) for _ in self.nodes]

    def _agree(self, kind: int, private: bytes, other: int) -> bytes:
        mine, public = self.keys.bytes_to_private_key(private), self.keys.bytes_to_public_key(self.public[other][kind])
        return self.symmetric.generate_shared_key(mine, public)

    def _share(self) -> None:
        """Share seed and key of every site, each share encrypted to and decrypted by its holder."""
        self.held: dict[tuple[int, int], tuple[bytes, bytes]] = {}
        for i in self.nodes:
            secrets = (self.seeds[i], self.private[i][0])
            shares = [self.shamir.create_shares(s, self.threshold, len(self.vectors)) for s in secrets]
            for j in self.nodes:
                self.held[i, j] = shares[0][j], shares[1][j]
                if i != j:
                    box = self.symmetric.encrypt(self._agree(1, self.private[i][1], j), shares[0][j] + shares[1][j])
                    plain = self.symmetric.decrypt(self._agree(1, self.private[j][1], i), box)
                    self.held[i, j] = plain[: len(shares[0][j])], plain[len(shares[0][j]) :]

    def _combine(self, positive: bool) -> Any:
        return self.arithmetic.parameters_addition if positive else self.arithmetic.parameters_subtraction

    def _masked(self, i: int) -> Any:
        vector = self.quantization.quantize([self.vectors[i]], self.clip, self.steps)
        vector = self._combine(True)(vector, self.expand(self.seeds[i]))
        for j in self.nodes:
            if i != j:
                vector = self._combine(i > j)(vector, self.expand(self._agree(0, self.private[i][0], j)))
        return self.arithmetic.parameters_mod(vector, self.modulus)

    def _unmasked(self, total: Any, active: range) -> Any:
        for i in self.nodes:
            secret = self.shamir.combine_shares([self.held[i, j][0 if i in active else 1] for j in active])
            if i in active:
                total = self._combine(False)(total, self.expand(secret))
            else:
                for j in active:
                    total = self._combine(i > j)(total, self.expand(self._agree(0, secret, j)))
        return self.arithmetic.parameters_mod(total, self.modulus)


def main() -> None:
    """Print all ratios."""
    masked_vectors()
    many_rounds()
    offers()
    against_flower()


if __name__ == "__main__":
    main()
