"""What FLARE starts at the server for one job: the Federation over the job's transport, and the study's estimator."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.signal import Signal

from dpcape.analyses.registry import ANY_PACKAGE
from dpcape.core.secure_sum.identity import Identity
from dpcape.engines.flare.config import COORDINATOR_KEY, IDENTITIES, STATUS_TOPIC
from dpcape.engines.flare.job import RELEASES, RESULT_FOLDER, STUDY_FOLDER, read_heads
from dpcape.engines.flare.push_carrier import PushCarrier, cell_of
from dpcape.engines.flare.task_carrier import TaskCarrier
from dpcape.federation.kept_releases import KeptReleases
from dpcape.runs.study_run import EVENTS, StudyRun
from dpcape.study.study import Study
from dpcape.transport.carried_transport import Call, CarriedTransport
from dpcape.transport.delivery_status import DeliveryStatus
from dpcape.transport.timing import PRESET

# What ends downloads of torch tensors, of which a study has none. FLARE imports it at the end of every job, and torch
# with it, which takes longer than the study; it goes on without it where the import fails.
_TENSOR_DOWNLOADS = "nvflare.app_opt.pt.tensor_downloader"


class StudyController(Controller):  # type: ignore[misc]  # FLARE is untyped
    """Runs one study.

    Parameters
    ----------
    carrier : str
        "push", or "tasks" for the fallback.
    only_check : bool
        Stop once all sites are ready and described: nothing is opened, nothing charged.
    start : float
        Seconds for all sites to be ready.
    """

    def __init__(self, carrier: str = "push", only_check: bool = False, start: float = PRESET.start) -> None:
        super().__init__()
        self._carrier_name, self._only_check, self._start = carrier, only_check, start
        self._status: DeliveryStatus | None = None
        # Python refuses to import a module that is None here; torch itself stays within reach of studies that train it.
        sys.modules.setdefault(_TENSOR_DOWNLOADS, None)  # type: ignore[arg-type]  # stubs know modules only

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Read the study and let the submitter query the job's status."""
        workspace: Any = fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT)
        job = fl_ctx.get_job_id()
        config = Path(workspace.get_app_config_dir(job))
        self._study = Study.load(config / STUDY_FOLDER / "study.toml", packages=ANY_PACKAGE)
        self._heads = read_heads(config)
        self._out = Path(workspace.get_run_dir(job)) / RESULT_FOLDER
        self._out.mkdir(mode=0o700, exist_ok=True)
        # The releases that an earlier job left, if any.
        if (config / RELEASES).is_dir() and not (self._out / RELEASES).exists():
            shutil.copytree(config / RELEASES, self._out / RELEASES)
        self._releases = KeptReleases(self._out / RELEASES)
        kept_allowance = self._releases.allowance()
        # An allowance is resumed with the sites it was opened for.
        self._sites = self._study.sites if kept_allowance is None else kept_allowance.terms.sites
        local = Path(workspace.get_site_config_dir())
        known = json.loads((local / IDENTITIES).read_text(encoding="utf-8"))
        self._call = Call(
            job=job,
            study=self._study.digest(),
            identity=Identity.from_private_bytes((local / COORDINATOR_KEY).read_bytes()),
            sites={site: bytes.fromhex(key) for site, key in known.items()},
            allowance="" if kept_allowance is None else kept_allowance.terms.allowance,
        )
        dealers = (self._study.dealer,) if self._study.dealer else ()
        self._status = DeliveryStatus((*self._sites, *dealers), self._out / EVENTS)
        fl_ctx.get_engine().register_app_command(STATUS_TOPIC, self._report_status)

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Carry the study through; a failure ends the job as failed, with the reason in its results."""
        assert self._status is not None
        cell = cell_of(fl_ctx.get_engine())
        use_tasks = self._carrier_name == "tasks" or cell is None
        transport = CarriedTransport(
            self._sites,
            TaskCarrier(self, fl_ctx) if use_tasks else PushCarrier(cell, self._call.job),
            call=self._call,
            status=self._status,
            timing=replace(PRESET, start=self._start),
            is_cancelled=lambda: bool(abort_signal.triggered),
            dealer=self._study.dealer or None,
        )
        study_run = StudyRun(
            self._study, transport, status=self._status, out=self._out, seen_heads=self._heads, releases=self._releases
        )
        failure = study_run.run(only_check=self._only_check)
        if failure:
            self.system_panic(failure, fl_ctx)

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Nothing is left open."""

    def _report_status(self, topic: str, data: Any, fl_ctx: FLContext) -> dict[str, Any]:
        assert self._status is not None
        after = data.get("after", 0) if isinstance(data, dict) else 0
        return self._status.snapshot(after if isinstance(after, int) else 0)
