"""The card's pictures as inline SVG: colours are the page's variables, so that they read in light, dark and print."""

from __future__ import annotations

import math

from markupsafe import Markup, escape

from dpcape.core.privacy.inference import most_hits
from dpcape.guarantee.card_content import Odds, percent
from dpcape.guarantee.card_ledger import Spent
from dpcape.pages.numbers import round_up

_POINTS = 60


def guess_picture(odds: Odds) -> Markup:
    """Draw how often a guess between two is right: from a coin toss to certainty, both ends named."""
    left, right, top = 14.0, 326.0, 40.0
    at = left + (right - left) * (odds.right - 0.5) / 0.5
    anchor, text_at = _anchored(at, left, right)
    ticks = "".join(
        f'<line class="tick" x1="{x:.1f}" y1="{top + 16}" x2="{x:.1f}" y2="{top + 21}"/>'
        for x in (left + (right - left) * step / 5 for step in range(6))
    )
    alt = (
        f"A scale from 50 percent, a coin toss, to 100 percent, certain. "
        f"The best possible guess is right in at most {percent(odds.right)} of cases."
    )
    body = (
        f'<rect class="track" x="{left}" y="{top}" width="{right - left}" height="14" rx="7"/>'
        f'<rect class="fill" x="{left}" y="{top}" width="{max(at - left, 3):.1f}" height="14" rx="3"/>{ticks}'
        f'<line class="mark" x1="{at:.1f}" y1="{top - 8}" x2="{at:.1f}" y2="{top + 16}"/>'
        f'<text class="value" x="{text_at:.1f}" y="{top - 14}" text-anchor="{anchor}">at most '
        f"{escape(percent(odds.right))}</text>"
        f'<text x="{left}" y="{top + 36}">50%: coin toss</text>'
        f'<text x="{right}" y="{top + 36}" text-anchor="end">100%: certain</text>'
        f'<text class="soft" x="{left}" y="{top + 52}">nothing learnt</text>'
        f'<text class="soft" x="{right}" y="{top + 52}" text-anchor="end">everything learnt</text>'
    )
    return _svg(340, 98, alt, body, "guess")


def test_picture(odds: Odds) -> Markup:
    """Draw hits against false alarms: what tests can reach, and what they cannot."""
    # Squared, so that points are dense near zero, where the curve is steep.
    shares = [(index / _POINTS) ** 2 for index in range(_POINTS + 1)]
    curve = [(share, most_hits(share, epsilon=odds.epsilon, delta=odds.delta, mu=odds.mu)) for share in shares]
    edge = " ".join(f"{_across(x):.1f},{_up(y):.1f}" for x, y in curve)
    alt = (
        "Hits of a test for one person's data against its false alarms. Every possible test lies between the diagonal, "
        f"a coin toss, and a curve above it: at {percent(odds.false_alarms)} false alarms, at most "
        f"{percent(odds.hits)} hits."
    )
    x, y = _across(odds.false_alarms), _up(odds.hits)
    # Shown only if there is room for the text.
    label = f'<text class="soft" x="{_across(0) + 8}" y="{_up(1) + 14}">no test gets here</text>'
    out_of_reach = label if odds.right < 0.75 else ""
    body = (
        f'<polygon class="reach" points="{edge} {_across(0):.1f},{_up(0):.1f}"/>'
        f'<polyline class="edge" points="{edge}"/>'
        f'<line class="coin" x1="{_across(0)}" y1="{_up(0)}" x2="{_across(1)}" y2="{_up(1)}"/>'
        f'<path class="axis" d="M{_across(0)},{_up(1)}V{_up(0)}H{_across(1)}"/>'
        f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
        f"{out_of_reach}"
        f'<text class="soft" x="{_across(1) - 4}" y="{_up(0) - 10}" text-anchor="end">worse than a coin</text>'
        f'<text x="{_across(0)}" y="{_up(0) + 17}">0</text>'
        f'<text x="{_across(0.5)}" y="{_up(0) + 17}" text-anchor="middle">false alarms</text>'
        f'<text x="{_across(1)}" y="{_up(0) + 17}" text-anchor="end">100%</text>'
        f'<text x="{_across(0) - 6}" y="{_up(1) + 5}" text-anchor="end">100%</text>'
        f'<text x="{_across(0) - 6}" y="{_up(0.5) + 4}" text-anchor="end">hits</text>'
    )
    return _svg(300, 230, alt, body, "test")


def ledger_picture(spent: Spent) -> Markup:
    """Draw what was spent before, what this study adds, and the ceiling."""
    finite = [value for value in (spent.before, spent.after, spent.ceiling) if math.isfinite(value)]
    left, width, top = 14.0, 312.0, 24.0
    scale = width / (1.04 * max(finite))
    before, after, ceiling = (left + min(scale * value, width) for value in (spent.before, spent.after, spent.ceiling))
    added = "fill" if spent.is_within else "over"
    alt = (
        f"Ledger of {spent.data}: epsilon {round_up(spent.before)} before, {round_up(spent.after)} after this study, "
        f"ceiling {spent.ceiling:g} {spent.unit.per}."
    )
    body = (
        f'<rect class="track" x="{left}" y="{top}" width="{width}" height="14" rx="3"/>'
        f'<rect class="old" x="{left}" y="{top}" width="{before - left:.1f}" height="14"/>'
        f'<rect class="{added}" x="{before:.1f}" y="{top}" width="{max(after - before, 2):.1f}" height="14"/>'
        f'<line class="mark" x1="{ceiling:.1f}" y1="{top - 6}" x2="{ceiling:.1f}" y2="{top + 20}"/>'
        f'<text x="{ceiling:.1f}" y="{top - 10}" text-anchor="end">ceiling {spent.ceiling:g}</text>'
        f'<text class="soft" x="{left}" y="{top + 32}">spent before {escape(round_up(spent.before))}, '
        f"after {escape(round_up(spent.after))}</text>"
    )
    return _svg(340, 62, alt, body, "ledger")


def _anchored(at: float, left: float, right: float) -> tuple[str, float]:
    """Keep a label inside the picture."""
    if at < left + 60:
        return "start", left
    return ("end", right) if at > right - 60 else ("middle", at)


def _across(share: float) -> float:
    return 46.0 + 240.0 * share


def _up(share: float) -> float:
    return 204.0 - 192.0 * share


def _svg(width: int, height: int, alt: str, body: str, kind: str) -> Markup:
    return Markup(
        f'<svg class="picture {kind}" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(alt)}">'
        f"<title>{escape(alt)}</title>{body}</svg>"
    )
