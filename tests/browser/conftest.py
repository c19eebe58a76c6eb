"""Pages in a real browser, without a network.

Fixtures: ``page`` (fresh; the test fails if it asks for anything beyond files and loopback, or reports an error),
``open_file(path)``, ``screenshot(page, name)`` (1280 and 390 pixels wide, light and dark, kept under
``out/screenshots``), ``accessible(page)`` (axe-core, WCAG 2.2 A and AA, light and dark).
"""

from __future__ import annotations

import base64
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHOTS = ROOT / "out" / "screenshots"
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Names resolve to nothing: what the guard below would miss still reaches nobody.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Headless Chromium with a profile of its own."""
    api = pytest.importorskip("playwright.sync_api", reason="make test-pages installs the extra pages")
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    assert found, "chromium must be installed; scripts/install-browser does it"
    with api.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=found, args=list(FLAGS))
        yield running
        running.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A fresh page; afterwards it must have asked for nothing outside and have reported no error."""
    context = browser.new_context(viewport=DESKTOP, permissions=["clipboard-read", "clipboard-write"])
    outside: list[str] = []
    errors: list[str] = []

    def guard(route: Any) -> None:
        if is_local(route.request.url):
            route.continue_()
        else:
            outside.append(route.request.url)
            route.abort()

    context.route("**/*", guard)
    # Sockets do not pass through routes of requests.
    context.route_web_socket("**/*", lambda socket: outside.append(socket.url))
    made = context.new_page()
    made.on("pageerror", lambda error: errors.append(str(error)))
    made.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    made.outside, made.errors = outside, errors
    yield made
    context.close()
    assert outside == [], "a page must not ask for anything beyond files and loopback"
    assert errors == [], "a page must report no errors"


def is_local(url: str) -> bool:
    """Tell whether a request stays on this machine."""
    parts = urlsplit(url)
    return parts.scheme in ("file", "data", "blob", "about") or parts.hostname == "127.0.0.1"


@pytest.fixture
def open_file(page: Any) -> Callable[[Path], Any]:
    """Open a file in the page and return the page."""

    def opened(path: Path) -> Any:
        page.goto(path.resolve().as_uri())
        return page

    return opened


@pytest.fixture
def screenshot() -> Callable[[Any, str], list[Path]]:
    """Keep pictures of the whole page at two widths, light and dark; leave the page as it was."""

    def taken(page: Any, name: str) -> list[Path]:
        SHOTS.mkdir(parents=True, exist_ok=True)
        paths = [
            pictured(page, SHOTS / f"{name}-{width}-{scheme}.png", width=width, scheme=scheme)
            for width in (1280, 390)
            for scheme in ("light", "dark")
        ]
        page.emulate_media(color_scheme="light")
        page.set_viewport_size(DESKTOP)
        return paths

    return taken


def pictured(page: Any, path: Path, *, width: int, scheme: str) -> Path:
    """Write one picture of the whole page; it must fit the width."""
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    session = resized(page, width)
    page.evaluate("scrollTo(0, 0)")
    # Two frames: layout that follows the width has happened after them.
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    excess = overflow(page)
    height = page.evaluate("document.documentElement.scrollHeight")
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    shot = session.send("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
    path.write_bytes(base64.b64decode(shot["data"]))
    session.send("Emulation.clearDeviceMetricsOverride")
    session.detach()
    assert excess <= 0, f"{path.stem} must not scroll sideways; got {excess} pixels too many"
    return path


def resized(page: Any, width: int) -> Any:
    """Emulate a screen of this width by its device metrics, so that the viewport tag counts as on a phone."""
    session = page.context.new_cdp_session(page)
    metrics = PHONE if width == PHONE["width"] else {**DESKTOP, "deviceScaleFactor": 1, "mobile": False}
    session.send("Emulation.setDeviceMetricsOverride", metrics)
    return session


def overflow(page: Any) -> int:
    """Pixels by which the page is wider than its screen."""
    width: int = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return width


@pytest.fixture
def accessible() -> Callable[..., None]:
    """Hold a page against axe-core in both colour schemes."""

    def checked(page: Any, *, schemes: tuple[str, ...] = ("light", "dark")) -> None:
        from axe_playwright_python.sync_playwright import Axe

        for scheme in schemes:
            page.emulate_media(color_scheme=scheme)
            found = Axe().run(page, options={"runOnly": {"type": "tag", "values": RULES}})
            assert found.response["passes"], "axe-core must have had something to check"
            assert found.violations_count == 0, f"{scheme}: {found.generate_report()}"
        page.emulate_media(color_scheme="light")

    return checked
