"""One tested preset of FLARE's timeouts, policies and paths (docs/scale.md has the measurements)."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

EXECUTOR = "dpcape.engines.flare.executor.SiteExecutor"
CONTROLLER = "dpcape.engines.flare.controller.StudyController"
# Topics and channels of dpcape inside FLARE.
CHANNEL = "dpcape"
TASK = "dpcape"
STATUS_TOPIC = "dpcape_status"


# What FLARE's administrator may do at a site: submit and stop jobs, see that they run. Never bring code, never run
# shell commands (which read files) at a site.
_RIGHTS = {
    "submit_job": "any",
    "clone_job": "none",
    "manage_job": "any",
    "download_job": "any",
    "view": "any",
    "operate": "any",
    "shell_commands": "none",
    "byoc": "none",
    "server-predeployed-flwr": "none",
}
_NO_RIGHTS = {**dict.fromkeys(_RIGHTS, "none"), "view": "any"}


def authorization(*, at_server: bool) -> dict[str, Any]:
    """Return authorization.json; at the server a job may also be asked how it stands."""
    rights = {**_RIGHTS, "app_command": "any"} if at_server else _RIGHTS
    roles = {"project_admin": rights, "org_admin": _NO_RIGHTS, "lead": _NO_RIGHTS, "member": _NO_RIGHTS}
    return {"format_version": "1.0", "permissions": roles}


def site_resources(default: dict[str, Any]) -> dict[str, Any]:
    """Return a site's resources.json: dpcape's executor alone, and no log leaves."""
    resources = copy.deepcopy(default)
    resources["class_allow_list"] = [EXECUTOR]
    resources["allow_log_streaming"] = False
    resources["components"] = [entry for entry in resources["components"] if entry["id"] != "site_log_streamer"]
    return resources


def server_resources(default: dict[str, Any], store: Path) -> dict[str, Any]:
    """Return the server's resources.json: dpcape's controller alone, stores under ``store`` (absolute)."""
    resources = copy.deepcopy(default)
    resources["class_allow_list"] = [CONTROLLER]
    resources["snapshot_persistor"]["args"]["storage"]["args"]["root_dir"] = str(store / "snapshots")
    resources["components"] = [entry for entry in resources["components"] if entry["id"] != "log_receiver"]
    for entry in resources["components"]:
        if entry["id"] == "job_manager":
            entry["args"]["uri_root"] = str(store / "jobs")
    return resources
