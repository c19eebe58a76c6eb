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
LAUNCHER = "dpcape.engines.flare.job_launcher.SiteJobLauncher"
OUTCOMES = "dpcape.engines.flare.job_outcomes.JobOutcomes"
# In the server's kit: the key that signs requests, and the public keys that replies are checked with.
COORDINATOR_KEY, IDENTITIES = "coordinator.key", "identities.json"


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
    """Return authorization.json; at the server a job's status may also be queried."""
    rights = {**_RIGHTS, "app_command": "any"} if at_server else _RIGHTS
    roles = {"project_admin": rights, "org_admin": _NO_RIGHTS, "lead": _NO_RIGHTS, "member": _NO_RIGHTS}
    return {"format_version": "1.0", "permissions": roles}


def site_resources() -> dict[str, Any]:
    """Return a site's resources.json: only dpcape's executor, no log streaming, and dpcape's job launcher."""
    resource = "nvflare.app_common.resource_{}s.gpu_resource_{}.GPUResource{}"
    manager = {"num_of_gpus": 0, "mem_per_gpu_in_GiB": 0, "expiration_period": 300}
    components: list[dict[str, Any]] = [
        {"id": "resource_manager", "path": resource.format("manager", "manager", "Manager"), "args": manager},
        {"id": "resource_consumer", "path": resource.format("consumer", "consumer", "Consumer"), "args": {}},
        {"id": "process_launcher", "path": LAUNCHER, "args": {}},
    ]
    return {
        "format_version": 2,
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": [EXECUTOR],
        "allow_log_streaming": False,
        "client": {"retry_timeout": 30, "compression": "Gzip"},
        "components": components,
    }


def comm_config(port: int) -> dict[str, Any]:
    """Return comm_config.json: one fixed port on loopback between FLARE's own processes at a site."""
    resources = {"host": "localhost", "port": port, "connection_security": "clear"}
    return {"allow_adhoc_conns": False, "internal": {"scheme": "tcp", "resources": resources}}


def server_resources(default: dict[str, Any], store: Path) -> dict[str, Any]:
    """Return the server's resources.json: only dpcape's controller, stores under ``store`` (absolute)."""
    resources = copy.deepcopy(default)
    resources["class_allow_list"] = [CONTROLLER]
    resources["snapshot_persistor"]["args"]["storage"]["args"]["root_dir"] = str(store / "snapshots")
    resources["components"] = [entry for entry in resources["components"] if entry["id"] != "log_receiver"]
    for entry in resources["components"]:
        if entry["id"] == "job_manager":
            entry["args"]["uri_root"] = str(store / "jobs")
    resources["components"].append({"id": "job_outcomes", "path": OUTCOMES, "args": {}})
    return resources
