"""Somebody who asks for pages over a real connection, with full control of what is sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.client import HTTPConnection, HTTPMessage
from urllib.parse import urlencode

FORM = "application/x-www-form-urlencoded"


@dataclass
class Reply:
    status: int
    headers: HTTPMessage
    text: str

    @property
    def forms(self) -> list[Form]:
        parser = _Forms()
        parser.feed(self.text)
        return parser.forms

    def form(self, end: str) -> Form:
        found = [form for form in self.forms if form.action.endswith(end)]
        assert len(found) == 1, (end, [form.action for form in self.forms])
        return found[0]


@dataclass
class Form:
    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict)


class _Forms(HTMLParser):
    """Collects forms with the values a browser would send."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self._select = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "form":
            self.forms.append(Form(given.get("action") or "", given.get("method") or "get"))
        elif tag == "input" and given.get("name") and given.get("type") not in ("file", "checkbox"):
            self.forms[-1].fields[str(given["name"])] = given.get("value") or ""
        elif tag == "select" and self.forms:
            self._select = str(given.get("name") or "")
        elif tag == "option" and self._select and given.get("value"):
            fields = self.forms[-1].fields
            # The first option, unless another is selected.
            if "selected" in given or self._select not in fields:
                fields[self._select] = str(given["value"])

    def handle_endtag(self, tag: str) -> None:
        if tag == "select":
            self._select = ""


class Visitor:
    """A client that remembers its cookie; ``headers`` of a request replace the usual ones, None leaves one out."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self.port, self.host = port, host
        self.cookie = ""
        self.root = ""

    def get(self, path: str, **headers: str | None) -> Reply:
        return self.ask("GET", path, b"", headers)

    def post(self, path: str, fields: dict[str, str], **headers: str | None) -> Reply:
        return self.ask("POST", path, urlencode(fields).encode(), {"Content_Type": FORM, **headers})

    def send(self, form: Form, **values: str) -> Reply:
        """Send a form as a browser would, with some fields filled in."""
        assert form.method == "post"
        return self.post(form.action, {**form.fields, **values})

    def enter(self, code: str) -> Reply:
        reply = self.post("/", {"code": code})
        if reply.status == 303:
            self.cookie = str(reply.headers["Set-Cookie"]).split(";")[0]
            self.root = str(reply.headers["Location"])
        return reply

    def page(self, path: str = "") -> Reply:
        """A page behind the door."""
        return self.get(self.root + path)

    def follow(self, reply: Reply) -> Reply:
        assert reply.status == 303, reply.text
        return self.get(str(reply.headers["Location"]))

    def ask(self, method: str, path: str, body: bytes, headers: dict[str, str | None]) -> Reply:
        usual: dict[str, str | None] = {"Host": f"{self.host}:{self.port}", "Cookie": self.cookie or None}
        if method == "POST":
            usual |= {"Origin": f"http://{self.host}:{self.port}", "Content-Length": str(len(body))}
        usual |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in usual.items():
                if value is not None:
                    connection.putheader(name, value)
            connection.endheaders(body or None)
            answer = connection.getresponse()
            return Reply(answer.status, answer.headers, answer.read().decode("utf-8"))
        finally:
            connection.close()
