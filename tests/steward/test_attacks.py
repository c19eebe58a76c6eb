"""What others try: local users, web pages in the steward's browser, hostile studies, replays."""

from __future__ import annotations

import re
import socket
import threading

import pytest

from dpcape.core.privacy.ledger import Charge
from dpcape.site.folder import SiteFolder
from dpcape.site.page_port import PAGE_FILE, page_port
from dpcape.steward import request_checks as checks
from dpcape.steward import server
from dpcape.steward.request_handler import StewardRequest
from dpcape.steward.sign_in import LONGEST_SESSION, SignIn

from .place import TEXT, Place
from .visitor import FORM, Form, Reply, Visitor


def approve_form(place: Place, steward: Visitor) -> Form:
    return steward.page(f"study/{place.study.digest()}").form("/approve")


# Another user of the same computer.


def test_nothing_is_shown_without_the_code(place: Place, stranger: Visitor) -> None:
    page = stranger.get("/")
    assert page.status == 200
    for secret in ("lyon", "thickness", place.study.digest(), place.server.door.prefix):
        assert secret not in page.text
    root = f"/{place.server.door.prefix}/"
    # Even somebody who knows the place sees nothing there.
    for path in ("", f"study/{place.study.digest()}", "ceilings", "ledger"):
        reply = stranger.get(root + path)
        assert reply.status == 401
        assert "lyon" not in reply.text
        assert "thickness" not in reply.text
    for path in ("/anything", "/study", "/ledger", "/.", "http://127.0.0.1/"):
        assert stranger.get(path).status == 404


def test_a_code_works_once_and_only_the_right_one(place: Place, stranger: Visitor) -> None:
    code = place.server.door.code
    assert len(code.replace("-", "")) == 24
    for wrong in ("", code[:-1], code[:-1] + ("a" if code[-1] != "a" else "b"), code + "a", "é" * 24, "\0"):
        reply = stranger.enter(wrong)
        assert reply.status == 403
        assert reply.headers["Set-Cookie"] is None
        assert code not in reply.text
    assert place.terminal[-1] == "A wrong code was entered on the page."
    assert stranger.enter(f" {code.upper()} ").status == 303
    assert Visitor(place.server.port).enter(code).status == 403
    assert place.server.door.code != code


def test_a_second_sign_in_ends_the_first_and_is_seen_in_the_terminal(place: Place, steward: Visitor) -> None:
    other = Visitor(place.server.port)
    assert other.enter(place.server.door.code).status == 303
    assert steward.page().status == 401
    assert other.page().status == 200
    assert sum("Signed in" in line for line in place.terminal) == 2


def test_signing_out_ends_the_session(place: Place, steward: Visitor) -> None:
    form = steward.page().form("/leave")
    assert steward.send(form).headers["Location"] == "/"
    assert steward.page().status == 401
    assert steward.send(form).status == 401


def test_the_cookie_stays_with_the_page(place: Place, steward: Visitor, stranger: Visitor) -> None:
    cookie = str(stranger.enter(place.server.door.code).headers["Set-Cookie"])
    attributes = [part.strip() for part in cookie.split(";")[1:]]
    # Below a path nobody else knows: cookies do not tell ports of one computer apart.
    assert attributes == [f"Path=/{place.server.door.prefix}/", "HttpOnly", "SameSite=Strict"]
    assert len(place.server.door.prefix) >= 22


def test_a_cookie_of_the_same_name_from_another_port_does_no_harm(place: Place, steward: Visitor) -> None:
    steward.cookie = f"{checks.COOKIE}=tossed; {steward.cookie}; {checks.COOKIE}="
    assert steward.page().status == 200
    steward.cookie = f"{checks.COOKIE}=tossed"
    assert steward.page().status == 401


def test_it_listens_on_loopback_only(place: Place) -> None:
    assert place.server.socket.getsockname()[0] == "127.0.0.1"
    addresses = {"127.0.0.2", *(entry[4][0] for entry in _own_addresses())} - {"127.0.0.1"}
    for address in addresses:
        with pytest.raises(OSError, match=r"refused|unreachable|assign|support"):
            socket.create_connection((str(address), place.server.port), timeout=5)


