"""``dpcape site serve``: put a site folder on the federation."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

if TYPE_CHECKING:
    from dpcape.engines.flare.workspace import SiteKit
    from dpcape.site.vault.accounts import Accounts
    from dpcape.site.vault.inspect import SiteFacts
    from dpcape.site.vault.log_lines import Form, ServiceLog
    from dpcape.site.vault.modes import Mode


@click.command()
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    envvar="DPCAPE_SITE",
    help="The site's folder; the current one, or $DPCAPE_SITE, if absent.",
)
@click.option(
    "--kit",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    required=True,
    help="The kit with this site's certificate, from the coordinator.",
)
@click.option(
    "--server",
    default=None,
    envvar="DPCAPE_SERVER",
    metavar="HOST:PORT",
    help="Confirm, once, that this is the server which the kit names; asked for at a terminal if absent.",
)
@click.option("--data", default=None, help="Serve this data set only; by default the one each approval names.")
@click.option(
    "--unseparated",
    is_flag=True,
    help="Serve although the engine cannot be kept from the records. Every guarantee then says so.",
)
@click.option("--vault-user", default=None, help="Root only: account of the vault; the folder's owner if absent.")
@click.option(
    "--engine-user", default=None, help="Root only: account of the engine; dpcape-engine or nobody if absent."
)
@click.option(
    "--engine-python",
    default=None,
    envvar="DPCAPE_ENGINE_PYTHON",
    help="Python that the engine's account can run, with dpcape installed; this one if absent.",
)
@click.option(
    "--work",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=None,
    envvar="DPCAPE_ENGINE_WORK",
    help="Where the engine's work folders are made; best on another disk than the site's folder.",
)
@click.option(
    "--log",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How lines of the log are written, on standard error.",
)
@click.option(
    "--replay-for-tests",
    type=int,
    default=None,
    help="Seed of replayable noise. For tests alone: every guarantee then says 'no protection'.",
)
def serve(form: Form, **options: Any) -> None:
    """Serve approved studies in the foreground, until stopped.

    Nothing runs here that was not approved with 'dpcape site approve'. Records, ledger and keys stay in a process of
    their own, the vault; the engine runs in a sandbox that is tested at every start.
    """
    from dpcape.core.errors import DpcapeError
    from dpcape.site.vault.log_lines import ServiceLog

    log = ServiceLog(form, lambda line: click.echo(line, err=True))
    try:
        _serve(log, **options)
    except DpcapeError as error:
        if form == "text":
            raise
        log.fail(str(error))
        sys.exit(2)


def _serve(
    log: ServiceLog,
    *,
    folder: Path,
    kit: Path,
    server: str | None,
    data: str | None,
    unseparated: bool,
    vault_user: str | None,
    engine_user: str | None,
    engine_python: str | None,
    work: Path | None,
    replay_for_tests: int | None,
) -> None:
    _require_linux()
    from dpcape.engines.flare.workspace import ENVIRONMENT, SiteKit
    from dpcape.site.vault.accounts import accounts_for
    from dpcape.site.vault.guarded import Guarded
    from dpcape.site.vault.server import VaultSettings
    from dpcape.site.vault.supervisor import Engine, Serving, Supervisor

    site_path, source = folder.resolve(), kit.resolve()
    _require_folder(site_path)
    accounts = accounts_for(site_path, vault=vault_user, engine=engine_user)
    # The highest version of Landlock to use: how tests see what an older kernel would do.
    version = os.environ.get("DPCAPE_LANDLOCK_AT_MOST", "")
    cap = int(version) if version.isdigit() else None
    mode = _mode(accounts, unseparated=unseparated, cap=cap)
    flare = SiteKit.read(source)
    noted = {"server": flare.address, "mode": mode.name, "data": data, "replay": replay_for_tests is not None}
    facts = _confirmed(flare, site_path, source, noted, server, accounts)
    engine = Engine(
        python=engine_python or sys.executable,
        command=lambda work_folder: flare.command(work_folder, facts.name),
        prepare=lambda work_folder, port: flare.fill(work_folder, site=facts.name, tls_key=facts.tls_key, port=port),
        connect=flare.ports(),
        environment=ENVIRONMENT,
    )
    settings = VaultSettings(
        folder=str(site_path), data=data, replay_for_tests=replay_for_tests, mode=mode.name, control=-1
    )
    serving = Serving(
        vault_python=sys.executable,
        settings=settings,
        mode=mode,
        accounts=accounts,
        guarded=Guarded(site_path, Path(facts.keys), tuple(Path(path) for path in facts.secret_files)),
        work=work,
        packages=tuple(facts.packages),
        most_abi=cap,
    )
    log.say(f"{facts.name} serves approved studies. Identity {facts.fingerprint}. Ctrl-C ends it.")
    os.umask(0o077)
    # Compiled modules would be readable by this account alone, and the engine's account would compile them every time.
    sys.dont_write_bytecode = True
    sys.exit(Supervisor(serving, engine, log.say, log.warn).run())


def _confirmed(
    flare: SiteKit, site_path: Path, kit: Path, noted: dict[str, Any], server: str | None, accounts: Accounts
) -> SiteFacts:
    """Return the folder's facts, read by the vault's account, once the steward has confirmed the kit's server."""
    from dpcape.cli.server_confirmation import confirm, is_named
    from dpcape.site.vault.inspect import Question, ask

    question = Question(
        folder=str(site_path),
        kit=str(kit),
        certificate=flare.own_certificate.decode("ascii"),
        settings=noted,
        confirms=is_named(flare.address, server),
    )
    facts = ask(question, accounts.vault)
    if facts.confirmed != flare.address:
        confirm(flare.address, facts.confirmed)
        facts = ask(msgspec.structs.replace(question, confirms=True), accounts.vault)
    return facts


def _require_linux() -> None:
    import platform

    from dpcape.core.errors import TransportError

    if platform.system() != "Linux":
        raise TransportError(
            "The site is not served",
            f"only Linux can keep the engine from the records, and this is {platform.system()}",
            "Use a Linux machine or a container (docs/operations.md). Studies in one process, plans and "
            "reports work here.",
        )


def _require_folder(folder: Path) -> None:
    from dpcape.core.errors import InvalidParameter

    if not (folder / "site.json").is_file():
        remedy = "Name the folder with --folder, or in the variable DPCAPE_SITE."
        raise InvalidParameter("a site folder", "be made by `dpcape site init`", repr(str(folder)), remedy)


def _mode(accounts: Accounts, *, unseparated: bool, cap: int | None) -> Mode:
    """Return how well the engine will be separated here; refuse to serve records that are not."""
    import platform

    from dpcape.core.errors import TransportError
    from dpcape.site.vault.landlock import abi
    from dpcape.site.vault.modes import NONE, mode_of
    from dpcape.site.vault.seccomp import ARCHITECTURES

    version, seccomp = abi() if cap is None else min(abi(), cap), platform.machine() in ARCHITECTURES
    mode = mode_of(abi=version, seccomp=seccomp, separate_account=accounts.are_separate)
    if mode is NONE and not unseparated:
        raise TransportError(
            "Nothing is served",
            "this machine cannot separate the engine from the records: it has no Landlock (Linux 5.13 or newer, "
            "enabled)",
            "Every member of the federation and the coordinator could read them. Use another machine, or accept that "
            "with --unseparated.",
        )
    return mode
