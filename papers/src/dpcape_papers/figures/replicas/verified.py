"""What the verified curves of the replicas have in common."""

from __future__ import annotations

# The schemes that add noise; every replica has them.
SCHEMES = ("CAPE", "conventional", "local")
