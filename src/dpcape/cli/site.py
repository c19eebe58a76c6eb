"""``dpcape site``: commands of a site's data steward."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpcape.cli.output import show
from dpcape.cli.site_check import check, folder_option, study_of
from dpcape.cli.site_page import serve_page
from dpcape.cli.site_serve import serve
from dpcape.cli.site_snapshot import snapshot

if TYPE_CHECKING:
    from dpcape.site.folder import SiteFolder
    from dpcape.steward.review import Review
    from dpcape.study.study import Study


@click.group()
def site() -> None:
    """Manage a site: identity, data sets, ceilings, approvals and the ledger."""


site.add_command(check)
site.add_command(serve)
site.add_command(serve_page)
site.add_command(snapshot)


_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
_data_option = click.option("--data", default=None, help="Data set; needed if there are several.")
_per_option = click.option(
    "--per",
    type=click.Choice(["record", "subject"]),
    default=None,
    help="Unit of the ceiling: one record, or one subject with all its records. Unchanged by default ('record').",
)
_rows_option = click.option(
    "--rows-per-subject",
    type=click.IntRange(min=1),
    default=None,
    help="Public maximum number of records per subject; multiplies mu of studies per record per subject.",
)


def _steward(command: Callable[..., None]) -> Callable[..., None]:
    return folder_option(_json_option(command))


@site.command()
@click.argument("path", type=click.Path(path_type=Path, file_okay=False))
@click.option("--name", required=True, help="Name of the site in the consortium.")
@click.option(
    "--keys",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="Folder for the identity key and the copy of the ledger's head; best on another disk than PATH.",
)
@_json_option
def init(path: Path, name: str, keys: Path | None, as_json: bool) -> None:
    """Make a site folder with a new identity and an empty ledger."""
    from dpcape.site.folder import SiteFolder

    folder = SiteFolder.create(path, name=name, keys=keys)
    show({"site": name, "folder": str(path), "keys": str(folder.keys), **_identity(folder)}, as_json)


@site.command()
@click.argument("name")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--epsilon", type=float, required=True, help="Lifetime ceiling of the data set.")
@click.option("--delta", type=float, required=True, help="Delta of the ceiling.")
@click.option("--per-study", type=float, default=None, help="Ceiling of one study, at the same delta.")
@_per_option
@_rows_option
@click.option("--accept-overlap", is_flag=True, help="Give records of another data set a second budget; recorded.")
@click.option(
    "--different-people", is_flag=True, help="State that similar data sets of this site are of other people; recorded."
)
@_steward
def add(name: str, path: Path, folder: Path, as_json: bool, different_people: bool, **ceiling: Any) -> None:
    """Register a data set and its lifetime privacy ceiling."""
    site_folder = _open(folder)
    if not different_people and not as_json and _is_terminal():
        different_people = _are_different(site_folder, name, path)
    site_folder.add_data(name, path, different_people=different_people, **ceiling)
    show(_budget(site_folder, name), as_json)


def _is_terminal() -> bool:
    """Whether the steward can be asked."""
    return sys.stdin.isatty()


def _are_different(site_folder: SiteFolder, name: str, path: Path) -> bool:
    """Show the steward data sets that may be of the same people as a new one, and ask."""
    similar = site_folder.similar_data(name, path)
    if not similar:
        return False
    click.echo("This site has data sets with as many rows and similar columns:")
    for entry in similar:
        click.echo(f"  {entry}")
    click.echo("If one of them is of the same people, their spending must be counted together.")
    return click.confirm(f"Is {name} of other people than all of these?", default=False)


@site.command()
@click.argument("study")
@_data_option
@_steward
def review(study: str, data: str | None, folder: Path, as_json: bool) -> None:
    """Show what a study would do here: what leaves, who sees it, its noise, and the ledger afterwards."""
    from dpcape.steward.dealing import dealing_text
    from dpcape.steward.review import review as review_values
    from dpcape.steward.review import review_text

    site_folder, loaded = _opened(folder, study)
    if site_folder.name == loaded.dealer:
        text = dealing_text(site_folder, loaded)
        plain = {"study": loaded.name, "digest": loaded.digest(), "deals": True, "text": text}
        click.echo(json.dumps(plain) if as_json else text.rstrip())
        return
    text = review_text(site_folder, loaded, data)
    seen = review_values(site_folder, loaded, site_folder.chosen(data))
    if not as_json:
        _show_review(site_folder, seen, text)
        return
    result = {"study": loaded.name, "digest": loaded.digest(), "data": seen.data, "text": text}
    numbers = {"spent": seen.spent, "after": seen.after, "ceiling": seen.ceiling, "delta": seen.delta}
    unit = {"per": seen.unit.kind, "rows_per_subject": seen.unit.rows_per_subject}
    show({**result, **numbers, **unit, "guarantee": seen.guarantee.to_dict()}, True)


@site.command()
@click.argument("name")
@click.option("--epsilon", type=float, default=None, help="New ceiling; needs --delta.")
@click.option("--delta", type=float, default=None, help="Delta of the new ceiling.")
@click.option("--per-study", type=float, default=None, help="New ceiling of one study; unchanged by default.")
@click.option("--no-per-study", is_flag=True, help="Remove the ceiling of one study.")
@_per_option
@_rows_option
@_steward
def budget(
    name: str,
    epsilon: float | None,
    delta: float | None,
    per_study: float | None,
    no_per_study: bool,
    per: str | None,
    rows_per_subject: int | None,
    folder: Path,
    as_json: bool,
) -> None:
    """Show a data set's spending, or change its ceiling."""
    from dpcape.core.errors import InvalidParameter

    site_folder = _open(folder)
    if (epsilon is None) != (delta is None):
        raise InvalidParameter("A ceiling", "have --epsilon and --delta", "one of them", "Give both.")
    if per_study is not None and no_per_study:
        raise InvalidParameter("--per-study and --no-per-study", "not be used together", "both", "Leave one out.")
    if no_per_study or any(value is not None for value in (epsilon, per_study, per, rows_per_subject)):
        unit = (per, rows_per_subject)
        _set_ceiling(site_folder, name, (epsilon, delta), per_study, unit, keep=not no_per_study)
    show(_budget(site_folder, name), as_json)