def _own_addresses() -> list[tuple[object, ...]]:
    try:
        return list(socket.getaddrinfo(socket.gethostname(), None))
    except OSError:
        return []


def test_a_port_in_use_is_refused_in_one_sentence(place: Place) -> None:
    with pytest.raises(ValueError, match=r"port must be free; got \d+"):
        server.StewardServer(place.folder, port=place.server.port, tell=place.terminal.append)


def test_a_port_that_the_engine_may_connect_to_is_refused(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    place.folder.note_serving({"server": f"coordinator.example:{port}", "mode": "confined"})
    with pytest.raises(ValueError, match=f"must not be the federation's.*got {port}"):
        server.StewardServer(place.folder, port=port, tell=place.terminal.append)


def test_the_page_is_noted_while_it_runs_for_the_engines_self_test(place: Place) -> None:
    assert page_port(place.folder.path) == place.server.port
    assert (place.folder.path / PAGE_FILE).stat().st_mode & 0o077 == 0
    place.close()
    assert not (place.folder.path / PAGE_FILE).exists()
    # A note that a killed page left, or that somebody made, is no page.
    for text in ("1\n", "70000", "-4", "x" * 10_000, ""):
        (place.folder.path / PAGE_FILE).write_text(text)
        assert page_port(place.folder.path) is None
    (place.folder.path / PAGE_FILE).unlink()
    (place.folder.path / PAGE_FILE).symlink_to("/etc/hostname")
    assert page_port(place.folder.path) is None


# A web page that is open in the steward's browser.


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": None},
        {"Origin": "null"},
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "none"},
    ],
)
def test_a_form_from_elsewhere_decides_nothing(place: Place, steward: Visitor, headers: dict[str, str | None]) -> None:
    form, kinds = approve_form(place, steward), place.kinds()
    assert steward.post(form.action, form.fields, **headers).status == 403
    assert place.kinds() == kinds
    # The same form from the page itself goes through: the header alone made the difference.
    assert steward.post(form.action, form.fields, Sec_Fetch_Site="same-origin").status == 303


def test_signing_in_from_elsewhere_is_refused_and_uses_no_code(place: Place, stranger: Visitor) -> None:
    code = place.server.door.code
    assert stranger.post("/", {"code": code}, Origin="https://evil.example").status == 403
    assert place.server.door.code == code


@pytest.mark.parametrize("kind", ["text/plain", "application/json", "multipart/form-data; boundary=x", None])
def test_other_kinds_of_bodies_are_refused(place: Place, steward: Visitor, kind: str | None) -> None:
    form, kinds = approve_form(place, steward), place.kinds()
    assert steward.post(form.action, form.fields, Content_Type=kind).status == 415
    assert place.kinds() == kinds


def test_a_form_needs_the_stamp_of_its_own_action(place: Place, steward: Visitor) -> None:
    form, kinds = approve_form(place, steward), place.kinds()
    deny = steward.page(f"study/{place.study.digest()}").form("/deny")
    other = place.variant("n_components = 2", "n_components = 1")
    stamps = ["", "0" * 64, deny.fields["stamp"], form.fields["stamp"].upper(), form.fields["stamp"] + "0", "é"]
    for stamp in stamps:
        assert steward.send(form, stamp=stamp).status == 403
    elsewhere = form.action.replace(place.study.digest(), other.digest())
    assert steward.post(elsewhere, form.fields).status == 403
    assert steward.post(form.action, {k: v for k, v in form.fields.items() if k != "stamp"}).status == 403
    assert place.kinds() == kinds


def test_a_form_of_an_earlier_session_is_void(place: Place, steward: Visitor) -> None:
    form = approve_form(place, steward)
    assert steward.enter(place.server.door.code).status == 303
    assert steward.send(form).status == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_pages_are_not_shown_to_other_pages(place: Place, steward: Visitor, site: str) -> None:
    assert steward.get(steward.root, Sec_Fetch_Site=site).status == 403
    assert steward.get(steward.root, Sec_Fetch_Site="none").status == 200


