"""Copies of remote sources and queries: by a process that reaches one host, and neither ledger nor keys."""

from __future__ import annotations

import csv
import datetime
import http.server
import ipaddress
import json
import os
import socket
import sqlite3
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dpcape import rows
from dpcape.cli import main
from dpcape.core.errors import DpcapeError, Failed, InvalidParameter
from dpcape.site.reader_process import ReaderTask
from dpcape.site.snapshot import SourceFile, snapshot
from dpcape.site.vault.landlock import abi

pytestmark = pytest.mark.skipif(abi() < 1, reason="a reader is confined by Landlock, which this kernel does not have")
TABLE = "age,score\n30,1.5\n44,\n51,2.25\n"


def certificate(folder: Path, host: str) -> Path:
    """Write a key and a certificate of its own authority for a host; return the certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])
    now = datetime.datetime.now(datetime.UTC)
    alternative: x509.GeneralName = (
        x509.IPAddress(ipaddress.ip_address(host)) if host[0].isdigit() else x509.DNSName(host)
    )
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    (folder / "ca.pem").write_bytes(made.public_bytes(pem))
    return folder / "ca.pem"


class Host(http.server.BaseHTTPRequestHandler):
    """Answers with a table, if it was asked as it should be."""

    asked: list[tuple[str, str, str]] = []  # noqa: RUF012  # emptied by the fixture

    def do_GET(self) -> None:
        self.asked.append(("GET", self.path, self.headers.get("Authorization", "")))
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", f"https://127.0.0.1:{self.server.server_address[1]}/table.csv")  # type: ignore[attr-defined]
            self.end_headers()
            return
        self._send(TABLE * (200_000 if self.path == "/large" else 1))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.asked.append(("POST", self.path, body))
        self._send(TABLE)

    def _send(self, text: str) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    certificate(tmp_path, "127.0.0.1")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Host)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "ca.pem", tmp_path / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    Host.asked.clear()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def source_file(folder: Path, text: str) -> Path:
    (folder / "source.toml").write_text(f"[source]\n{text}\n")
    return folder / "source.toml"


def test_a_remote_file_is_copied_from_the_declared_host(tmp_path: Path, port: int) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    source = source_file(
        tmp_path, f'url = "https://127.0.0.1:{port}/table.csv?x=1"\nca_file = "ca.pem"\ntoken_file = "token"'
    )
    result = CliRunner().invoke(main, ["site", "snapshot", str(source), str(tmp_path / "copy.csv"), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["bytes"] == len(TABLE)
    assert Host.asked == [("GET", "/table.csv?x=1", "Bearer s3cret")]
    assert (tmp_path / "copy.csv").read_text() == TABLE
    assert (tmp_path / "copy.csv").stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.glob(".snapshot-*"))
    # What is there already stays, unless it is to be replaced.
    again = ["site", "snapshot", str(source), str(tmp_path / "copy.csv")]
    assert "exists" in CliRunner().invoke(main, again).output
    assert CliRunner().invoke(main, [*again, "--replace"]).exit_code == 0


def test_redcap_is_asked_for_raw_records(tmp_path: Path, port: int) -> None:
    (tmp_path / "token").write_text("AB12")
    source = source_file(
        tmp_path, f'url = "https://127.0.0.1:{port}/api/"\nca_file = "ca.pem"\ntoken_file = "token"\nredcap = true'
    )
    snapshot(SourceFile.load(source), tmp_path / "copy.csv")
    ((verb, path, body),) = Host.asked
    assert (verb, path) == ("POST", "/api/")
    assert set(body.split("&")) == {"token=AB12", "content=record", "format=csv", "type=flat", "rawOrLabel=raw"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("/table.csv", "/moved"), "status 302; redirections are not followed"),
        (("127.0.0.1", "localhost"), "the host's certificate is not accepted"),
        (('ca_file = "ca.pem"', ""), "the host's certificate is not accepted"),
        (("/table.csv", "/large"), "more than 1 megabytes"),
    ],
)
def test_what_the_host_must_not_do(tmp_path: Path, port: int, change: tuple[str, str], words: str) -> None:
    text = f'url = "https://127.0.0.1:{port}/table.csv"\nca_file = "ca.pem"\nmost_megabytes = 1'
    source = SourceFile.load(source_file(tmp_path, text.replace(*change)))
    with pytest.raises(Failed, match=words):
        snapshot(source, tmp_path / "copy.csv")
    assert not (tmp_path / "copy.csv").exists()
    assert not list(tmp_path.glob(".snapshot-*"))
    assert len(Host.asked) <= 1


def test_a_query_is_copied_as_csv_with_every_digit(tmp_path: Path) -> None:
    values = np.random.default_rng(3).normal(size=20)
    with closing(sqlite3.connect(tmp_path / "cohort.sqlite")) as line, line:
        line.execute("CREATE TABLE people (id INTEGER, x REAL, note TEXT)")
        rows_ = [
            (number, value, None if number % 5 == 0 else 'a "b", c') for number, value in enumerate(values.tolist())
        ]
        line.executemany("INSERT INTO people VALUES (?, ?, ?)", rows_)
    source = source_file(tmp_path, 'query = "SELECT id, x, note FROM people ORDER BY id"\ndatabase = "cohort.sqlite"')
    snapshot(SourceFile.load(source), tmp_path / "copy.csv")
    found = list(csv.DictReader((tmp_path / "copy.csv").read_text().splitlines()))
    assert [float(line["x"]) for line in found] == values.tolist()
    assert [line["note"] for line in found][:2] == ["", 'a "b", c']
    assert rows(tmp_path / "copy.csv", ranges={"x": (-4, 4)}).n_records == 20


def test_a_query_over_files_runs_in_the_reader(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    (tmp_path / "visits.csv").write_text(TABLE)
    source = source_file(tmp_path, 'query = "SELECT age FROM v WHERE age > 40"\ntables = { v = "visits.csv" }')
    snapshot(SourceFile.load(source), tmp_path / "copy.csv")
    assert (tmp_path / "copy.csv").read_text().split() == ["age", "44", "51"]
    stealing = source_file(tmp_path, 'query = "SELECT * FROM read_csv(\'/etc/passwd\')"\ntables = { v = "visits.csv" }')
    with pytest.raises(Failed, match="The query failed"):
        snapshot(SourceFile.load(stealing), tmp_path / "other.csv")


# What is tried in the reader's sandbox; each must succeed outside of it.
PROBE = """
import json, os, socket, subprocess, sys
from dpcape.site.reader_process import ReaderTask, reader_sandbox
from dpcape.site.vault.sandbox import confine
secret, out, port, confined = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "confined"
def attempt(action):
    try:
        action()
        return True
    except OSError:
        return False
