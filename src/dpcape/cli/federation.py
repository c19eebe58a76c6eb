"""``dpcape federation``: commands of the coordinator, besides running studies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from dpcape.cli.output import show
from dpcape.core.secure_sum.identity import fingerprint_of

_folder = click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
_as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")


@click.group()
def federation() -> None:
    """Set up and operate a federation on NVIDIA FLARE (extra engine)."""


@federation.command()
@_folder
@click.option(
    "--site",
    "sites",
    multiple=True,
    required=True,
    metavar="FILE",
    help="File of a site: output of 'dpcape site identity --json'; once per site.",
)
@click.option("--host", default="localhost", show_default=True, help="Server's name; localhost listens on loopback.")
@click.option("--port", type=int, default=18002, show_default=True)
@_as_json
def init(folder: Path, sites: tuple[str, ...], host: str, port: int, as_json: bool) -> None:
    """Write the FLARE project file and, through FLARE's provisioning, a kit with a certificate per participant."""
    federation_folder = _federation_folder(folder)
    federation_folder.create([_registration(path) for path in sites], host=host, port=port)
    result = {
        "federation": str(folder),
        "server": f"{host}:{port}",
        "coordinator": fingerprint_of(federation_folder.coordinator().public),
        "public_key": federation_folder.coordinator().public.hex(),
        "kits": [str(federation_folder.kits / name) for name in ["server", "admin", *federation_folder.site_names()]],
    }
    show(result, as_json)


@federation.command()
@_folder
def serve(folder: Path) -> None:
    """Run the federation's server in the foreground."""
    from dpcape.engines.flare.start_kit import become

    _require_engine()
    become(_federation_folder(folder).server_kit)


@federation.command()
@_folder
@_as_json
def status(folder: Path, as_json: bool) -> None:
    """Show connected sites and FLARE's jobs."""

    def ask(coordination: Any) -> dict[str, Any]:
        connected = coordination.connected()
        names = _federation_folder(folder).site_names()
        return {"connected": connected, "absent": sorted(set(names) - set(connected)), "jobs": coordination.jobs()}

    answer = _with_server(folder, ask)
    # In the table for people, one job per line.
    jobs = "\n".join(f"{job['name']}  {job['status']}  {job['job']}" for job in answer["jobs"])
    show(answer if as_json else {**answer, "jobs": jobs or "none"}, as_json)


@federation.command()
@_folder
@click.argument("job")
def cancel(folder: Path, job: str) -> None:
    """Stop a job; what sites have charged stays charged."""
    _with_server(folder, lambda coordination: coordination.cancel(job))
    click.echo(f"{job} was cancelled. What sites have charged stays charged.")


@federation.command("add-site")
@_folder
@click.argument("site", metavar="SITE.identity.json")
def add_site(folder: Path, site: str) -> None:
    """Make a kit for another site, from its file; the other kits stay valid."""
    federation_folder, registration = _federation_folder(folder), _registration(site)
    kit = federation_folder.kits / registration.site
    federation_folder.add(registration)
    click.echo(f"Kit for {registration.site}: {kit}. Restart 'dpcape federation serve'.")


@federation.command("replace-site")
@_folder
@click.argument("site", metavar="SITE.identity.json")
def replace_site(folder: Path, site: str) -> None:
    """Make a new kit, with a new certificate, for a site that lost its machine, from its file."""
    federation_folder, registration = _federation_folder(folder), _registration(site)
    kit = federation_folder.kits / registration.site
    federation_folder.replace(registration)
    click.echo(f"New kit for {registration.site}: {kit}. The old certificate stays valid: see docs/consortium.md.")


@federation.command("shut-out")
@_folder
@click.argument("site")
def shut_out(folder: Path, site: str) -> None:
    """Keep a site from connecting, whatever certificate it shows."""
    _with_server(folder, lambda coordination: coordination.shut_out(site))
    click.echo(f"{site} is shut out. 'dpcape federation let-in' admits it again.")


@federation.command("let-in")
@_folder
@click.argument("site")
def let_in(folder: Path, site: str) -> None:
    """Admit a site that was shut out."""
    _with_server(folder, lambda coordination: coordination.let_in(site))
    click.echo(f"{site} may connect again.")


@federation.command()
@_folder
def stop(folder: Path) -> None:
    """End the server. Sites go on waiting for it, until their stewards end them."""
    _with_server(folder, lambda coordination: coordination.stop())
    click.echo("The server was told to end. The sites wait for it to come back; each steward ends a site with Ctrl-C.")


def _federation_folder(folder: Path) -> Any:
    _require_engine()
    from dpcape.engines.flare.kits import FederationFolder

    return FederationFolder(folder.resolve())


def _registration(path: str) -> Any:
    from dpcape.engines.flare.registration import Registration

    return Registration.load(path)


def _with_server(folder: Path, ask: Callable[[Any], Any]) -> Any:
    admin_kit = _federation_folder(folder).admin_kit
    from dpcape.engines.flare.admin_session import opened

    with opened(admin_kit) as coordination:
        return ask(coordination)


def _require_engine() -> None:
    from importlib.util import find_spec

    from dpcape.core.errors import MissingExtra

    if find_spec("nvflare") is None:
        raise MissingExtra("NVIDIA FLARE", "engine")
