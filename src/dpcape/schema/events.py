"""A time to an event: two columns of a table and a public range of time."""

from __future__ import annotations

from collections.abc import Mapping

from dpcape.core.errors import InvalidParameter
from dpcape.core.facts import PublicEvent
from dpcape.schema.column import Column

_KEYS = {"time", "event", "range", "levels", "occurred", "unit"}
_EXAMPLE = "Write for example time = 'days', event = 'died', range = [0, 2000]."


def event_of(name: str, spec: Mapping[str, object]) -> tuple[PublicEvent, tuple[Column, Column]]:
    """Return a time to an event and its two columns.

    Parameters
    ----------
    name : str
        Name of the pair.
    spec : mapping
        "time" and "event", names of columns; "range", the public range of time, which begins at zero; and perhaps
        "levels" of the event's column, 0 and 1 unless stated, and "occurred", the level which says that the event
        occurred, the last one unless stated; and perhaps "unit" of the time, such as "days".
    """
    if not set(spec) <= _KEYS or not {"time", "event", "range"} <= set(spec):
        must = "have time, event and range, and may have levels, occurred and unit"
        raise InvalidParameter("A time to an event", must, f"{sorted(map(str, spec))} for {name!r}", _EXAMPLE)
    names = spec["time"], spec["event"]
    if not all(isinstance(entry, str) and entry for entry in names) or names[0] == names[1]:
        raise InvalidParameter(f"time and event of {name!r}", "name two columns", repr(names), _EXAMPLE)
    levels = spec.get("levels", (0, 1))
    if not isinstance(levels, list | tuple) or len(levels) < 2:
        subject, remedy = f"levels of {name!r}", "List all of them."
        raise InvalidParameter(subject, "be at least two values of the event's column", repr(levels), remedy)
    time = Column(name=str(names[0]), range=spec["range"], unit=spec.get("unit", ""))  # type: ignore[arg-type]  # checked there
    if time.range is None or time.dates or time.range[0] != 0:
        subject = f"range of {name!r}"
        raise InvalidParameter(subject, "begin at 0 and end where follow-up ends", repr(spec["range"]), _EXAMPLE)
    event = Column(name=str(names[1]), levels=tuple(levels))
    occurred = spec.get("occurred", levels[-1])
    if occurred not in levels:
        raise InvalidParameter(f"occurred of {name!r}", "be one of its levels", repr(occurred), "Choose one of them.")
    return PublicEvent(name, time.name, event.name, str(occurred)), (time, event)
