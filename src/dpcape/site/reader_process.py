"""The reader process: copies one source into one file, confined before it reads a byte of the source."""

from __future__ import annotations

import csv
import http.client
import json
import socket
import ssl
import sys
from pathlib import Path
from typing import IO
from urllib.parse import urlencode

import msgspec

from dpcape.site.vault.landlock import Rules
from dpcape.site.vault.sandbox import Sandbox, confine, hide_memory, python_read_paths, system_read_paths
from dpcape.site.vault.seccomp import Filter

_SECONDS = 60.0
_PART_BYTES = 2**20
# DuckDB reads its memory limit from these files and aborts if access is denied.
_MEMORY_LIMITS = (Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))


class ReaderTask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the reader copies, and where to; comes by a pipe.

    Attributes
    ----------
    out : str
        File to write, in a folder of its own.
    host, port, path, token, redcap, authority, most_bytes
        A file to fetch: the only host to connect to, and what to ask it for.
    query, tables, database
        A query over local files instead.
    """

    out: str
    host: str = ""
    port: int = 443
    path: str = "/"
    token: str = ""
    redcap: bool = False
    authority: str = ""
    most_bytes: int = 2**32
    query: str = ""
    tables: dict[str, str] = {}
    database: str = ""


def reader_sandbox(task: ReaderTask) -> Sandbox:
    """Return the reader's sandbox: no new connection, no program; reads its tables, writes its own folder."""
    named = [Path(path) for path in (*task.tables.values(), task.database) if path]
    # For a pattern, allow its folder.
    local = [path if path.exists() else path.parent for path in named]
    rules = Rules(
        read=(*python_read_paths(), *system_read_paths(), *_MEMORY_LIMITS, *local),
        write=(Path(task.out).parent, Path("/dev/null")),
    )
    denied = ("execve", "connect", "bind")
    return Sandbox(rules, Filter(network=False, pairs=False, denied=denied))


def main() -> None:
    """Read a task from standard input, do it, and say how it went in one line."""
    hide_memory()
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=ReaderTask)
    try:
        (_copy_query if task.query else _fetch)(task)
    except Exception as error:
        print(json.dumps({"error": _reason(error)}))
        sys.exit(1)


def _confine(task: ReaderTask) -> None:
    confinement = confine(reader_sandbox(task))
    if confinement.abi < 1 or not confinement.seccomp:
        raise OSError("the kernel has no Landlock or no seccomp, so the reader cannot be confined")


def _fetch(task: ReaderTask) -> None:
    """Copy what one host sends."""
    context = ssl.create_default_context(cadata=task.authority or None)
    plain = socket.create_connection((task.host, task.port), timeout=_SECONDS)
    _confine(task)
    connection = http.client.HTTPSConnection(task.host, task.port, timeout=_SECONDS, context=context)
    connection.sock = context.wrap_socket(plain, server_hostname=task.host)
    # No automatic reconnection: the sandbox allows no second connection.
    connection.auto_open = 0
    if task.redcap:
        form = {"token": task.token, "content": "record", "format": "csv", "type": "flat", "rawOrLabel": "raw"}
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        connection.request("POST", task.path, body=urlencode(form), headers=headers)
    else:
        connection.request("GET", task.path, headers={"Authorization": f"Bearer {task.token}"} if task.token else {})
    response = connection.getresponse()
    if response.status != 200:
        raise OSError(f"the host answered with status {response.status}; redirections are not followed")
    with Path(task.out).open("wb") as stream:
        _pass_on(response, stream, task.most_bytes)


def _pass_on(response: http.client.HTTPResponse, stream: IO[bytes], most: int) -> None:
    n_bytes = 0
    while chunk := response.read(_PART_BYTES):
        n_bytes += len(chunk)
        if n_bytes > most:
            raise OSError(f"the host sent more than {most // 2**20} megabytes (most_megabytes)")
        stream.write(chunk)


def _copy_query(task: ReaderTask) -> None:
    """Write the rows of a query as CSV: numbers exactly, nothing where a value is missing."""
    from dpcape.records.readers.sql import sql

    query = sql(task.query, tables=task.tables or None, database=task.database or None)
    _confine(task)
    names = list(query.names())
    with Path(task.out).open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(names)
        for batch in query.text_batches():
            columns = [values.tolist() for values in batch.values()]
            writer.writerows(["" if cell is None else cell for cell in row] for row in zip(*columns, strict=True))


def _reason(error: Exception) -> str:
    """Return the reason of a failure; for a rejected certificate, without text from the host."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the host's certificate is not accepted ({error.verify_message})"
    if isinstance(error, http.client.HTTPException):
        return f"the host did not speak HTTP as expected ({type(error).__name__})"
    return (str(error) or type(error).__name__).rstrip(". ")
