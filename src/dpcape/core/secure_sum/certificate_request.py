"""What a site signs to say that a TLS key is its own."""

from __future__ import annotations

from dpcape.core.secure_sum.transcript import digest


def request_statement(name: str, pem: bytes) -> bytes:
    """Return what the identity of a site signs: its name and its request for a certificate."""
    return digest("certificate request", name, pem)
