"""The job folder FLARE is given: names, a digest, and for the server the study's text. No code."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpcape.engines.flare.config import CONTROLLER, EXECUTOR, TASK
from dpcape.study.study import Study
from dpcape.transport.timing import PRESET

STUDY_FOLDER = "study"
RESULT_FOLDER = "dpcape"
SERVER_APP, SITE_APP = "coordinator", "site"
RELEASES = "releases"
_HEADS = "heads.json"


@dataclass(frozen=True)
class JobSettings:
    """How a job runs: which carrier, whether it only checks that everybody is ready, how long it waits for that."""

    carrier: str = "push"
    only_check: bool = False
    start: float = PRESET.start


def write_job(
    study: Study,
    folder: Path,
    settings: JobSettings,
    seen_heads: Mapping[str, tuple[int, str]] | None = None,
    releases: Path | None = None,
) -> None:
    """Write the job of a study; sites receive only its digest, because they keep the study they approved.

    ``releases`` is the folder of an allowance that an earlier job opened and this one continues.
    """
    meta = {
        "name": f"dpcape-{study.name}",
        # The controller decides how many sites are needed, and says who is missing; FLARE would only wait.
        "min_clients": 1,
        "deploy_map": {SERVER_APP: ["server"], SITE_APP: list(study.participants)},
        "resource_spec": {},
    }
    _write(folder / "meta.json", meta)
    _write(folder / SERVER_APP / "config" / "config_fed_server.json", _server_config(settings))
    _write(folder / SITE_APP / "config" / "config_fed_client.json", _site_config(study, settings))
    _write(folder / SERVER_APP / "config" / _HEADS, dict(seen_heads or {}))
    _copy_study(study, folder / SERVER_APP / "config" / STUDY_FOLDER)
    if releases is not None:
        shutil.copytree(releases, folder / SERVER_APP / "config" / RELEASES)


def read_heads(config: Path) -> dict[str, tuple[int, str]]:
    """Return the ledger heads that travelled with a job."""
    content = json.loads((config / _HEADS).read_text(encoding="utf-8"))
    return {site: (int(length), str(head)) for site, (length, head) in content.items()}


def _server_config(settings: JobSettings) -> dict[str, Any]:
    arguments = {
        "carrier": settings.carrier,
        "only_check": settings.only_check,
        "start": settings.start,
    }
    return {
        "format_version": 2,
        "server": {"task_request_interval": 0.05 if settings.carrier == "tasks" else 1.0},
        "task_data_filters": [],
        "task_result_filters": [],
        "components": [],
        "workflows": [{"id": "study", "path": CONTROLLER, "args": arguments}],
    }


def _site_config(study: Study, settings: JobSettings) -> dict[str, Any]:
    return {
        "format_version": 2,
        "default_task_fetch_interval": 0.05 if settings.carrier == "tasks" else 0.5,
        "executors": [{"tasks": [TASK], "executor": {"path": EXECUTOR, "args": {"study": study.digest()}}}],
        "task_data_filters": [],
        "task_result_filters": [],
        "components": [],
    }


def _copy_study(study: Study, folder: Path) -> None:
    """Copy the study and the files it names, at the same relative places, so that the digest is the same."""
    folder.mkdir(parents=True)
    (folder / "study.toml").write_text(study.text, encoding="utf-8")
    for path in study.data.files:
        target = folder / path.relative_to(study.folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")
