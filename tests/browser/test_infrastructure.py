"""The guards of the browser tests must bite: a page that fetches, overflows or cannot be read is caught."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import overflow, resized

pytestmark = pytest.mark.browser

GOOD = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Good</title>
<meta name="viewport" content="width=device-width, initial-scale=1"></head>
<body style="color:#111;background:#fff"><main><h1>Good</h1><p>Words.</p>BODY</main></body></html>"""


def write(folder: Path, body: str = "") -> Path:
    path = folder / "page.html"
    path.write_text(GOOD.replace("BODY", body))
    return path


@pytest.fixture
def loopback() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as server:
        # The page under test never reaches a handler that logs: only the socket matters here.
        server.RequestHandlerClass = _Quiet
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


class _Quiet(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        content = GOOD.replace("BODY", "").encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


def test_good_page(open_file: Any, tmp_path: Path, accessible: Any, screenshot: Any) -> None:
    page = open_file(write(tmp_path))
    accessible(page)
    widths = [int.from_bytes(path.read_bytes()[16:20], "big") for path in screenshot(page, "infrastructure")]
    # A phone has two pixels per CSS pixel.
    assert widths == [1280, 1280, 780, 780]
    assert page.evaluate("innerWidth") == 1280


def test_a_page_too_wide_for_a_phone_is_caught(open_file: Any, tmp_path: Path, screenshot: Any) -> None:
    page = open_file(write(tmp_path, '<div style="width:600px">Too wide.</div>'))
    with pytest.raises(AssertionError, match="390-light must not scroll sideways"):
        screenshot(page, "infrastructure")


def test_loopback_is_allowed(page: Any, loopback: str) -> None:
    page.goto(loopback)
    assert page.title() == "Good"


@pytest.mark.parametrize(
    "body",
    [
        '<img alt="" src="https://example.org/pixel.png">',
        '<script>fetch("http://example.org/count").catch(() => 0)</script>',
        '<script>new WebSocket("wss://example.org/socket")</script>',
        "<style>@import url(https://example.org/font.css);</style>",
    ],
)
def test_requests_outside_are_seen(open_file: Any, tmp_path: Path, body: str) -> None:
    page = open_file(write(tmp_path, body))
    page.wait_for_timeout(100)
    assert len(page.outside) == 1
    assert "example.org" in page.outside[0]
    # Seen, as this test wanted; the fixture would fail it otherwise.
    page.outside.clear()
    page.errors.clear()


@pytest.mark.parametrize("script", ["throw new Error('broken')", "console.error('broken')"])
def test_errors_are_seen(open_file: Any, tmp_path: Path, script: str) -> None:
    page = open_file(write(tmp_path, f"<script>{script}</script>"))
    assert page.errors
    page.errors.clear()


def test_poor_contrast_is_seen(open_file: Any, tmp_path: Path, accessible: Any) -> None:
    page = open_file(write(tmp_path, '<p style="color:#bbb">Too pale to read.</p>'))
    with pytest.raises(AssertionError, match="contrast"):
        accessible(page)


def test_phone_width_is_real(open_file: Any, tmp_path: Path) -> None:
    page = open_file(write(tmp_path, '<div style="width:600px">Too wide.</div>'))
    session = resized(page, 390)
    assert page.evaluate("innerWidth") >= 390
    assert page.evaluate("matchMedia('(max-width: 390px)').matches")
    assert overflow(page) > 0
    session.detach()
