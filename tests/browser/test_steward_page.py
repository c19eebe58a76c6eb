"""The steward's page in a browser: a decision from sign-in to the ledger, with and without scripts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from dpcape.cli import main
from dpcape.core.privacy.ledger import Charge
from dpcape.core.secure_sum.identity import Identity
from dpcape.site.folder import SiteFolder
from dpcape.steward.server import StewardServer
from dpcape.study.study import Study

pytestmark = pytest.mark.browser

TEXT = """# Cortical thickness of three cohorts
[study]
name = "{name}"
analysis = "{analysis}"
{more}
epsilon = {epsilon}
delta = 1e-5

[protocol]
kind = "cape"
n_colluding = 1

[sites.lima]
records = 800
[sites.lyon]
records = 1200
[sites.oslo]
records = 950

[data]
kind = "rows"
bound = 1.0
[data.columns]
age = [18, 90]
thickness_left = [1, 5]
thickness_right = [1, 5]
"""


def typed(*words: str | Path) -> None:
    result = CliRunner().invoke(main, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output


class Site:
    """The folder of "lyon" with a history, and its page."""

    def __init__(self, home: Path) -> None:
        self.home = home
        rows = np.random.default_rng(3).normal([50, 3, 3], [10, 0.4, 0.4], size=(40, 3))
        # Some values were not measured.
        rows[:6, 1] = -9999
        header = "age,thickness_left,thickness_right"
        for number, name in enumerate(("cohort", "registry")):
            np.savetxt(home / f"{name}.csv", rows + number, delimiter=",", header=header, comments="")
        folder = home / "lyon"
        typed("site", "init", folder, "--name", "lyon")
        typed("site", "add", "cohort", home / "cohort.csv", "--epsilon", "3", "--delta", "1e-5", "--folder", folder)
        budget = ("--epsilon", "1.5", "--delta", "1e-6", "--per-study", "1")
        typed("site", "add", "registry", home / "registry.csv", *budget, "--different-people", "--folder", folder)
        for other in ("lima", "oslo"):
            typed("site", "pin", other, Identity.generate().public.hex(), "--folder", folder)
        self.folder = SiteFolder(folder)
        self._history()
        self.study = self.written("thickness-pca", analysis="pca", more="n_components = 2", epsilon=1.0)
        self.folder.keep(self.study)
        self.folder.keep(self.written("age-means", analysis="mean", more="", epsilon=2.5))
        self.server = StewardServer(SiteFolder(folder), tell=lambda line: None)
        self.server.timeout = 0.05
        self._thread = threading.Thread(target=self.server.run)
        self._thread.start()

    def written(self, name: str, *, analysis: str, more: str, epsilon: float) -> Study:
        text = TEXT.format(name=name, analysis=analysis, more=more, epsilon=epsilon)
        (self.home / f"{name}.toml").write_text(text, encoding="utf-8")
        return Study.load(self.home / f"{name}.toml")

    def _history(self) -> None:
        """Three studies that ran, one that may still run, one that was denied."""
        for number, epsilon in enumerate((0.5, 0.8, 0.3)):
            study = self.written(f"pilot-{number + 1}", analysis="mean", more="", epsilon=epsilon)
            self.folder.approve(study, "cohort")
            charge = study.charge("lyon")
            paid = Charge(allowance=f"{number}" * 32, mu=charge.mu, gap=charge.gap, tail=charge.tail, n_releases=1)
            ledger = self.folder.ledger(study, "cohort")
            ledger.charge(paid)
            ledger.next_release(paid.allowance, 0)
        waiting = self.written("follow-up", analysis="mean", more="", epsilon=0.6)
        self.folder.approve(waiting, "cohort", runs=2)
        self.folder.deny(self.written("whole-genome", analysis="mean", more="", epsilon=9.0))

    def close(self) -> None:
        self.server.stop()
        self._thread.join(timeout=30)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


def signed_in(page: Any, site: Site) -> Any:
    page.goto(site.server.address)
    page.get_by_label("Code").fill(site.server.door.code)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Studies", exact=True).wait_for()
    return page


def decide(page: Any, site: Site) -> None:
    """The steward's way through the page: look, approve, raise a ceiling, check the ledger."""
    signed_in(page, site)
    page.get_by_role("link", name="thickness-pca").click()
    page.get_by_label("How often it may run").fill("2")
    page.get_by_role("button", name="Approve thickness-pca").click()
    assert "Approved: thickness-pca on cohort, 2 runs." in page.get_by_role("status").inner_text()
    assert site.folder.state().approvals[site.study.digest()] == ("cohort", 2)
    page.get_by_role("button", name="Revoke approval").click()
    assert site.study.digest() not in site.folder.state().approvals
    page.get_by_role("link", name="Ceilings").click()
    page.get_by_role("link", name="Change the ceiling of cohort").click()
    page.get_by_label("Epsilon of all studies").fill("4")
    page.get_by_role("button", name="Show what would change").click()
    assert "This raises the ceiling." in page.locator("main").inner_text()
    page.get_by_role("button", name="Raise the ceiling of cohort").click()
    assert site.folder.state().ceilings["cohort"].epsilon == 4.0
    page.get_by_role("link", name="Ledger").click()
    assert "the ledger is intact" in page.get_by_role("status").inner_text()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("Code").wait_for()


