"""The coordinator's session with FLARE's server: who is there, submit, watch, cancel, fetch."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from nvflare.fuel.flare_api.flare_api import Session, new_secure_session

from dpcape.core.errors import TransportError
from dpcape.engines.flare.config import STATUS_TOPIC
from dpcape.engines.flare.kits import ADMIN

_FINISHED = "FINISHED"
_CONNECT_SECONDS = 10.0
# Sites send a heartbeat every 10 s.
_SILENT_SECONDS = 45.0


@contextlib.contextmanager
def opened(admin_kit: Path) -> Iterator[Coordination]:
    """Open a session with the federation's server, and close it at the end."""
    if not (admin_kit / "startup").is_dir():
        what = f"The federation's admin kit is not at {str(admin_kit)!r}"
        raise TransportError(what, remedy="Run 'dpcape federation init'.")
    try:
        # FLARE prints a greeting to standard output, which is reserved for the result.
        with contextlib.redirect_stdout(sys.stderr):
            session = new_secure_session(
                username=ADMIN, startup_kit_location=str(admin_kit.resolve()), timeout=_CONNECT_SECONDS
            )
    except Exception as error:
        why = "the federation's server did not answer"
        raise TransportError("Connection failed", why, "Run 'dpcape federation serve'.") from error
    try:
        yield Coordination(session)
    finally:
        session.close()


class Coordination:
    """What the coordinator does with FLARE's server; every call raises TransportError if the engine does."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def connected(self) -> list[str]:
        """Return the connected sites. FLARE lists disconnected clients for minutes; silent ones are omitted here.

        Silence is measured from the latest contact with any client, so that the clocks of two machines need not agree.
        """
        heard = {client.name: float(client.last_connect_time) for client in self._clients()}
        return sorted(name for name, at in heard.items() if max(heard.values()) - at < _SILENT_SECONDS)

    def _clients(self) -> Any:
        return _engine(self._session.get_system_info).client_info

    def submit(self, job_folder: Path) -> str:
        """Submit a job and return its id."""
        return str(_engine(lambda: self._session.submit_job(str(job_folder.resolve()))))

    def status(self, job: str) -> str:
        """Return the job's status as FLARE names it."""
        return str(_engine(lambda: self._session.get_job_meta(job)).get("status", ""))

    def is_over(self, job: str) -> bool:
        """Return whether the job has ended, successfully or not."""
        return self.status(job).startswith(_FINISHED)

    def snapshot(self, job: str, after: int) -> dict[str, Any] | None:
        """Return the status reported by the job's controller; None while it is not running."""
        try:
            answer: dict[str, Any] = self._session.do_app_command(job, STATUS_TOPIC, {"after": after})
        except Exception:  # not running yet, or no longer: the job's status tells which
            return None
        return answer

    def fetch(self, job: str) -> Path:
        """Download what the job left at the server and return the folder."""
        return Path(str(_engine(lambda: self._session.download_job_result(job)))) / "workspace"

    def cancel(self, job: str) -> None:
        """Stop a job."""
        _engine(lambda: self._session.abort_job(job))

    def jobs(self) -> list[dict[str, str]]:
        """Return the jobs FLARE knows, newest first: id, name and status as FLARE names it."""
        entries: list[dict[str, Any]] = _engine(lambda: self._session.list_jobs(detailed=True))
        newest = sorted(entries, key=lambda entry: str(entry.get("submit_time", "")), reverse=True)
        wanted = {"job": "job_id", "name": "name", "status": "status"}
        return [{key: str(entry.get(field, "")) for key, field in wanted.items()} for entry in newest]

    def shut_out(self, site: str) -> None:
        """Disable a site: its certificate is rejected until the site is enabled again."""
        _engine(lambda: self._session.disable_client(site))

    def let_in(self, site: str) -> None:
        """Enable a disabled site."""
        _engine(lambda: self._session.enable_client(site))

    def stop(self) -> None:
        """End server and sites."""
        _engine(lambda: self._session.shutdown("all"))


def _engine(call: Callable[[], Any]) -> Any:
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return call()
    except Exception as error:
        what = f"The federation's server refused the request: {str(error).rstrip('.')}"
        remedy = "If it was stopped, start it with 'dpcape federation serve' and run the same command again."
        raise TransportError(what, remedy=remedy) from error
