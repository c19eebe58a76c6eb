"""Draws the rooms of dpcape from the import contract (``house.svg``) and the trust line (``trust.svg``).

Run ``python docs/pictures/house.py`` after a change of the contract; it also writes the table in ``architecture.md``.
"""

from __future__ import annotations

import ast
import configparser
from collections.abc import Sequence
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "dpcape"
WIDTH, GAP, HEIGHT, STEP, MARGIN = 960, 10, 34, 50, 12
# Layers of the trusted part are drawn inside its box.
INNER_HEIGHT, INNER_STEP, INNER_TOP = 28, 36, 34
ENTRY = "__main__"
TRUSTED = "core"
# Colours are those of the page the picture is in; rules are kept to pictures of this class.
STYLE = """<style>
.drawing { --ink: var(--pst-color-text-base, #1f2933); --muted: var(--pst-color-text-muted, #52606d); \
--paper: var(--pst-color-surface, #f3f4f6); --line: var(--pst-color-border, #9aa5b1); \
--accent: var(--pst-color-primary, #0a7d91); --warm: var(--drawing-warm, #b45309); \
font-family: inherit, system-ui, sans-serif; }
.drawing text { fill: var(--ink); font-size: 15px; }
.drawing .small { font-size: 13px; fill: var(--muted); }
.drawing .head { font-weight: 600; }
.drawing .middle { text-anchor: middle; }
.drawing .box { fill: var(--paper); stroke: var(--line); stroke-width: 1.2; }
.drawing .place { fill: none; stroke: var(--line); stroke-width: 1.2; }
.drawing .trusted { fill: var(--accent); fill-opacity: .1; stroke: var(--accent); stroke-width: 2; }
.drawing .blind { fill: none; stroke: var(--line); stroke-width: 1.2; stroke-dasharray: 5 3; }
.drawing .arrow { stroke: var(--muted); stroke-width: 1.6; fill: none; }
.drawing .tip { fill: var(--muted); }
.drawing .wall { stroke: var(--warm); stroke-width: 2; stroke-dasharray: 7 5; }
</style>
"""


def _contract() -> configparser.ConfigParser:
    contract = configparser.ConfigParser()
    contract.read(ROOT / ".importlinter", encoding="utf-8")
    return contract


def layers(name: str = "layers") -> list[list[str]]:
    """Return the rooms of each line of a contract of layers, from top to bottom."""
    lines = _contract()[f"importlinter:contract:{name}"]["layers"].split("\n")
    found = [[room.strip() for room in line.split("|")] for line in lines if line.strip()]
    return [rooms for rooms in found if rooms != [ENTRY]]


def without_records() -> set[str]:
    """Return the rooms that must not import ``records``, by the contracts that forbid it."""
    contract = _contract()
    forbidding = [
        section
        for section in contract.values()
        if section.get("type") == "forbidden" and "dpcape.records" in section["forbidden_modules"].split()
    ]
    named = [module for section in forbidding for module in section["source_modules"].split()]
    return {module.removeprefix("dpcape.") for module in named}


def purpose(room: str) -> str:
    """Return the first line of a room's docstring."""
    path = PACKAGE / room / "__init__.py"
    file = path if path.exists() else (PACKAGE / room).with_suffix(".py")
    return (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or room).splitlines()[0]


