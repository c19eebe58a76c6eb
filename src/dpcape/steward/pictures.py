"""Pictures of spending against ceilings, without text: the page describes them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from dpcape.core.privacy.ledger import Charge
from dpcape.site.ledger import Ceiling

_WIDTH, _HEIGHT = 1000.0, 160.0


def spending_bar(alt: str, *, ceiling: float, spent: float, committed: float | None) -> Markup:
    """Draw what is spent, and what approvals would still allow, on a track that ends at the ceiling or beyond."""
    most = max(value for value in (ceiling, spent, committed or 0.0) if math.isfinite(value))
    shapes = [f'<rect class="track" width="{_WIDTH:g}" height="24"/>']
    if committed is not None:
        shapes.append(f'<rect class="committed" width="{_along(committed, most)}" height="24"/>')
    shapes.append(f'<rect class="spent" width="{_along(spent, most)}" height="24"/>')
    shapes.append(f'<path class="ceiling" d="M{_along(ceiling, most)} 0V24"/>')
    return _svg(alt, "spending", 24.0, shapes)


def spending_steps(alt: str, charges: Sequence[Charge], ceiling: Ceiling) -> Markup | None:
    """Draw spending after each charge against today's ceiling, at its delta and unit; None before the first charge."""
    if not charges:
        return None
    values = [ceiling.spent(charges[: count + 1]) for count in range(len(charges))]
    most = 1.1 * max(ceiling.epsilon, *(value for value in values if math.isfinite(value)), 0.0)
    width = _WIDTH / (len(charges) + 1)
    steps = "".join(f"H{width * (count + 1):.1f}V{_up(value, most)}" for count, value in enumerate(values))
    path = f"M0 {_HEIGHT:g}{steps}H{_WIDTH:g}"
    level = _up(ceiling.epsilon, most)
    shapes = [
        f'<path class="area" d="{path}V{_HEIGHT:g}Z"/>',
        f'<path class="steps" d="{path}"/>',
        f'<path class="ceiling" d="M0 {level}H{_WIDTH:g}"/>',
    ]
    return _svg(alt, "history", _HEIGHT, shapes)


def _svg(alt: str, name: str, height: float, shapes: Sequence[str]) -> Markup:
    head = Markup('<svg class="{}" role="img" aria-label="{}" viewBox="0 0 {} {}" preserveAspectRatio="none">')
    return head.format(name, alt, f"{_WIDTH:g}", f"{height:g}") + Markup("".join(shapes) + "</svg>")


def _along(value: float, most: float) -> str:
    return f"{_WIDTH * min(value / most, 1.0):.1f}"


def _up(value: float, most: float) -> str:
    return f"{_HEIGHT * (1.0 - min(value / most, 1.0)):.1f}"
