"""What FLARE starts at a site for one job: it opens the approved study and puts a desk before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_constant import ReturnCode as TaskCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from dpcape.engines.flare.config import TASK
from dpcape.engines.flare.push_carrier import core_cell_of, serve_push
from dpcape.engines.flare.task_carrier import answer_task
from dpcape.site.serving import SETTINGS_FILE, SiteSettings, open_study
from dpcape.transport.request_handler import JobBinding, RequestHandler


class SiteExecutor(Executor):  # type: ignore[misc]  # FLARE is untyped
    """One site in one job. The job names a study by its digest; everything else is at the site already.

    Parameters
    ----------
    study : str
        Digest of the study; the site refuses one that it has not approved.
    """

    def __init__(self, study: str) -> None:
        super().__init__()
        self._study = study
        self._desk: RequestHandler | None = None

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Open the study when the job starts."""
        if event_type == EventType.START_RUN:
            settings = _settings(fl_ctx)
            post = JobBinding(
                job=fl_ctx.get_job_id(),
                study=self._study,
                site=fl_ctx.get_identity_name(),
                coordinator=bytes.fromhex(settings.coordinator),
            )
            self._desk = RequestHandler(post, self._opener(settings, post))
            core_cell = core_cell_of(fl_ctx.get_engine())
            if core_cell is not None:
                serve_push(core_cell, self._desk.handle)

    def _opener(self, settings: SiteSettings, post: JobBinding) -> Callable[[], Callable[[bytes], bytes]]:
        return lambda: open_study(settings, post.site, post.study)

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        """Answer a request that came as a task."""
        if task_name != TASK or self._desk is None:
            return make_reply(TaskCode.TASK_UNKNOWN)
        return answer_task(self._desk.handle, shareable)


def _settings(fl_ctx: FLContext) -> SiteSettings:
    workspace: Any = fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT)
    return SiteSettings.load(workspace.get_file_path_in_site_config(SETTINGS_FILE))
