"""Copies of remote sources and queries: made by a reader process, before a data set is registered.

The vault has no network, and reads only local files. A reader process copies what a source file describes into one
local file. It connects to the one host that the file declares, then gives up network, other files and other programs
(Landlock and seccomp), and only then reads what the host sends or runs the query. It never sees ledger or keys.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from dpcape.core.errors import DamagedFile, Failed, InvalidParameter, nearest_name
from dpcape.site.reader_process import ReaderTask
from dpcape.site.vault.sandbox import clean_environment

FORMATS = ("csv", "tsv", "parquet", "npz", "npy")
_REMOTE = ("url", "token_file", "redcap", "ca_file", "most_megabytes")
_QUERY = ("query", "tables", "database")
_SECONDS = 3600
_MOST_MEGABYTES = 4096


@dataclass(frozen=True)
class SourceFile:
    """Content of a source file, checked; paths are those of the file's folder.

    Attributes
    ----------
    url : str
        Address of a file to copy, or of REDCap's API; empty for a query.
    redcap : bool
        Whether the address is REDCap's API, which is asked for all records, raw, as CSV.
    token_file, ca_file : Path or None
        File with the token to send, and certificates of the authority that vouches for the host.
    query : str
        One SELECT statement over local ``tables`` or a local ``database``.
    """

    url: str = ""
    redcap: bool = False
    token_file: Path | None = None
    ca_file: Path | None = None
    most_megabytes: int = _MOST_MEGABYTES
    query: str = ""
    tables: dict[str, Path] = field(default_factory=dict)
    database: Path | None = None

    @classmethod
    def load(cls, path: Path) -> SourceFile:
        """Read a source file: ``[source]`` with ``url``, or with ``query`` and ``tables`` or ``database``."""
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            what = f"The source file {str(path)!r} could not be read"
            raise DamagedFile(what, "it is missing or not valid TOML", "Correct it.") from error
        source = content.get("source")
        if set(content) != {"source"} or not isinstance(source, dict):
            raise InvalidParameter("A source file", "hold one table, [source]", "a different one", "Write [source].")
        for key in source:
            if key not in (*_REMOTE, *_QUERY):
                near = nearest_name(key, (*_REMOTE, *_QUERY))
                must = f"be {', '.join((*_REMOTE, *_QUERY))}"
                raise InvalidParameter("fields of [source]", must, repr(key), near or "Remove it.")
        if ("url" in source) == ("query" in source):
            raise InvalidParameter("[source]", "have url or query", "both, or one is missing", "Write one of them.")
        return cls._of_url(source, path.parent) if "url" in source else cls._of_query(source, path.parent)

    @classmethod
    def _of_url(cls, source: dict[str, Any], folder: Path) -> SourceFile:
        address = urlsplit(str(source["url"]))
        if address.scheme != "https" or not address.hostname or address.username is not None:
            must = "be https://HOST/PATH without a user name"
            raise InvalidParameter("url of [source]", must, "a different one", "Use https, and token_file for a token.")
        most = source.get("most_megabytes", _MOST_MEGABYTES)
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise InvalidParameter("most_megabytes of [source]", "be a whole number from 1", repr(most))
        token, authority = (_path(source, key, folder) for key in ("token_file", "ca_file"))
        if source.get("redcap", False) is True and token is None:
            raise InvalidParameter("token_file", "be given in [source] for REDCap's API", "none", "Write token_file.")
        url, redcap = str(source["url"]), source.get("redcap", False) is True
        return cls(url=url, redcap=redcap, token_file=token, ca_file=authority, most_megabytes=most)

    @classmethod
    def _of_query(cls, source: dict[str, Any], folder: Path) -> SourceFile:
        tables = source.get("tables", {})
        if not isinstance(tables, dict) or not all(isinstance(entry, str) for entry in tables.values()):
            raise InvalidParameter("tables of [source]", "map names to files", "a different value")
        database = _path(source, "database", folder)
        if (database is None) == (not tables):
            raise InvalidParameter("[source]", "have tables or database beside query", "both, or one is missing")
        files = {name: (folder / entry).absolute() for name, entry in tables.items()}
        return cls(query=str(source["query"]), tables=files, database=database)


def _path(source: dict[str, Any], key: str, folder: Path) -> Path | None:
    if key not in source:
        return None
    path = (folder / str(source[key])).absolute()
    if not path.is_file():
        raise InvalidParameter(f"{key} of [source]", "be an existing file", repr(source[key]), "Correct the path.")
    return path


def snapshot(source: SourceFile, target: Path, *, replace: bool = False) -> int:
    """Copy what a source describes into a local file that only this account can read; return its size in bytes.

    Parameters
    ----------
    source : SourceFile
        What to copy.
    target : Path
        The local file; its name says the format. A query gives CSV.
    replace : bool
        Whether a file of this name may be replaced.
    """
    kind = target.name.rpartition(".")[2].lower()
    allowed = FORMATS if source.url and not source.redcap else ("csv",)
    if kind not in allowed:
        raise InvalidParameter("The snapshot's name", f"end in {', '.join(allowed)}", repr(target.name), "Rename it.")
    if target.exists() and not replace:
        raise Failed(f"{str(target)!r} exists", remedy="Choose another name, or replace it with --replace.")
    folder = Path(tempfile.mkdtemp(prefix=".snapshot-", dir=target.absolute().parent))
    try:
        copy = folder / f"part.{kind}"
        _read_in_process(_task(source, copy))
        return _keep(copy, target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _keep(copy: Path, target: Path) -> int:
    """Copy what the reader wrote into a file that it never had open; return its size.

    The reader has read bytes of others: where it should have written a file, there may be a link to one of this site's.
    """
    try:
        descriptor = os.open(copy, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise _no_file() from error
    with os.fdopen(descriptor, "rb") as written:
        status = os.fstat(written.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            raise _no_file()
        # Readable by this account alone from the beginning.
        draft, name = tempfile.mkstemp(prefix=".snapshot-", dir=target.absolute().parent)
        try:
            with os.fdopen(draft, "wb") as stream:
                shutil.copyfileobj(written, stream, 2**20)
                stream.flush()
                os.fsync(stream.fileno())
                size = stream.tell()
            os.replace(name, target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    return size


def _no_file() -> Failed:
    return Failed(
        "The snapshot failed", "the reader left no plain file of its own", "Nothing was copied. Look at the source."
    )


def _task(source: SourceFile, copy: Path) -> ReaderTask:
    address = urlsplit(source.url)
    token, authority = (
        "" if path is None else path.read_text(encoding="utf-8") for path in (source.token_file, source.ca_file)
    )
    return ReaderTask(
        out=str(copy),
        host=address.hostname or "",
        port=address.port or 443,
        path=(address.path or "/") + (f"?{address.query}" if address.query else ""),
        token=token.strip(),
        redcap=source.redcap,
        authority=authority,
        most_bytes=source.most_megabytes * 2**20,
        query=source.query,
        tables={name: str(path) for name, path in source.tables.items()},
        database="" if source.database is None else str(source.database),
    )


def _read_in_process(task: ReaderTask) -> None:
    """Run the reader process; raise the error it reports."""
    command = [sys.executable, "-I", "-c", "from dpcape.site.reader_process import main; main()"]
    try:
        done = subprocess.run(
            command,
            # Pass the token and the query through a pipe, because other accounts can read command lines.
            input=msgspec.json.encode(task),
            capture_output=True,
            env=clean_environment(),
            cwd=Path(task.out).parent,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Failed("The snapshot failed", "the reader took over an hour", "Ask for less.") from error
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    if done.returncode == 0:
        return
    try:
        reason = str(json.loads(lines[-1])["error"])[:500]
    except (IndexError, ValueError, KeyError, TypeError):
        reason = f"the reader process ended with code {done.returncode}"
    raise Failed("The snapshot failed", reason, "Nothing was copied. Correct the source file.")
