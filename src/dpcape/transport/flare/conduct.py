"""One study over one line: readiness, versions and clocks, the fit, and the files that hold the result."""

from __future__ import annotations

import json
import os
import traceback
from pathlib import Path
from typing import Any

import msgspec

from dpcape._version import __version__
from dpcape.errors import DpcapeError, ProtocolError
from dpcape.federation import Federation, Release
from dpcape.messages import VERSION
from dpcape.study import Study
from dpcape.transport.flare.desk import about_here
from dpcape.transport.flare.line import FlareLine
from dpcape.transport.flare.status import Status

OUTCOME = "outcome.json"
# Certificates and approvals rest on clocks; more than this apart, somebody should look.
MAX_CLOCK_SECONDS = 300.0


def conduct(study: Study, line: FlareLine, *, status: Status, out: Path, only_check: bool = False) -> str:
    """Run a study and write its results to ``out``; return why it failed, or an empty text."""
    try:
        _carry_through(study, line, status, out, only_check)
    except DpcapeError as error:
        return _fail(error, str(error), status, out)
    except Exception as error:
        (out / "traceback.txt").write_text(traceback.format_exc(), encoding="utf-8")
        return _fail(error, f"the coordinator failed with {type(error).__name__}; see traceback.txt.", status, out)
    status.phase("finished")
    _write(out / OUTCOME, {"state": "finished", **_sites_of(status)})
    return ""


def _carry_through(study: Study, line: FlareLine, status: Status, out: Path, only_check: bool) -> None:
    status.phase("gathering", study=study.name, digest=study.digest(), sites=list(study.sites))
    check_ends(line.gather(), status, out)
    federation = Federation(
        line,
        protocol=study.protocol(),
        weights=study.weights or None,
        deadline=study.deadline,
        on_release=lambda release: _note(release, status),
    )
    status.phase("checked" if only_check else "running", n_records=federation.n_records)
    if only_check:
        return
    model = study.estimator().fit(federation)
    os.umask(0o077)
    model.save(out / "model.npz")
    _write(out / "guarantee.json", msgspec.to_builtins(model.guarantee_))
    _write(out / "releases.json", [msgspec.to_builtins(release) for release in model.releases_])


def check_ends(about: dict[str, dict[str, str | float]], status: Status, out: Path) -> None:
    """Compare versions on both ends and note clocks; other message versions are refused."""
    here = about_here()
    ends: dict[str, Any] = {"coordinator": {"dpcape": __version__, "messages": float(VERSION)}}
    for site, entry in sorted(about.items()):
        if entry.get("messages") != here["messages"]:
            raise ProtocolError(
                f"{site} must speak message version {VERSION}; got {entry.get('messages')}. "
                f"Install dpcape {__version__} there."
            )
        apart = abs(float(entry.get("clock", 0.0)) - float(here["clock"]))
        ends[site] = {**entry, "clock_apart": apart}
        if apart > MAX_CLOCK_SECONDS:
            status.site(site, "ready", f"its clock is {apart:.0f} s away from the coordinator's")
    _write(out / "ends.json", ends)


def _note(release: Release, status: Status) -> None:
    status.release(
        release.number + 1, release.n_releases, statistic=release.statistic, survivors=list(release.survivors)
    )


def _fail(error: Exception, text: str, status: Status, out: Path) -> str:
    status.phase("failed", error=type(error).__name__, text=text)
    _write(out / OUTCOME, {"state": "failed", "error": type(error).__name__, "text": text, **_sites_of(status)})
    return text


def _sites_of(status: Status) -> dict[str, Any]:
    return {"sites": status.snapshot()["sites"]}


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
