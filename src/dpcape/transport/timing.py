"""How long a coordinator waits for sites."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Seconds. ``start``: for all sites to be ready; ``round``: for an answer where the study names no deadline."""

    start: float = 90.0
    ready: float = 2.0
    retry: float = 0.2
    round: float = 3600.0
    glance: float = 0.25
    ping: float = 1.0
    ping_timeout: float = 5.0
    # Long computations may hold a site's interpreter; a machine that is gone stays silent for longer.
    silent_pings: int = 25
    # Seconds that FLARE waits, after a job has finished, for sites that died (its default is 900).
    outcome_wait: int = 5


PRESET = Timing()