def _rect(kind: str, x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6"/>'


def _text(text: str, x: float, y: float, kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:g}" y="{y:g}">{escape(text)}</text>'


def _row(rooms: Sequence[str], y: float, left: float, width: float, height: float, kind: str = "") -> list[str]:
    """Return the boxes of one line, as wide as their names need; they fill the line together."""
    spare = width - GAP * (len(rooms) - 1)
    letters = sum(len(room) + 4 for room in rooms)
    blind, x, drawn = without_records(), left, []
    for room in rooms:
        size = round(spare * (len(room) + 4) / letters, 1)
        shape = kind or ("blind" if room in blind else "box")
        names = f"{'small' if kind else 'head'} middle"
        title = "" if kind else f"<title>{escape(purpose(room))}</title>"
        drawn.append(
            f"<g>{title}{_rect(shape, x, y, size, height)}"
            f"{_text(room, round(x + size / 2, 1), y + height / 2 + 5, names)}</g>"
        )
        x = round(x + size + GAP, 1)
    return drawn


def _arrow(x: float, y: float) -> str:
    return f'<path class="arrow" d="M{x:g} {y:g}v10m-4 -5l4 5l4 -5"/>'


def _core(y: float, left: float, width: float) -> list[str]:
    """Return the trusted part with its own layers inside."""
    rows = layers("core-layers")
    height = INNER_TOP + INNER_STEP * len(rows) + GAP - (INNER_STEP - INNER_HEIGHT)
    drawn = [f"<g><title>{escape(purpose(TRUSTED))}</title>{_rect('trusted', left, y, width, height)}</g>"]
    drawn.append(_text(TRUSTED, left + width / 2, y + 22, "head middle"))
    for number, rooms in enumerate(rows):
        drawn += _row(rooms, y + INNER_TOP + INNER_STEP * number, left + GAP, width - 2 * GAP, INNER_HEIGHT, "place")
    return drawn


def _legend(y: float) -> list[str]:
    said = (
        ("trusted", "the trusted part, with its own layers"),
        ("blind", "a contract forbids importing records"),
        ("box", "other rooms"),
    )
    drawn, x = [], float(MARGIN)
    for kind, text in said:
        drawn += [_rect(kind, x, y, 26, 16), _text(text, x + 34, y + 13, "small")]
        x += 60 + 7 * len(text)
    return drawn


def _picture(name: str, title: str, text: str, height: float, parts: Sequence[str]) -> str:
    return (
        f'<svg class="drawing" viewBox="0 0 {WIDTH} {height:g}" role="img" '
        f'aria-labelledby="{name}-title {name}-text" xmlns="http://www.w3.org/2000/svg">\n'
        f'<title id="{name}-title">{escape(title)}</title>\n<desc id="{name}-text">{escape(text)}</desc>\n'
        f"{STYLE}" + "\n".join(parts) + "\n</svg>\n"
    )


def drawn() -> str:
    """Return the picture of the rooms as SVG."""
    *rows, last = layers()
    assert last == [TRUSTED], "the trusted part must be the lowest line of the contract"
    width, parts = WIDTH - 2 * MARGIN, _legend(MARGIN)
    y = MARGIN + 32
    for rooms in rows:
        parts += [*_row(rooms, y, MARGIN, width, HEIGHT), _arrow(WIDTH / 2, y + HEIGHT + 3)]
        y += STEP
    parts += _core(y, MARGIN, width)
    inner = layers("core-layers")
    height = y + INNER_TOP + INNER_STEP * len(inner) + GAP - (INNER_STEP - INNER_HEIGHT) + MARGIN
    listed = "; ".join(", ".join(rooms) for rooms in [*rows, last])
    inside = "; ".join(", ".join(rooms) for rooms in inner)
    text = f"From top to bottom: {listed}. Inside core, from top to bottom: {inside}."
    return _picture("house", "The rooms of dpcape; imports go down only", text, height, parts)


def _place(kind: str, x: float, y: float, width: float, lines: Sequence[str], height: float = 0) -> list[str]:
    """Return a box with a head and smaller lines below it; without a height, as high as they need."""
    head, *others = lines
    drawn = [_rect(kind, x, y, width, height or 32 + 18 * len(others)), _text(head, x + 14, y + 21, "head")]
    return drawn + [_text(line, x + 14, y + 40 + 18 * at, "small") for at, line in enumerate(others)]


def _down(x: float, y: float, stop: float) -> str:
    return f'<path class="arrow" d="M{x:g} {y:g}V{stop:g}" marker-end="url(#trust-tip)"/>'


def _site_side() -> list[str]:
    """Return what runs at a site: the vault with the trusted part in it, and the engine."""
    engine = "engine, in a sandbox (engines/): carries frames, reads no records"
    return [
        *_place("place", 12, 12, 464, ["a site"], 596),
        *_place("place", 26, 46, 368, ["vault: no network, starts no program"], 548),
        *_place("box", 42, 82, 336, ["records/, schema/", "read a file; clip values to public bounds"]),
        _down(210, 132, 148),
        *_place("trusted", 42, 150, 336, ["core/site.py"], 314),
        *(
            _text(text, 56, y, "small")
            for text, y in (
                ("checks approval, computes the noise itself,", 190),
                ("charges the ledger; only then uses records", 208),
            )
        ),
        *_place("box", 56, 222, 308, ["statistics/", "core/totals.py asks for the site's total"]),
        _down(210, 272, 288),
        *_place(
            "place", 56, 290, 308, ["core/noise.py", "large noise that cancels in the sum,", "little noise that stays"]
        ),
        _down(210, 358, 374),
        *_place(
            "place",
            56,
            376,
            308,
            [
                "core/protocols/, core/secure_sum/",
                "a mask, opened for one set of sites that",
                "enough sites have signed",
            ],
        ),
        *_place(
            "box", 42, 478, 336, ["site/", "approvals and ledger on disk, keys,", "the sandboxes of vault and engine"]
        ),
        *_place("box", 42, 554, 336, ["transport/: signs replies"]),
        _rect("blind", 410, 46, 52, 548),
        f'<text class="small middle" transform="translate(441 320) rotate(-90)">{escape(engine)}</text>',
    ]


# What crosses: in words, what it holds, and whether it goes to the site.
CROSSING = (
    ("requests", "signed by the coordinator", True),
    ("public facts", "sizes, columns, ranges", False),
    ("draws of noise", "masked", False),
    ("totals with noise", "masked, one per release", False),
    ("openings of masks", "for one signed set of sites", False),
)


def _crossing() -> list[str]:
    """Return the trust line, and what crosses it."""
    middle, top, step = 573, 74, 96
    parts = [_text("the trust line", middle, 30, "middle head"), f'<path class="wall" d="M{middle} 38V{top - 18}"/>']
    for at, (what, about, to_site) in enumerate(CROSSING):
        y = top + step * at
        ends = f"M658 {y + 32}H480" if to_site else f"M480 {y + 32}H658"
        parts += [
            _text(what, middle, y, "middle head"),
            _text(about, middle, y + 18, "middle small"),
            f'<path class="arrow" d="{ends}" marker-end="url(#trust-tip)"/>',
            f'<path class="wall" d="M{middle} {y + 38}V{y + step - 18}"/>',
        ]
    y = top + step * len(CROSSING)
    said = ("replies are signed", "by the site")
    parts += [_text(text, middle, y + 18 * at, "middle small") for at, text in enumerate(said)]
    return [*parts, f'<path class="wall" d="M{middle} {y + 28}V608"/>']


def _coordinator_side() -> list[str]:
    """Return what runs at the coordinator."""
    left, width, middle = 686, 246, 809
    return [
        *_place("place", 670, 12, 278, ["the coordinator"], 596),
        *_place("box", left, 46, width, ["engines/, transport/", "sign requests, check signatures"]),
        _down(middle, 96, 122),
        *_place(
            "trusted",
            left,
            124,
            width,
            [
                "core/protocols/",
                "with core/secure_sum/: opens one",
                "set of sites, adds up; the large",
                "noise cancels",
            ],
        ),
        _down(middle, 210, 236),
        *_place(
            "box", left, 238, width, ["federation/, guarantee/", "keep each release on disk,", "state the guarantee"]
        ),
        _down(middle, 306, 332),
        *_place(
            "box",
            left,
            334,
            width,
            ["estimators/", "with postprocessing/: figures", "and intervals from releases"],
        ),
        _down(middle, 402, 428),
        *_place("box", left, 430, width, ["results.py, runs/, report/", "results.csv, results.json,", "report.html"]),
        _text("Sees only what crossed the line.", left, 528, "small"),
        _text("Holds no records and no ledger.", left, 546, "small"),
    ]


def trust_drawn() -> str:
    """Return the picture of the trust line as SVG."""
    crossing = "; ".join(f"{what} ({about})" for what, about, _ in CROSSING)
    text = (
        "At a site, inside the vault, records and schema read a file, and core/site.py checks, charges and only then "
        f"reads records; a statistic's total gets noise and a mask. What crosses the trust line: {crossing}. At the "
        "coordinator core adds up, federation keeps releases, and estimators turn them into figures and intervals."
    )
    tip = (
        '<defs><marker id="trust-tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path class="tip" d="M0 0 10 5 0 10z"/></marker></defs>'
    )
    parts = [tip, *_site_side(), *_crossing(), *_coordinator_side()]
    return _picture("trust", "The trust line between a site and the coordinator", text, 620, parts)


def table() -> str:
    """Return the rooms as a Markdown table, from top to bottom."""
    lines = ["| room | what is in it |", "|---|---|"]
    lines += [f"| `{room}` | {purpose(room)} |" for rooms in layers() for room in rooms]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    folder, page = Path(__file__).parent, ROOT / "docs" / "architecture.md"
    (folder / "house.svg").write_text(drawn(), encoding="utf-8")
    (folder / "trust.svg").write_text(trust_drawn(), encoding="utf-8")
    before, _, rest = page.read_text(encoding="utf-8").partition("<!-- rooms -->\n")
    _, _, after = rest.partition("<!-- end of rooms -->\n")
    page.write_text(f"{before}<!-- rooms -->\n{table()}<!-- end of rooms -->\n{after}", encoding="utf-8")
