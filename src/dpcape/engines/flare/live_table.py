"""The live table of a running study for people, and JSON lines for scripts."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

_WORDS = {
    "awaited": "not connected yet",
    "connected": "connected",
    "opening": "reading its data",
    "ready": "ready",
    "working": "working",
    "answered": "answered",
    "late": "too late for this round",
    "lost": "lost",
    "refused": "refused",
}


@contextmanager
def live_table(title: str) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Show the state of a run on the terminal; without a terminal write each event as one JSON line to stderr."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _print_events
        return
    with Live(console=console, refresh_per_second=4, transient=False) as live:
        yield lambda state: live.update(table(title, state))


def table(title: str, state: dict[str, Any]) -> Table:
    """Return who is awaited, who answered, who failed and why."""
    done, of = state.get("release", 0), state.get("n_releases", 0)
    progress = f", release {done} of {of}" if of else ""
    shown = Table(title=f"{title}: {state['phase']}{progress}, round {state.get('round', 0)}", title_justify="left")
    for heading in ("site", "state", "for", "note"):
        shown.add_column(heading)
    now = time.time()
    for name, site in sorted(state["sites"].items()):
        since = site.get("since") or now
        # As Text, because rich would interpret markup in a plain string from a site.
        note = Text(str(site["note"]))
        shown.add_row(name, _WORDS.get(site["state"], site["state"]), f"{max(0.0, now - since):.0f} s", note)
    return shown


def _print_events(state: dict[str, Any]) -> None:
    for event in state["events"]:
        print(json.dumps(event), file=sys.stderr, flush=True)
