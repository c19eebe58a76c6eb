"""Words and pages: help of the commands, the privacy card, the report of a run and the steward's pages."""

from __future__ import annotations

import hashlib
import re
import warnings
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import click
import numpy as np

import dpcape

from .fixed import HEAD, LYON_STUDY, ROWS, written_site
from .places import PLANNED, Charge, Pages, Spent, Study, card_html, card_of, card_text, errors, main, run_in_process
from .repeated import repeated


def help_texts() -> dict[str, str]:
    """Return the help of every command, 80 columns wide."""
    found: dict[str, str] = {}

    def visit(command: click.Command, name: str, parent: click.Context | None) -> None:
        # As when it is invoked: Click keeps the help option of a command from its first use in this process.
        settings = {"terminal_width": 80, "max_content_width": 80, **command.context_settings}
        context = click.Context(command, info_name=name, parent=parent, **settings)
        # The names of what can be planned follow from descriptions.
        found[context.command_path] = command.get_help(context).replace("|".join(PLANNED), "ANALYSIS|...")
        if isinstance(command, click.Group):
            for child in command.list_commands(context):
                known = command.get_command(context, child)
                assert known is not None
                visit(known, child, context)

    visit(main, "dpcape", None)
    return found


class _Reader(HTMLParser):
    """Collects what is read on a page, one entry per piece of text, pictures by their words."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self.tags: list[str] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        # Texts of pictures are drawn as paths, or repeat numbers of the axes.
        self._silent += tag in ("style", "script", "svg")
        if tag == "svg":
            self.pieces.append(str(dict(attrs).get("aria-label")))

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in ("style", "script", "svg")

    def handle_data(self, data: str) -> None:
        if not self._silent and data.strip():
            self.pieces.append(" ".join(data.split()))


def _read(html: str) -> dict[str, Any]:
    """Return the text of a page, its numbers, and a digest of its elements in order."""
    reader = _Reader()
    reader.feed(html)
    text = [piece.replace(dpcape.__version__, "VERSION") for piece in reader.pieces]
    numbers = re.findall(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", " ".join(text))
    elements = hashlib.sha256(" ".join(reader.tags).encode()).hexdigest()[:16]
    return {"text": text, "numbers": numbers, "elements": elements}


def cards() -> dict[str, Any]:
    """Return cards of every protocol, planned and run, and of spending."""
    sites = ("lima", "lyon", "oslo", "rome", "york")
    made = {
        "cape": dpcape.Cape(n_colluding=1),
        "cape, least sites": dpcape.Cape(n_colluding=1, minimum_sites=4, cancelling_ratio=1.0),
        "secure sum": dpcape.SecureSum(n_colluding=2),
        "independent": dpcape.Independent(),
        "dealer": dpcape.Dealer(n_colluding=0),
        "exact": dpcape.Exact(),
    }
    found = {}
    for label, protocol in made.items():
        generator = np.random.default_rng(5)
        held = {
            site: dpcape.rows(generator.integers(-6, 7, size=(60 + 20 * index, 3)) / 16, bound=1.0)
            for index, site in enumerate(sites)
        }
        with repeated(label), warnings.catch_warnings():
            warnings.simplefilter("ignore", errors.DpcapeWarning)
            line = dpcape.in_process(held, noise=dpcape.Replay(3))
            model = dpcape.PCA(2, epsilon=1.0, delta=1e-5, center=False).fit(dpcape.Federation(line, protocol=protocol))
        card = card_of(model.guarantee_, releases=model.releases_)
        found[label] = {**_read(card_html(card)), "plain": card_text(card)}
    spent = card_of(model.guarantee_, spent=Spent("cohort", 0.4, 1.2, 2.0, 1e-5), planned=True)
    return {**found, "spent": {**_read(card_html(spent)), "plain": card_text(spent)}}


def reports(folder: Path) -> dict[str, Any]:
    """Return the pages of two rehearsed runs."""
    found = {}
    for analysis, parameters in (("pca", "n_components = 2"), ("kmeans", "n_clusters = 2\nn_iter = 2")):
        text = HEAD.format(analysis=analysis, parameters=parameters, data=ROWS)
        with repeated(analysis), warnings.catch_warnings():
            warnings.simplefilter("ignore", errors.DpcapeWarning)
            run = run_in_process(Study.parse(text), folder / analysis, rehearse=True, noise=dpcape.Replay(9))
        found[analysis] = _read((run.path / "report.html").read_text(encoding="utf-8"))
        found[analysis]["files"] = sorted(path.name for path in run.path.iterdir())
        with np.load(run.path / "model.npz") as kept:
            found[analysis]["result file"] = sorted(kept.files)
    return found


def steward(folder: Path) -> dict[str, Any]:
    """Return the steward's pages for a site with one study that ran and one that waits."""
    with repeated("steward"):
        place = written_site(folder)
        study, other = (Study.parse(LYON_STUDY.replace("golden", name)) for name in ("golden", "second"))
        place.approve(study, "cohort", runs=2)
        place.keep(other)
        spending = place.ledger(study, "cohort")
        spending.charge(Charge(allowance="one", mu=0.125, gap=1e-7, tail=1e-13, n_releases=2))
        spending.next_release("one", 0)
        pages = Pages(place, prefix="place", stamp=lambda action: f"stamp of {action}")
        shown = {
            "overview": pages.overview(""),
            "study that ran": pages.study(study.digest(), "", "noted"),
            "study that waits": pages.study(other.digest(), "cohort", ""),
            "ceilings": pages.ceilings(""),
            "ledger": pages.ledger("", 0, True),
        }
        place.chain.close()
    return {name: _read(page) for name, page in shown.items()}
