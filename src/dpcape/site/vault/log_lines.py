"""Lines of logs: for the machine's log, of the supervisor and the engine; for the site folder's own, of the vault.

The machine's log is often collected elsewhere, so nothing in it depends on records: the supervisor has opened none, and
the engine cannot. ``vault.log`` never leaves the site folder; entries that may speak of data say so.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from dpcape.core.plain_text import one_line

ENGINE_MARK = "engine: "
# The name under which the standard library logs warnings.
_WARNINGS = "py.warnings"
Form = Literal["text", "json"]
Say: TypeAlias = Callable[[str], None]


class ServiceLog:
    """Writes what happens at a served site to the machine's log, one line each.

    Parameters
    ----------
    form : 'text' or 'json'
        Plain lines, or one JSON object per line: ``time``, ``level``, ``source`` and ``message``.
    write : callable
        Takes a line without its end.
    """

    def __init__(self, form: Form, write: Say) -> None:
        self._form, self._write = form, write

    def say(self, line: str) -> None:
        """Log an event; lines that begin with the engine's mark are the engine's."""
        self._tell("info", line)

    def warn(self, line: str) -> None:
        """Log a failure after which another attempt is made."""
        self._tell("warning", line)

    def fail(self, line: str) -> None:
        """Log why the site is no longer served."""
        self._tell("error", line)

    def _tell(self, level: str, line: str) -> None:
        if self._form == "text":
            self._write(line)
            return
        source = "engine" if line.startswith(ENGINE_MARK) else "supervisor"
        message = one_line(line.removeprefix(ENGINE_MARK))
        self._write(json.dumps({"time": _now(), "level": level, "source": source, "message": message}))


class VaultFormatter(logging.Formatter):
    """One JSON object per entry on one line, so that text from elsewhere cannot imitate an entry.

    ``may_speak_of_data`` marks errors, and warnings of readers: their texts are for the site's own people.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return an entry."""
        entry: dict[str, object] = {
            "time": _now(record.created),
            "level": record.levelname.lower(),
            "source": "vault",
            "message": one_line(record.getMessage()),
        }
        if record.levelno >= logging.ERROR or record.exc_info or record.name == _WARNINGS:
            entry["may_speak_of_data"] = True
        if record.exc_info:
            entry["traceback"] = [one_line(line) for line in self.formatException(record.exc_info).splitlines()]
        return json.dumps(entry)


def _now(seconds: float | None = None) -> str:
    moment = datetime.now(UTC) if seconds is None else datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds")
