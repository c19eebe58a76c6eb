"""Form fields and uploaded files of a study."""

from __future__ import annotations

import re
from http import HTTPStatus
from urllib.parse import parse_qsl

from dpcape.core.errors import InvalidParameter
from dpcape.steward.request_checks import RefusedRequest

_MOST_FIELDS = 16
_PART = re.compile(rb'form-data; name="([a-z_]{1,32})"(?:; filename="([^"\r\n]{0,200})")?', re.IGNORECASE)
_BOUNDARY = re.compile(r"multipart/form-data;\s*boundary=\"?([A-Za-z0-9'()+_,./:=?-]{1,70})\"?\s*", re.IGNORECASE)


class Fields(dict[str, str]):
    """The fields of a form, each given once."""

    def text(self, name: str) -> str:
        """Return a field, or nothing."""
        return self.get(name, "").strip()

    def number(self, name: str, label: str) -> float:
        """Return a field that must be a number."""
        try:
            return float(self.text(name))
        except ValueError:
            raise InvalidParameter(label, "be a number", repr(self.text(name)[:40]), "Write for example 0.5.") from None

    def optional_number(self, name: str, label: str) -> float | None:
        """Return a field that must be a number or empty."""
        return self.number(name, label) if self.text(name) else None

    def count(self, name: str, label: str) -> int:
        """Return a field that must be a whole number."""
        typed = self.text(name)
        if not (typed.isascii() and typed.isdigit()) or len(typed) > 9:
            raise InvalidParameter(label, "be a whole number", repr(typed[:40]), "Write for example 1.")
        return int(typed)


def read_fields(body: bytes) -> Fields:
    """Read a form; refuse what no form of this page can send."""
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS, separator="&"
        )
    except ValueError:
        raise _unreadable() from None
    return _once(pairs)


def read_files(body: bytes, content_type: str) -> tuple[Fields, dict[str, bytes]]:
    """Read a form with files; return its fields and the files by name."""
    boundary = _BOUNDARY.fullmatch(content_type)
    if boundary is None:
        raise _unreadable()
    sections = (b"\r\n" + body).split(b"\r\n--" + boundary[1].encode("ascii"))
    if len(sections) < 3 or sections[0] or sections[-1].strip() != b"--" or len(sections) > _MOST_FIELDS:
        raise _unreadable()
    fields: list[tuple[str, str]] = []
    files: list[tuple[str, bytes]] = []
    for section in sections[1:-1]:
        name, file, content = _read_section(section)
        if file is None:
            fields.append((name, content.decode("utf-8", "replace")))
        elif file:
            files.append(("study.toml" if name == "study" else file, content))
    if len({name for name, _ in files}) != len(files):
        raise InvalidParameter("Files of a study", "have different names", "one name twice", "Rename one of them.")
    return _once(fields), dict(files)


def _read_section(section: bytes) -> tuple[str, str | None, bytes]:
    head, separator, content = section.partition(b"\r\n\r\n")
    lines = [line.partition(b":") for line in head.split(b"\r\n") if line]
    dispositions = [value.strip() for key, _, value in lines if key.strip().lower() == b"content-disposition"]
    match = _PART.fullmatch(dispositions[0]) if len(dispositions) == 1 and separator else None
    if match is None:
        raise _unreadable()
    file = None if match[2] is None else match[2].decode("utf-8", "replace")
    return match[1].decode("ascii"), file, content


def _once(pairs: list[tuple[str, str]]) -> Fields:
    fields = Fields(pairs)
    if len(fields) != len(pairs):
        raise _unreadable()
    return fields


def _unreadable() -> RefusedRequest:
    return RefusedRequest(HTTPStatus.BAD_REQUEST, "The form could not be read. Use the page's own form.")
