"""Image, compose file, workflows and locks, as far as they can be checked without running (deploy/rehearse does)."""

from __future__ import annotations

import re
import runpy
import socket
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpcape.cli.federation import federation
from dpcape.cli.site_serve import serve

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
MADE_WITH_HASHES = ("dev", "docs", "engine", "lowest", "pages")
in_a_clone = pytest.mark.skipif(not WORKFLOWS, reason="a source distribution has no workflows")


def steps(workflow: Path) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(workflow.read_text())["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


@in_a_clone
def test_workflows_use_pinned_actions_and_few_rights() -> None:
    used = [step["uses"] for workflow in WORKFLOWS for step in steps(workflow) if "uses" in step]
    assert used
    assert [name for name in used if not re.search(r"@[0-9a-f]{40}$", name)] == []
    for workflow in WORKFLOWS:
        assert yaml.safe_load(workflow.read_text())["permissions"] == {"contents": "read"}
        # What others can choose never becomes part of a command.
        assert not any("${{" in step.get("run", "") for step in steps(workflow))


@in_a_clone
def test_workflows_call_targets_that_exist_and_test_every_python() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
    called = {*jobs["parts"]["strategy"]["matrix"]["part"]}
    called |= {f"test-{name}" for name in jobs["versions"]["strategy"]["matrix"]["versions"]}
    runs = " ".join(step.get("run", "") for workflow in WORKFLOWS for step in steps(workflow))
    called |= set(re.findall(r"\bmake ([\w-]+)", runs))
    assert called <= targets
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    supported = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    assert jobs["test"]["strategy"]["matrix"]["python"] == supported


@pytest.mark.parametrize("name", MADE_WITH_HASHES)
def test_every_locked_version_has_a_hash(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    entries = re.findall(r"^([\w.-]+)==.*((?:\n    --hash.*)*)", text, re.MULTILINE)
    assert len(entries) > 20
    assert [package for package, hashes in entries if "sha256:" not in hashes] == []
    assert "://" not in text


def test_the_makefile_installs_locks_by_their_hashes() -> None:
    installs = re.findall(r"pip install .*--requirement requirements/(\w+)\.txt", (ROOT / "Makefile").read_text())
    hashed = re.findall(r"--require-hashes --requirement requirements/(\w+)\.txt", (ROOT / "Makefile").read_text())
    assert set(installs) - set(hashed) == {"torch"}
    assert set(hashed) == set(MADE_WITH_HASHES)


def test_every_service_is_confined_and_only_sites_see_data() -> None:
    services = COMPOSE["services"]
    assert set(services) == {"coordinator", "lima", "lyon", "oslo", "pune"}
    for name, service in services.items():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["user"] == "10001:10001"
        mounts = [volume.rsplit(":/", 1) for volume in service["volumes"]]
        seen = {inside for _, inside in mounts}
        assert seen == ({"federation"} if name == "coordinator" else {"site", "kit:ro", "data:ro"})
        # A site mounts nothing of another site.
        assert all(f"/{name}" in outside for outside, _ in mounts if name != "coordinator")
    assert COMPOSE["networks"]["consortium"]["internal"]


def test_services_run_commands_that_exist() -> None:
    _, _, *options = COMPOSE["services"]["lyon"]["command"]
    known = {name for option in serve.params for name in option.opts}
    assert {word for word in options if word.startswith("--")} <= known
    assert COMPOSE["services"]["coordinator"]["command"][1] in federation.commands


def test_the_image_is_locked_and_not_roots() -> None:
    text = (ROOT / "deploy" / "Containerfile").read_text()
    assert "--require-hashes" in text
    assert re.search(r"^USER 10001:10001$", text, re.MULTILINE)
    assert re.search(r"^HEALTHCHECK .*CMD \[\"dpcape-health\"\]$", text, re.MULTILINE)
    assert ":latest" not in text
    for source in re.findall(r"^COPY (?:--chmod=\d+ )?([^-\s]\S*)", text, re.MULTILINE):
        assert source.startswith("dist/") or (ROOT / source).is_file()


def test_health_names_what_does_not_run() -> None:
    health = runpy.run_path(str(ROOT / "deploy" / "health.py"))
    supervisor = "python /opt/dpcape/bin/dpcape site serve --folder /site"
    vault, engine = "python -I -m dpcape.site.vault.server", "python -u -m dpcape.engines.flare.site_client -m /tmp/x"
    assert health["missing"]([supervisor, vault, engine]) == []
    assert health["missing"]([supervisor, vault]) == ["engine"]
    assert health["missing"]([supervisor]) == ["vault", "engine"]
    assert health["missing"](["python -m nvflare.private.fed.app.server.server_train"]) == []
    assert health["missing"]([]) == ["server"]
    assert health["commands"]()
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        assert not health["accepts"](port)
        listening.listen()
        assert health["accepts"](port)
