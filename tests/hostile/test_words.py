"""Words of others: an engine, a member or a coordinator cannot write what passes for dpcape's own, or fill a disk."""

from __future__ import annotations

import io
import json
import logging

import msgspec
import numpy as np
import pytest
from rich.console import Console

from dpcape import Cape, Federation, Independent, in_process, rows
from dpcape.core.errors import ProtocolError
from dpcape.core.messages import Open, Refused, decode_from_site, decode_to_site, encode
from dpcape.engines.flare.live_table import table
from dpcape.site.vault.log_lines import VaultFormatter
from dpcape.site.vault.processes import pass_on
from dpcape.transport.transport import Passing

SPOOF = "x\n2026-01-01 00:00:00,000 INFO serving\r\x1b]0;title\x07\x1b[2J\u202e\u2028y"
DATA = np.random.default_rng(0).normal(size=(20, 2)) / 3


def is_plain(text: str) -> bool:
    return text.isprintable() and len(text) < 3000


def test_lines_of_an_engine_are_marked_plain_and_not_too_many() -> None:
    heard: list[str] = []
    flood = b"engine confined by Landlock and seccomp\n" + b"\x1b[2Jgone\n" + b"a" * 5000 + b"\n" + b"more\n" * 10_000
    pass_on(io.BytesIO(flood), heard.append).join()
    assert heard[0] == "engine: engine confined by Landlock and seccomp"
    assert heard[1] == "engine: ?[2Jgone"
    assert all(line.startswith("engine: ") and is_plain(line) for line in heard)
    assert len(heard) == 2000


class Listening(Passing):
    """Keeps what was sent to one site, and changes what it answers."""

    sent: list[bytes]
    answer: bytes = b""

    def ask(self, messages_by_site, deadline):
        self.sent.append(messages_by_site["ava"])
        replies, missing = super().ask(messages_by_site, deadline)
        return ({**replies, "ava": self.answer} if self.answer else replies), missing


def test_a_coordinator_cannot_write_its_own_lines_into_the_refusal_of_a_site() -> None:
    line = in_process({name: rows(DATA, bound=1.0) for name in ("ava", "bob", "cid")})
    listener = Listening(line)
    listener.sent = []
    Federation(listener, protocol=Cape(n_colluding=0)).allow(1.0, 1e-5)
    opened = next(message for message in map(decode_to_site, listener.sent) if isinstance(message[1], Open))[1]
    sizes, epsilons = opened.terms.n_records, opened.terms.epsilons
    terms = msgspec.structs.replace(
        opened.terms, allowance="ab" * 16, n_records={**sizes, SPOOF: 10}, epsilons={**epsilons, SPOOF: 1.0}
    )
    replies, _ = line.ask({"ava": encode(Open(terms=terms), allowance="ab" * 16)}, None)
    reply = decode_from_site(replies["ava"])[1]
    assert isinstance(reply, Refused)
    assert "not pinned" in reply.text
    assert is_plain(reply.text)


def test_a_site_cannot_write_to_the_coordinators_terminal() -> None:
    line = Listening(in_process({"ava": rows(DATA, bound=1.0)}))
    line.sent, line.answer = [], encode(Refused(error="ProtocolError", text=100 * SPOOF), allowance="")
    with pytest.raises(ProtocolError) as raised:
        Federation(line, protocol=Independent())
    assert is_plain(str(raised.value))


def test_a_note_of_a_site_is_not_markup() -> None:
    """An unbalanced tag ended the coordinator's program; a link could be shown."""
    state = {"phase": "running", "sites": {"ava": {"state": "refused", "note": "[/red] [link=http://x]here[/link]"}}}
    console = Console(file=io.StringIO(), width=200)
    console.print(table("study", state))
    assert "[/red] [link=http://x]here[/link]" in console.file.getvalue()


def test_an_entry_of_the_vaults_log_is_one_line_whatever_it_says() -> None:
    try:
        raise ValueError(SPOOF)
    except ValueError as error:
        record = logging.LogRecord(
            "x", logging.ERROR, "", 0, "refused %s", (SPOOF,), (ValueError, error, error.__traceback__)
        )
    line = VaultFormatter().format(record)
    assert is_plain(line)
    entry = json.loads(line)
    assert entry["message"].startswith("refused")
    assert (entry["level"], entry["may_speak_of_data"]) == ("error", True)
    assert all(is_plain(part) for part in entry["traceback"])