def test_every_answer_carries_the_headers(place: Place, steward: Visitor, stranger: Visitor) -> None:
    replies = [
        steward.page(),
        steward.page("nothing-here"),
        steward.send(approve_form(place, steward)),
        stranger.get("/"),
        stranger.get("/style.css"),
        stranger.get("/icon.svg"),
        stranger.enter("wrong"),
        stranger.ask("DELETE", "/", b"", {}),
        stranger.get("/", Host="evil.example"),
    ]
    for reply in replies:
        policy = str(reply.headers["Content-Security-Policy"])
        assert policy.startswith("default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self';")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert "script" not in policy
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        assert reply.headers["X-Frame-Options"] == "DENY"
        assert reply.headers["Cache-Control"] == "no-store"
        # Never to another origin; "no-referrer" would make browsers hide the origin of forms from us too.
        assert reply.headers["Referrer-Policy"] == "same-origin"
        assert reply.headers["Access-Control-Allow-Origin"] is None
        assert reply.headers["Server"] == "dpcape"


def test_pages_hold_no_script_and_no_style_of_their_own(place: Place, steward: Visitor) -> None:
    for path in ("", f"study/{place.study.digest()}", "ceilings", "ceilings/cohort", "ledger"):
        text = steward.page(path).text
        assert not re.search(r"<script|<style|\sstyle=|\son[a-z]+=|javascript:|https?://", text), path


def test_secrets_are_in_no_page_and_no_log(place: Place, steward: Visitor, capfd: pytest.CaptureFixture[str]) -> None:
    session = steward.cookie.partition("=")[2]
    for path in ("", f"study/{place.study.digest()}", "ceilings", "ledger"):
        text = steward.page(path).text
        assert session not in text
        assert place.server.door.code not in text
        assert place.folder.identity.private_bytes().hex() not in text
    printed = "\n".join([*place.terminal, *capfd.readouterr()])
    assert session not in printed
    assert place.server.door.prefix not in printed


# A name on the web that was pointed at 127.0.0.1.


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "127.0.0.1.:{port}", "", None, "[::1]:{port}"],
)
def test_another_name_for_this_computer_is_refused(place: Place, steward: Visitor, host: str | None) -> None:
    named = None if host is None else host.format(port=place.server.port)
    form, kinds = approve_form(place, steward), place.kinds()
    for path in ("/", "/style.css", steward.root):
        reply = steward.get(path, Host=named)
        assert reply.status == 421
        assert "lyon" not in reply.text
    reply = steward.post(form.action, form.fields, Host=named, Origin=f"http://{named}")
    assert reply.status == 421
    assert place.kinds() == kinds


def test_localhost_is_this_computer(place: Place) -> None:
    visitor = Visitor(place.server.port, host="localhost")
    assert visitor.enter(place.server.door.code).status == 303
    form = visitor.page(f"study/{place.study.digest()}").form("/approve")
    assert visitor.post(form.action, form.fields, Origin=f"http://127.0.0.1:{place.server.port}").status == 403
    assert visitor.send(form).status == 303