table = os.path.join(os.path.dirname(secret), "table.csv")
if confined:
    task = ReaderTask(out=os.path.join(out, "part.csv"), host="127.0.0.1", port=port, tables={"t": table})
    confine(reader_sandbox(task))
print(json.dumps({
    "reads a key": attempt(lambda: open(secret).read()),
    "lists the folder": attempt(lambda: os.listdir(os.path.dirname(secret))),
    "writes beside": attempt(lambda: open(secret + ".new", "w").close()),
    "connects": attempt(lambda: socket.create_connection(("127.0.0.1", port), 2).close()),
    "starts a program": attempt(lambda: subprocess.run(["/bin/true"], check=True)),
    "reads its table": attempt(lambda: open(table).read()),
    "writes its file": attempt(lambda: open(os.path.join(out, "part.csv"), "w").close()),
}))
"""


def probed(folder: Path, port: int, how: str) -> dict[str, Any]:
    arguments = [
        sys.executable,
        "-c",
        PROBE,
        str(folder / "site" / "identity.key"),
        str(folder / "out"),
        str(port),
        how,
    ]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, env={**os.environ})
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_reader_reaches_its_tables_and_its_file_and_nothing_else(tmp_path: Path) -> None:
    for name in ("site", "out"):
        (tmp_path / name).mkdir()
    (tmp_path / "site" / "identity.key").write_text("secret")
    (tmp_path / "site" / "table.csv").write_text(TABLE)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert all(probed(tmp_path, port, "free").values())
        confined = probed(tmp_path, port, "confined")
    assert {name for name, done in confined.items() if done} == {"reads its table", "writes its file"}


# The reader itself, with a query that tells what it reaches while it runs.
TELLING = """
import sys
from dpcape.records.readers import sql
from dpcape.site import reader_process
def reached(query, n_rows):
    try:
        open(sys.argv[1]).close()
        found = 1.0
    except OSError:
        found = 0.0
    yield {"reached": [found]}
