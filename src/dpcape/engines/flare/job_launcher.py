"""Launcher of a job's process at a site, and the exit status it reports: one crash never fails the whole study."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Any

from nvflare.apis.fl_constant import FLContextKey, FLMetaKey, JobConstants
from nvflare.apis.fl_context import FLContext
from nvflare.apis.job_launcher_spec import JobHandleSpec, JobReturnCode
from nvflare.app_common.job_launcher.client_process_launcher import ClientProcessJobLauncher
from nvflare.app_common.job_launcher.process_launcher import ProcessHandle


class SiteJobHandle(JobHandleSpec):  # type: ignore[misc]  # FLARE is untyped
    """A job's process whose abnormal end is reported as unknown; dpcape counts the sites that are left.

    Parameters
    ----------
    inner : ProcessHandle
        FLARE's own handle.
    code_file : Path
        File in which the process leaves its own return code, which FLARE would report instead.
    """

    def __init__(self, inner: ProcessHandle, code_file: Path) -> None:
        super().__init__()
        self._inner, self._code_file = inner, code_file

    def terminate(self) -> None:
        """End this process and not its group.

        FLARE would end its group. In the sandbox that is the engine's too, since no process can leave it.
        """
        if self._inner.adapter.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._inner.adapter.pid, signal.SIGKILL)

    def poll(self) -> Any:
        """Return success, or that the outcome is unknown."""
        code = self._inner.poll()
        return code if code == JobReturnCode.SUCCESS else JobReturnCode.UNKNOWN

    def wait(self) -> None:
        """Wait for the process to end."""
        self._inner.wait()
        with contextlib.suppress(OSError):
            self._code_file.unlink()


class SiteJobLauncher(ClientProcessJobLauncher):  # type: ignore[misc]  # FLARE is untyped
    """Starts jobs as FLARE does; they inherit the socket to the vault."""

    def launch_job(self, job_meta: dict[str, Any], fl_ctx: FLContext) -> JobHandleSpec:
        """Start a job's process."""
        workspace: Any = fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT)
        folder = Path(workspace.get_run_dir(job_meta.get(JobConstants.JOB_ID)))
        return SiteJobHandle(super().launch_job(job_meta, fl_ctx), folder / FLMetaKey.PROCESS_RC_FILE)