def test_a_decision_from_sign_in_to_the_ledger(page: Any, site: Site) -> None:
    decide(page, site)


def test_no_script_is_needed(browser: Any, site: Site) -> None:
    context = browser.new_context(java_script_enabled=False)
    decide(context.new_page(), site)
    context.close()


def test_a_study_file_is_added_by_hand(page: Any, site: Site) -> None:
    site.written("sent-by-mail", analysis="mean", more="", epsilon=0.4)
    signed_in(page, site)
    page.get_by_text("Add a study").click()
    page.get_by_label("Study file").set_input_files(site.home / "sent-by-mail.toml")
    page.get_by_role("button", name="Add for review").click()
    page.get_by_role("heading", name="sent-by-mail").wait_for()
    assert page.get_by_text("pending").count() == 1


def test_the_cookie_does_not_reach_another_server_of_this_computer(page: Any, site: Site) -> None:
    """A page of another port is of the same site for cookies; it must still not be handed the session."""
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    handed: list[str] = []

    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            handed.append(self.headers.get("Cookie", ""))
            body = b'<!DOCTYPE html><link rel="icon" href="data:,"><a href="/again">again</a>'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Other) as other:
        thread = threading.Thread(target=other.serve_forever)
        thread.start()
        signed_in(page, site)
        page.goto(f"http://127.0.0.1:{other.server_address[1]}/")
        page.get_by_role("link", name="again").click()
        page.wait_for_url("**/again")
        other.shutdown()
        thread.join()
    assert len(handed) >= 2
    assert not any(handed)


def test_a_form_on_another_page_decides_nothing(page: Any, site: Site, tmp_path: Path) -> None:
    """Even one that knows the address and the stamp: the browser says where it comes from."""
    signed_in(page, site)
    kinds = [entry.kind for entry in site.folder.chain.entries()]
    address = f"/{site.server.door.prefix}/study/{site.study.digest()}/approve"
    fields = {"stamp": site.server.door.stamp(address), "seen": str(len(kinds)), "data": "cohort", "runs": "1"}
    inputs = "".join(f'<input name="{name}" value="{value}">' for name, value in fields.items())
    action = site.server.address.rstrip("/") + address
    (tmp_path / "trap.html").write_text(
        f'<!DOCTYPE html><form method="post" action="{action}">{inputs}<button>Win</button></form>', encoding="utf-8"
    )
    page.goto((tmp_path / "trap.html").as_uri())
    page.get_by_role("button", name="Win").click()
    page.get_by_role("alert").wait_for()
    assert "not sent from this page" in page.get_by_role("alert").inner_text()
    assert [entry.kind for entry in site.folder.chain.entries()] == kinds
    # The refusal itself is reported in the console.
    assert all("403" in error for error in page.errors)
    page.errors.clear()


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("steward-studies", ""),
        ("steward-study", "study/{digest}"),
        ("steward-check", "study/{digest}/check?data=cohort"),
        ("steward-ceilings", "ceilings"),
        ("steward-ceiling-form", "ceilings/registry"),
        ("steward-ledger", "ledger"),
    ],
)
def test_pages_are_accessible_and_fit(
    page: Any,
    site: Site,
    name: str,
    path: str,
    screenshot: Callable[[Any, str], list[Path]],
    accessible: Callable[..., None],
) -> None:
    signed_in(page, site)
    page.goto(page.url + path.format(digest=site.study.digest()))
    accessible(page)
    screenshot(page, name)


def test_the_other_pages_are_accessible_too(
    page: Any, site: Site, screenshot: Callable[[Any, str], list[Path]], accessible: Callable[..., None]
) -> None:
    page.goto(site.server.address)
    accessible(page)
    screenshot(page, "steward-sign-in")
    signed_in(page, site)
    root = page.url
    page.goto(root + "ceilings/registry")
    page.get_by_label("Epsilon of all studies").fill("2")
    page.get_by_role("button", name="Show what would change").click()
    accessible(page)
    screenshot(page, "steward-raise")
    page.goto(root + "ceilings/registry")
    page.get_by_label("Delta strictly").fill("2")
    page.get_by_role("button", name="Show what would change").click()
    accessible(page)
    screenshot(page, "steward-refused")
    assert all("400" in error for error in page.errors)
    page.errors.clear()


def test_a_printed_study_has_its_card_on_the_first_page(page: Any, site: Site) -> None:
    signed_in(page, site)
    page.get_by_role("link", name="thickness-pca").click()
    page.emulate_media(media="print")
    # A4 without margins of 15 mm, at 96 pixels an inch.
    page.set_viewport_size({"width": 680, "height": 1009})
    card = page.locator(".dpcape-card").bounding_box()
    assert card["y"] + card["height"] < 1009
    page.emulate_media(media="screen")
