"""Speed of exact integer noise, beside the raw keystream it is made from.

One thread, process CPU time, least of interleaved repetitions. Run: ``python benchmarks/noise.py``.
"""

from __future__ import annotations

from functools import partial

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from timing import cpu_times, show

from dpcape.core.noise import OsNoise

N_DRAWS = 1_000_000
SCALES = {"2^24": 2.0**24, "2^30": 2.0**30}


def keystream() -> None:
    """Encrypt 8 MB of zeros: one 64-bit word per draw."""
    source, target = bytes(8 * N_DRAWS), bytearray(8 * N_DRAWS)
    Cipher(AES(bytes(32)), CTR(bytes(16))).encryptor().update_into(source, target)


def main(*, rounds: int = 15) -> None:
    """Print millions of draws per second of CPU time, and the ratio to the keystream."""
    noise = OsNoise()
    tasks = {name: partial(noise.integer_gaussian, scale, N_DRAWS) for name, scale in SCALES.items()}
    times = cpu_times({"keystream": keystream, **tasks}, rounds)
    for name in SCALES:
        rate, ratio = 1e-6 * N_DRAWS / times[name], times[name] / times["keystream"]
        show(f"integer noise, scale {name} steps, million draws per second and core", rate, ">= 2")
        show(f"integer noise, scale {name} steps, 10^6 draws / AES-CTR keystream of 8 MB", ratio, "(no goal)")


if __name__ == "__main__":
    main()