@site.command()
@click.argument("study")
@_data_option
@click.option("--runs", type=click.IntRange(min=1), default=1, show_default=True, help="Number of runs allowed.")
@_steward
def approve(study: str, data: str | None, runs: int, folder: Path, as_json: bool) -> None:
    """Approve this exact study; any change needs new approval."""
    site_folder, loaded = _opened(folder, study)
    site_folder.approve(loaded, data, runs=runs)
    what = {"deals": "noise"} if site_folder.name == loaded.dealer else {"data": site_folder.chosen(data)}
    _done("approved", loaded, as_json, **what, runs=runs)


@site.command()
@click.argument("study")
@_steward
def deny(study: str, folder: Path, as_json: bool) -> None:
    """Record that a study is not approved."""
    site_folder, loaded = _opened(folder, study)
    site_folder.deny(loaded)
    _done("denied", loaded, as_json)


@site.command()
@click.argument("study")
@_steward
def revoke(study: str, folder: Path, as_json: bool) -> None:
    """Withdraw an approval; what was charged stays charged."""
    site_folder, loaded = _opened(folder, study)
    site_folder.revoke(loaded)
    _done("revoked", loaded, as_json)


@site.command()
@_steward
def identity(folder: Path, as_json: bool) -> None:
    """Show this site's identity; others pin it, after comparing the fingerprint by telephone.

    With --json, also the request for a TLS certificate that the coordinator needs to make this site's kit.
    """
    from dpcape.site.tls import certificate_request

    site_folder = _open(folder)
    request = certificate_request(site_folder.name, site_folder.keys, site_folder.identity) if as_json else {}
    show({"site": site_folder.name, **_identity(site_folder), **request}, as_json)


@site.command()
@click.argument("name")
@click.argument("public_key")
@_steward
def pin(name: str, public_key: str, folder: Path, as_json: bool) -> None:
    """Trust the public key of another site, or of the coordinator (NAME: coordinator)."""
    from dpcape.core.secure_sum.identity import fingerprint_of

    site_folder = _open(folder)
    site_folder.pin(name, public_key)
    show({"site": name, "fingerprint": fingerprint_of(bytes.fromhex(public_key))}, as_json)


@site.command("allow-analysis")
@click.argument("package")
@click.option("--remove", is_flag=True, help="Withdraw the permission.")
@click.option(
    "--record-by-record",
    is_flag=True,
    help="Accept, for studies that ask for it, that its statistics treat each record by itself; nothing enforces it.",
)
@_steward
def allow_analysis(package: str, remove: bool, record_by_record: bool, folder: Path, as_json: bool) -> None:
    """Allow analyses of another package in studies; its code runs in sandboxes without files and network.

    Start the site again afterwards: 'dpcape site serve' reads the package when it starts.
    """
    site_folder = _open(folder)
    site_folder.allow_package(package, allowed=not remove, record_by_record=record_by_record)
    accepted = sorted(site_folder.state().record_by_record)
    show({"allowed packages": sorted(site_folder.state().packages), "accepted record by record": accepted}, as_json)