if sys.argv[2] == "free":
    reader_process._confine = lambda task: None
sql.Query._run = reached
reader_process.main()
"""


@pytest.mark.parametrize(("how", "reached"), [("free", "1"), ("confined", "0")])
def test_a_query_runs_after_the_reader_is_confined(tmp_path: Path, how: str, reached: str) -> None:
    (tmp_path / "identity.key").write_text("secret")
    (tmp_path / "table.csv").write_text(TABLE)
    (tmp_path / "out").mkdir()
    task = ReaderTask(
        out=str(tmp_path / "out" / "part.csv"), query="SELECT 1", tables={"t": str(tmp_path / "table.csv")}
    )
    command = [sys.executable, "-c", TELLING, str(tmp_path / "identity.key"), how]
    subprocess.run(command, input=msgspec.json.encode(task), check=True)
    assert (tmp_path / "out" / "part.csv").read_text().split() == ["reached", reached]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must have url or query"),
        ('url = "http://host/x.csv"', "must be https"),
        ('url = "https://me:pw@host/x.csv"', "without a user name"),
        ('url = "https://host/x.csv"\nquery = "SELECT 1"', "must have url or query"),
        ('url = "https://host/api/"\nredcap = true', "token_file must be given in .source."),
        ('url = "https://host/x.csv"\ntoken = "x"', "fields of .source. must be .*; got 'token'"),
        ('url = "https://host/x.csv"\nca_file = "nowhere.pem"', "an existing file"),
        ('query = "SELECT 1"', "tables or database"),
        ('url = "https://host/x.csv"\nmost_megabytes = 0', "a whole number from 1"),
    ],
)
def test_mistakes_in_a_source_file(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(DpcapeError, match=words):
        SourceFile.load(source_file(tmp_path, text))


def test_names_of_copies(tmp_path: Path) -> None:
    source = SourceFile(query="SELECT 1 AS a", database=tmp_path / "x")
    with pytest.raises(InvalidParameter, match="must end in csv"):
        snapshot(source, tmp_path / "copy.parquet")


@pytest.mark.parametrize("make", [os.symlink, os.link, lambda secret, part: os.mkfifo(part)])
def test_a_link_in_place_of_the_copy_is_not_followed(
    tmp_path: Path, make: Callable[[Path, Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader reads bytes of others: if they took it over, it could point at a key of this site."""
    secret = tmp_path / "identity.key"
    secret.write_text("secret")
    secret.chmod(0o640)
    (tmp_path / "people.csv").write_text(TABLE)
    monkeypatch.setattr("dpcape.site.snapshot._read_in_process", lambda task: make(secret, Path(task.out)))
    source = SourceFile(query="SELECT * FROM people", tables={"people": tmp_path / "people.csv"})
    with pytest.raises(Failed, match="no plain file"):
        snapshot(source, tmp_path / "copy.csv")
    assert secret.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["identity.key", "people.csv"]
