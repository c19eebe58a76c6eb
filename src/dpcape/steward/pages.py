"""The pages, one function each. No page runs a script."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import cache
from http import HTTPStatus
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dpcape.core._version import __version__
from dpcape.core.errors import DpcapeError, LedgerRefused
from dpcape.guarantee.card import card_html
from dpcape.guarantee.card_ledger import decimal
from dpcape.pages.numbers import round_up
from dpcape.pages.style import environment
from dpcape.records.own_check import share_text
from dpcape.site.folder import SiteFolder
from dpcape.site.ledger import Ceiling
from dpcape.steward.decisions import changes
from dpcape.steward.ledger_rows import lines
from dpcape.steward.ledger_view import (
    DataSetSpending,
    LedgerView,
    epsilon_text,
    kept,
    kept_studies,
    kept_study,
    objections,
    spending,
    spendings,
)
from dpcape.steward.own_data import check_data
from dpcape.steward.pictures import spending_bar, spending_steps
from dpcape.steward.review import dealer_lines, how_noisy, review, review_card
from dpcape.study.study import Study

ROWS_PER_PAGE = 100
# Unicode categories of characters that are invisible or change how others are displayed.
_INVISIBLE = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


class Pages:
    """The pages of one site.

    Parameters
    ----------
    folder : SiteFolder
        The site's folder.
    prefix : str
        First part of every address that needs a session.
    stamp : callable
        Function that returns the stamp of a form for an address.
    """

    def __init__(self, folder: SiteFolder, *, prefix: str, stamp: Callable[[str], str]) -> None:
        self._folder, self._root, self._stamp = folder, f"/{prefix}/", stamp

    def overview(self, notice: str) -> str:
        """Return the page of pending studies, spending and earlier decisions."""
        ledger = LedgerView.read(self._folder)
        studies = kept_studies(self._folder, ledger)
        return self._page(
            "overview.html",
            notice=notice,
            pending=[(entry, self._asks(entry.digest)) for entry in studies if entry.status == "pending"],
            decided=[entry for entry in studies if entry.status != "pending"],
            spendings=[(entry, self._bar(entry)) for entry in spendings(self._folder, ledger)],
        )

    def study(self, digest: str, data: str, notice: str) -> str:
        """Return the page of one study: its card for a data set, its file, and the decision."""
        ledger, study = LedgerView.read(self._folder), kept_study(self._folder, digest)
        names = sorted(set(self._folder.data_sets()) & set(ledger.state.ceilings))
        about = kept(self._folder, ledger, digest)
        approved = ledger.state.approvals.get(digest)
        chosen = data or (approved[0] if approved else names[0] if names else "")
        fits = chosen in names and self._folder.name in study.sites
        # Computed after the ledger was read: a row written in between invalidates the decision (`seen`), not the card.
        seen = review(self._folder, study, chosen) if fits else None
        return self._page(
            "study.html",
            notice=notice,
            about=about,
            study=study,
            dealer=dealer_lines(self._folder, study),
            data_sets=names,
            chosen=chosen,
            objections=objections(self._folder, ledger, study, chosen) if fits else [],
            card=None if seen is None else Markup(card_html(review_card(seen), notebook=False, level=2)),
            noise=[] if seen is None else how_noisy(seen),
            memory="" if seen is None else seen.memory,
            rows=[row for row in lines(ledger, limit=10**9) if row.study == digest],
            seen=ledger.seen,
        )

    def check(self, digest: str, data: str) -> str:
        """Return the page of what a study would find in a data set; computed each time, and kept nowhere."""
        study = kept_study(self._folder, digest)
        chosen = self._folder.chosen(data or None)
        return self._page(
            "check.html", study=study, digest=digest, data=chosen, check=check_data(self._folder, study, chosen)
        )

    def ceilings(self, notice: str) -> str:
        """Return the page of ceilings and spending per data set."""
        ledger = LedgerView.read(self._folder)
        shown = []
        for entry in spendings(self._folder, ledger):
            alt = f"Epsilon spent on {entry.data} charge by charge, against its ceiling {entry.ceiling.epsilon:g}"
            alt += f" {entry.ceiling.unit.per}"
            shown.append(
                (entry, self._bar(entry), spending_steps(alt, ledger.state.charges_of(entry.data), entry.ceiling))
            )
        return self._page("ceilings.html", notice=notice, shown=shown)

    def ceiling_form(self, data: str) -> str:
        """Return the form for a new ceiling."""
        return self._page("ceiling_form.html", entry=spending(self._folder, LedgerView.read(self._folder), data))

    def ceiling_change(self, data: str, wanted: Ceiling) -> str:
        """Return the page that shows what a new ceiling would change, to be confirmed."""
        ledger = LedgerView.read(self._folder)
        now = spending(self._folder, ledger, data)
        changed = changes(now.ceiling, wanted)
        return self._page(
            "ceiling_change.html",
            now=now,
            wanted=wanted,
            changed=changed,
            raised=any(change.raised for change in changed),
            spent_then=wanted.spent(ledger.state.charges_of(data)),
            seen=ledger.seen,
        )

    def ledger(self, data: str, before: int, releases: bool) -> str:
        """Return the page of the ledger's rows, newest first, after checking the whole chain."""
        # The same check as `dpcape site log --verify`: everything is read again from disk.
        head = self._folder.chain.verify()
        ledger = LedgerView.read(self._folder)
        # Request one more row than is shown, to learn whether there are older ones.
        rows = lines(ledger, data=data, before=before, releases=releases, limit=ROWS_PER_PAGE + 1)
        return self._page(
            "ledger.html",
            head=head,
            rows=rows[:ROWS_PER_PAGE],
            older=rows[ROWS_PER_PAGE - 1].number if len(rows) > ROWS_PER_PAGE else 0,
            data=data,
            data_sets=sorted(ledger.state.ceilings),
            releases=releases,
        )

    def refused(self, sentence: str, *, ledger_refuses: bool) -> str:
        """Return a page with one sentence on what is wrong, for a steward who is signed in."""
        return self._page("refused.html", sentence=sentence, ledger_refuses=ledger_refuses)

    def _asks(self, digest: str) -> dict[str, object] | None:
        """Return what a pending study asks for; None if its file was changed."""
        try:
            study = kept_study(self._folder, digest)
        except DpcapeError:
            return None
        return {"study": study, "epsilon": self._epsilon(study)}

    def _epsilon(self, study: Study) -> str:
        if not study.protocol().adds_noise:
            return "no protection: exact totals"
        if self._folder.name not in study.sites:
            return ""
        epsilon = round_up(study.epsilon_of(self._folder.name), 6)
        return f"epsilon {epsilon} at delta {decimal(study.delta)} {study.unit}"

    def _bar(self, entry: DataSetSpending) -> Markup:
        spent = f"{epsilon_text(entry.spent)} of {entry.ceiling.epsilon:g} spent {entry.ceiling.unit.per}"
        alt = f"{entry.data}: epsilon {spent}"
        if entry.committed is not None and entry.committed > entry.spent:
            alt += f", {epsilon_text(entry.committed)} if every approved study runs"
        return spending_bar(alt, ceiling=entry.ceiling.epsilon, spent=entry.spent, committed=entry.committed)

    def _page(self, template: str, **content: object) -> str:
        site = {"site": self._folder.name, "root": self._root, "stamp": self._stamp, "version": __version__}
        return _environment().get_template(template).render(**site, **content)