def test_two_hosts_are_none(place: Place) -> None:
    reply = raw(place, f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{place.server.port}\r\nHost: evil.example\r\n\r\n".encode())
    assert reply.startswith(b"HTTP/1.0 421 ")


def raw(place: Place, sent: bytes) -> bytes:
    """Send bytes as they are; return everything that comes back."""
    with socket.create_connection(("127.0.0.1", place.server.port), timeout=30) as connection:
        connection.sendall(sent)
        found = b""
        while chunk := connection.recv(2**16):
            found += chunk
        return found


# Studies made to deceive.


def test_markup_in_a_study_is_text(place: Place, steward: Visitor) -> None:
    script = "<script>alert(1)</script>"
    hostile = place.variant(
        'columns = ["a", "b", "c"]', f'columns = ["a</pre>{script}", \'"><img src=x>\', "c{{{{7*7}}}}"] # {script}'
    )
    for path in ("", f"study/{hostile.digest()}", "ledger"):
        text = steward.page(path).text
        assert "<script" not in text
        assert "<img" not in text
    text = steward.page(f"study/{hostile.digest()}").text
    assert "&lt;script&gt;" in text
    assert "c{{7*7}}" in text


def test_characters_that_turn_text_around_are_shown_by_number(place: Place, steward: Visitor) -> None:
    turned = place.variant('"a"', '"a\u202eb\u2066\u200b"')
    text = steward.page(f"study/{turned.digest()}").text
    assert "⟨U+202E⟩" in text
    assert "⟨U+200B⟩" in text
    assert not set(text) & set("\u202e\u2066\u200b")


@pytest.mark.parametrize("name", ["<b>x</b>", "a\nb", "a/../b", "x" * 65, ""])
def test_names_that_could_deceive_are_not_names(place: Place, name: str) -> None:
    with pytest.raises(ValueError, match="name of"):
        place.written(TEXT.replace('"thickness"', repr(name).replace("'", '"')), "named.toml")


def test_reasons_in_the_ledger_are_text(place: Place, steward: Visitor) -> None:
    place.folder.chain.append("note", {"text": "<b>bold</b>\u202e"}, check=lambda entries: None)
    text = steward.page("ledger").text
    assert "&lt;b&gt;bold&lt;/b&gt;⟨U+202E⟩" in text


@pytest.mark.parametrize(
    "path",
    [
        "study/../../../etc/passwd",
        "study/..%2f..%2fsite.json",
        "study/%2e%2e",
        "../style.css",
        "study/{short}",
        "study/{upper}",
        "study/{digest}/",
        "study/{digest}/study.toml",
        "ceilings/..",
        "ceilings/nosuch",
        "keys/identity.key",
        "static",
        "study/{digest}%00",
    ],
)
def test_addresses_lead_to_pages_only(place: Place, steward: Visitor, path: str) -> None:
    digest = place.study.digest()
    reply = steward.page(path.format(digest=digest, short=digest[:16], upper=digest.upper()))
    assert reply.status in (400, 404)
    assert place.folder.identity.private_bytes().hex() not in reply.text
    assert "Privacy card" not in reply.text


# What was approved, and how often.


def test_a_study_whose_copy_changed_is_not_approved(place: Place, steward: Visitor) -> None:
    form, kinds = approve_form(place, steward), place.kinds()
    place.kept_file().write_text(TEXT.replace("epsilon = 1.0", "epsilon = 1.1"), encoding="utf-8")
    reply = steward.send(form)
    assert reply.status == 400
    assert "has changed since it was reviewed" in reply.text
    assert place.kinds() == kinds
    assert "changed since it was reviewed" in steward.page().text
    assert steward.page(f"study/{place.study.digest()}").status == 400


def test_a_file_that_a_study_names_counts(place: Place, steward: Visitor) -> None:
    (place.home / "columns.txt").write_text("a\nb\nc\n", encoding="utf-8")
    study = place.variant('columns = ["a", "b", "c"]', 'columns = "columns.txt"')
    form = steward.page(f"study/{study.digest()}").form("/approve")
    kept = place.folder.path / "studies" / study.digest() / "columns.txt"
    kept.write_text("a\nb\nd\n", encoding="utf-8")
    assert steward.send(form).status == 400
    assert "approve" not in place.kinds()


def test_an_approval_cannot_be_replayed(place: Place, steward: Visitor) -> None:
    form = approve_form(place, steward)
    assert steward.send(form).status == 303
    again = steward.send(form)
    assert again.status == 409
    assert "was not saved" in again.text
    # Nor after its run was used, which is when it would be worth something.
    place.folder.ledger(place.study, "cohort").charge(
        Charge(allowance="one", mu=0.1, gap=1e-7, tail=1e-13, n_releases=1)
    )
    assert steward.send(form).status == 409
    assert place.kinds().count("approve") == 1


def test_a_command_in_between_makes_the_page_old(place: Place, steward: Visitor) -> None:
    form = approve_form(place, steward)
    SiteFolder(place.folder.path).deny(place.study)
    assert steward.send(form).status == 409
    assert place.study.digest() not in place.folder.state().approvals
    assert steward.send(approve_form(place, steward)).status == 303


def test_a_ceiling_is_confirmed_against_the_ledger_that_was_shown(place: Place, steward: Visitor) -> None:
    confirm = steward.send(steward.page("ceilings/cohort").form("/look"), epsilon="4")
    SiteFolder(place.folder.path).add_data(
        "registry", place.home / "registry.csv", epsilon=1.0, delta=1e-5, different_people=True
    )
    assert steward.send(confirm.form("/set")).status == 409
    assert place.folder.state().ceilings["cohort"].epsilon == 1.2


def test_of_approvals_at_once_one_is_written(place: Place, steward: Visitor) -> None:
    form = approve_form(place, steward)
    ready, replies = threading.Barrier(5), []

    def send() -> None:
        ready.wait()
        replies.append(steward.send(form).status)

    def decide() -> None:
        """The command, at the same time and in its own connection to the ledger."""
        other = SiteFolder(place.folder.path)
        seen = int(form.fields["seen"])
        ready.wait()
        try:
            other.approve(place.study, seen=seen)
            replies.append(303)
        except Exception:
            replies.append(409)

    threads = [threading.Thread(target=send) for _ in range(4)] + [threading.Thread(target=decide)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(replies) == [303, 409, 409, 409, 409]
    assert place.kinds().count("approve") == 1


@pytest.mark.parametrize("runs", ["0", "-1", "1.5", "", "1e3", "9" * 30, "²"])
def test_runs_must_be_a_whole_number(place: Place, steward: Visitor, runs: str) -> None:
    assert steward.send(approve_form(place, steward), runs=runs).status == 400
    assert "approve" not in place.kinds()


@pytest.mark.parametrize("data", ["", "nosuch", "../cohort"])
def test_the_data_set_must_be_one(place: Place, steward: Visitor, data: str) -> None:
    assert steward.send(approve_form(place, steward), data=data).status == 400
    assert "approve" not in place.kinds()


# A ledger that does not hold.


def test_a_restored_ledger_is_refused_on_every_page(place: Place, steward: Visitor) -> None:
    form = approve_form(place, steward)
    head = place.folder.keys / "ledger.head"
    held = head.read_bytes()
    place.folder.pin("kobe", "11" * 32)
    newer = head.read_bytes()
    assert newer != held
    place.close()
    # The table loses its last row, as in a restored backup.
    import sqlite3

    connection = sqlite3.connect(place.folder.path / "ledger.sqlite")
    connection.executescript(
        "DROP TRIGGER no_delete; DELETE FROM entries WHERE number = (SELECT MAX(number) FROM entries);"
    )
    connection.close()
    other = server.StewardServer(SiteFolder(place.folder.path), tell=place.terminal.append)
    thread = threading.Thread(target=other.run)
    thread.start()
    try:
        visitor = Visitor(other.port)
        visitor.enter(other.door.code)
        for path in ("", "ceilings", "ledger", f"study/{place.study.digest()}"):
            reply = visitor.page(path)
            assert reply.status == 409
            assert "does not contain" in reply.text
        stamped = {
            **form.fields,
            "stamp": other.door.stamp(f"/{other.door.prefix}/study/{place.study.digest()}/approve"),
        }
        reply = visitor.post(f"{visitor.root}study/{place.study.digest()}/approve", stamped)
        assert reply.status == 409
    finally:
        other.stop()
        thread.join()


# Too much, too slow, not HTTP.


def test_a_huge_body_is_refused_unread(place: Place, steward: Visitor) -> None:
    form = approve_form(place, steward)
    assert steward.post(form.action, form.fields, Content_Length=str(10**11)).status == 413
    assert steward.post(form.action, {**form.fields, "more": "x" * 2**15}).status == 413
    assert steward.ask("POST", "/", b"x" * 2**19, {"Content-Type": FORM}).status == 413
    form = steward.page().form("/add")
    kind = {"Content-Type": "multipart/form-data; boundary=x", "Content-Length": str(2**24 + 1)}
    assert steward.ask("POST", form.action, b"", {**kind}).status == 413


@pytest.mark.parametrize("length", ["-1", "x", "", "1e3", "9" * 40, "²"])
def test_a_length_must_be_one(place: Place, steward: Visitor, length: str) -> None:
    form = approve_form(place, steward)
    sent = (
        f"POST {form.action} HTTP/1.1\r\nHost: 127.0.0.1:{steward.port}\r\nOrigin: http://127.0.0.1:{steward.port}\r\n"
        f"Cookie: {steward.cookie}\r\nContent-Type: {FORM}\r\nContent-Length: {length}\r\n\r\n"
    )
    assert raw(place, sent.encode()).startswith(b"HTTP/1.0 411 ")


def test_chunks_are_refused(place: Place, steward: Visitor) -> None:
    form = approve_form(place, steward)
    assert steward.post(form.action, form.fields, Transfer_Encoding="chunked").status == 501
    assert "approve" not in place.kinds()


def test_fields_given_twice_or_too_many_are_refused(place: Place, steward: Visitor) -> None:
    form = approve_form(place, steward)
    body = "&".join(f"{name}={value}" for name, value in form.fields.items())
    for more in ("&runs=1000", "&x" * 40, "&x=%ff"):
        assert steward.ask("POST", form.action, (body + more).encode(), {"Content-Type": FORM}).status == 400
    assert "approve" not in place.kinds()


@pytest.mark.parametrize(
    "body",
    [b"", b"--x", b"--x\r\n\r\n--x--", b'--x\r\nContent-Disposition: form-data; name="stamp"\r\n\r\nv', b"\xff" * 64,
     b'--x\r\nContent-Disposition: form-data; name="stamp"\r\n\r\nv\r\n' * 40 + b"--x--"],
)  # fmt: skip
def test_broken_files_forms_are_refused(place: Place, steward: Visitor, body: bytes) -> None:
    form = steward.page().form("/add")
    reply = steward.ask("POST", form.action, body, {"Content-Type": "multipart/form-data; boundary=x"})
    assert reply.status in (400, 403)


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n",
        b"BREW / HTTP/1.1\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\n\r\n",
    ],
)
def test_what_is_not_asked_properly_gets_a_sentence(place: Place, sent: bytes) -> None:
    reply = raw(place, sent)
    assert re.match(rb"HTTP/1.0 (400|414|431|501|505) ", reply), reply[:80]
    assert b"Content-Security-Policy" in reply
    assert b"Traceback" not in reply


