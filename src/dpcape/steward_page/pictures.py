"""Spending against ceilings, drawn without words: the page says them beside the picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime

from markupsafe import Markup

from dpcape.privacy.chain import Entry
from dpcape.privacy.ledger import Charge, spent_epsilon
from dpcape.privacy.site_ledger import Ceiling, State

_WIDTH, _HEIGHT = 1000.0, 160.0


def spending_bar(alt: str, *, ceiling: float, spent: float, promised: float | None) -> Markup:
    """Draw what is spent, and what approvals would still allow, on a track that ends at the ceiling or beyond."""
    most = max(value for value in (ceiling, spent, promised or 0.0) if math.isfinite(value))
    parts = [f'<rect class="track" width="{_WIDTH:g}" height="24"/>']
    if promised is not None:
        parts.append(f'<rect class="promised" width="{_along(promised, most)}" height="24"/>')
    parts.append(f'<rect class="spent" width="{_along(spent, most)}" height="24"/>')
    parts.append(f'<path class="ceiling" d="M{_along(ceiling, most)} 0V24"/>')
    return _svg(alt, "spending", 24.0, parts)


def spending_steps(alt: str, entries: Sequence[Entry], data: str, ceiling: Ceiling) -> Markup | None:
    """Draw spending over time against today's ceiling, at its delta; None before the first charge."""
    charged = [entry for entry in entries if entry.kind == "charge" and entry.body["data"] == data]
    if not charged:
        return None
    all_charges = State.of(entries).charges_of(data)
    values = [_running(all_charges[: count + 1], ceiling.delta) for count in range(len(all_charges))]
    start, end = _seconds(entries[0]), max(_seconds(entries[-1]), _seconds(entries[0]) + 1)
    most = 1.1 * max(ceiling.epsilon, *(value for value in values if math.isfinite(value)), 0.0)
    path = [f"M0 {_up(0.0, most)}"]
    for entry, value in zip(charged, values, strict=True):
        path.append(f"H{_WIDTH * (_seconds(entry) - start) / (end - start):.1f}V{_up(value, most)}")
    level = _up(ceiling.epsilon, most)
    parts = [
        f'<path class="area" d="{"".join(path)}H{_WIDTH:g}V{_HEIGHT:g}H0Z"/>',
        f'<path class="steps" d="{"".join(path)}H{_WIDTH:g}"/>',
        f'<path class="ceiling" d="M0 {level}H{_WIDTH:g}"/>',
    ]
    return _svg(alt, "history", _HEIGHT, parts)


def _running(charges: Sequence[Charge], delta: float) -> float:
    return spent_epsilon(charges, delta)


def _svg(alt: str, name: str, height: float, parts: Sequence[str]) -> Markup:
    head = Markup('<svg class="{}" role="img" aria-label="{}" viewBox="0 0 {} {}" preserveAspectRatio="none">')
    return head.format(name, alt, f"{_WIDTH:g}", f"{height:g}") + Markup("".join(parts) + "</svg>")


def _along(value: float, most: float) -> str:
    return f"{_WIDTH * min(value / most, 1.0):.1f}"


def _up(value: float, most: float) -> str:
    return f"{_HEIGHT * (1.0 - min(value / most, 1.0)):.1f}"


def _seconds(entry: Entry) -> float:
    return datetime.fromisoformat(entry.time).timestamp()