def sign_in(sentence: str = "") -> str:
    """Return the sign-in page, which anyone on this computer can see; it reveals nothing about the site."""
    return _environment().get_template("sign_in.html").render(sentence=sentence, version=__version__)


def refused_outside(sentence: str) -> str:
    """Return a page with one sentence, for a request without a session."""
    return _environment().get_template("outside.html").render(sentence=sentence, version=__version__)


def status_of(error: Exception) -> HTTPStatus:
    """Return the HTTP status of an error."""
    return HTTPStatus.CONFLICT if isinstance(error, LedgerRefused) else HTTPStatus.BAD_REQUEST


@cache
def style() -> bytes:
    """Return the stylesheet: the shared colours and card, and this page's own rules."""
    shared = environment().from_string('{% include "colours.css" %}\n{% include "card.css" %}').render()
    return f"{shared}\n{_template_file('steward.css')}".encode()


@cache
def icon() -> bytes:
    """Return the page's icon."""
    return _template_file("icon.svg").encode()


def _template_file(name: str) -> str:
    return files("dpcape.steward").joinpath("templates", name).read_text(encoding="utf-8")


def visible(text: str) -> str:
    """Show characters that would be invisible, or turn text around, by their number.

    Examples
    --------
    >>> visible("safe" + chr(0x202E) + "efas")
    'safe⟨U+202E⟩efas'
    """
    hidden = {letter for letter in set(text) - set("\n\t") if unicodedata.category(letter) in _INVISIBLE}
    return "".join(f"⟨U+{ord(letter):04X}⟩" if letter in hidden else letter for letter in text)


@cache
def _environment() -> Environment:
    templates = Environment(
        loader=PackageLoader("dpcape.steward"),
        autoescape=True,
        finalize=lambda value: visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(epsilon=epsilon_text, delta=decimal, share=share_text)
    return templates