@site.command()
@click.argument("data", required=False)
@click.option("--verify", is_flag=True, help="Read everything again and check every hash.")
@click.option("--export", type=click.Path(path_type=Path, dir_okay=False), help="Write all rows as JSON lines.")
@click.option("--accept-head", is_flag=True, help="Continue after a backup was restored; needs --reason and --lost.")
@click.option("--reason", default="", help="Reason, recorded in the ledger.")
@click.option(
    "--lost",
    multiple=True,
    metavar="DATA:EPSILON:DELTA",
    help="What may have been spent since the backup; 'none' if certain.",
)
@click.option("--seen", default=None, metavar="LENGTH:HASH", help="Head the coordinator saw, if the ledger lacks it.")
@_steward
def log(
    data: str | None,
    verify: bool,
    export: Path | None,
    accept_head: bool,
    reason: str,
    lost: tuple[str, ...],
    seen: str | None,
    folder: Path,
    as_json: bool,
) -> None:
    """Show the ledger; verify, export or repair it."""
    from dpcape.cli import site_log

    site_folder = _open(folder, repair=accept_head or verify)
    if accept_head:
        site_log.accept_head(site_folder, reason=reason, lost=lost, seen=seen)
    if verify:
        site_log.verify(site_folder, as_json)
    elif export is not None:
        site_log.export(site_folder, export, as_json)
    else:
        site_log.show_rows(site_folder, data, as_json)


def _show_review(site_folder: SiteFolder, seen: Review, text: str) -> None:
    """Print a review: with a frame and colours on a terminal, as plain text into a file."""
    if not sys.stdout.isatty():
        click.echo(text)
        return
    from rich.console import Console

    from dpcape.guarantee.card import card_terminal
    from dpcape.steward.review import how_noisy, review_card, review_head

    console = Console()
    console.print(review_head(site_folder, seen), markup=False, highlight=False)
    console.print(card_terminal(review_card(seen)))
    console.print("\n".join(["Noise", *how_noisy(seen)]), markup=False, highlight=False)


def _open(folder: Path, *, repair: bool = False) -> SiteFolder:
    from dpcape.site.folder import SiteFolder

    site_folder = SiteFolder(folder)
    if not repair:
        for text in site_folder.news():
            click.echo(f"Note: {text}", err=True)
    return site_folder


def _opened(folder: Path, reference: str) -> tuple[SiteFolder, Study]:
    """Return the site's folder and a study: by the path of its file, or by name or digest if it was reviewed here."""
    site_folder = _open(folder)
    return site_folder, study_of(site_folder, reference)


def _identity(site_folder: SiteFolder) -> dict[str, str]:
    return {"public_key": site_folder.identity.public.hex(), "fingerprint": site_folder.identity.fingerprint()}


def _set_ceiling(
    site_folder: SiteFolder,
    name: str,
    ceiling: tuple[float | None, float | None],
    per_study: float | None,
    unit: tuple[str | None, int | None],
    *,
    keep: bool,
) -> None:
    """Set the parts of a ceiling that were named; what was not named stays."""
    from dpcape.core.errors import InvalidParameter
    from dpcape.site.ledger import Ceiling, unit_after

    now = site_folder.state().ceilings.get(name)
    epsilon, delta = ceiling if now is None or ceiling[0] is not None else (now.epsilon, now.delta)
    if epsilon is None or delta is None:
        raise InvalidParameter("A ceiling", "have --epsilon and --delta", f"neither for {name!r}", "Give both.")
    if per_study is None and keep and now is not None:
        per_study = now.per_study
    site_folder.set_ceiling(name, Ceiling(epsilon, delta, per_study, unit_after(now, *unit)))


def _budget(site_folder: SiteFolder, name: str) -> dict[str, Any]:
    from dpcape.core.errors import InvalidParameter
    from dpcape.pages.numbers import round_up

    state = site_folder.state()
    if name not in state.ceilings:
        raise InvalidParameter("NAME", f"be one of {', '.join(sorted(state.ceilings))}", repr(name))
    ceiling = state.ceilings[name]
    spent = state.spent(name, ceiling.delta)
    return {
        "data": name,
        "epsilon": ceiling.epsilon,
        "delta": ceiling.delta,
        "per": ceiling.unit.kind,
        "rows_per_subject": "not stated" if ceiling.unit.rows_per_subject is None else ceiling.unit.rows_per_subject,
        "per_study": "no ceiling of its own" if ceiling.per_study is None else ceiling.per_study,
        "spent": float(round_up(spent)),
        "studies_charged": len({entry.study for entry in state.charges if entry.data == name}),
        "charges": len(state.charges_of(name)),
    }


def _done(verb: str, study: Study, as_json: bool, **more: Any) -> None:
    if as_json:
        click.echo(json.dumps({"status": verb, "study": study.name, "digest": study.digest(), **more}))
    else:
        detail = "".join(f", {key} {value}" for key, value in more.items())
        click.echo(f"{verb}: {study.name} ({study.digest()[:16]}){detail}")