def test_silent_connections_are_dropped(place: Place, steward: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LONGEST_ARRIVAL", 0.5)
    silent, slow = (socket.create_connection(("127.0.0.1", place.server.port)) for _ in range(2))
    slow.sendall(b"POST / HTTP/1.1\r\nContent-Length: 10\r\n")
    for connection in (silent, slow):
        connection.settimeout(15)
        assert connection.recv(1) == b""
        connection.close()


def test_many_silent_connections_do_not_keep_the_steward_out(
    place: Place, steward: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    # They would not go by themselves while the steward waits.
    monkeypatch.setattr(StewardRequest, "timeout", 300)
    held = [socket.create_connection(("127.0.0.1", place.server.port)) for _ in range(server.MOST_CONNECTIONS + 20)]
    try:
        assert steward.page().status == 200
        assert threading.active_count() <= server.MOST_CONNECTIONS + 10
    finally:
        for connection in held:
            connection.close()


def test_something_unexpected_says_nothing_of_itself(
    place: Place, steward: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> Reply:
        raise KeyError("a secret detail")

    monkeypatch.setattr(place.server.desk, "show", broken)
    reply = steward.page()
    assert reply.status == 500
    assert "secret detail" not in reply.text
    assert any("KeyError" in line for line in place.terminal)


# Time.


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_only_the_steward_keeps_the_page_open() -> None:
    clock = Clock()
    door = SignIn(clock)
    clock.now += 50
    session = door.enter(door.code)
    assert session is not None
    assert door.idle() == 0
    clock.now += 60
    assert not door.admits(["guess"])
    assert door.enter("guess") is None
    assert door.idle() == 60
    assert door.admits([session])
    assert door.idle() == 0


def test_a_session_ends_after_eight_hours_however_busy() -> None:
    clock = Clock()
    door = SignIn(clock)
    session = door.enter(door.code)
    assert session is not None
    clock.now += LONGEST_SESSION
    assert door.admits([session])
    clock.now += 1
    assert not door.admits([session])


def test_before_anybody_signed_in_no_stamp_is_valid() -> None:
    door = SignIn()
    assert not door.stamped("/x", door.stamp("/x"))
    assert not door.admits([""])


def test_it_ends_when_left_alone(place: Place) -> None:
    idle = server.StewardServer(place.folder, idle_seconds=0.2, tell=place.terminal.append)
    port = idle.port
    assert idle.run()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), timeout=5)
