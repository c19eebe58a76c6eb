"""What FLARE starts at a site for one job: it relays frames and replies between FLARE and the vault, unread."""

from __future__ import annotations

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode as TaskCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from dpcape.engines.flare.config import TASK
from dpcape.engines.flare.push_carrier import cell_of, serve_push
from dpcape.engines.flare.task_carrier import answer_task
from dpcape.site.vault.client import VaultClient


class SiteExecutor(Executor):  # type: ignore[misc]  # FLARE is untyped
    """One site in one job. Which study may run, and what it may do, is decided in the vault.

    Parameters
    ----------
    study : str
        Digest of the study; kept for FLARE's own records, not used here.
    """

    def __init__(self, study: str) -> None:
        super().__init__()
        self._study = study
        self._vault: VaultClient | None = None

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Connect the job to the vault when it starts."""
        if event_type == EventType.START_RUN:
            self._vault = VaultClient.inherited()
            cell = cell_of(fl_ctx.get_engine())
            if cell is not None:
                serve_push(cell, self._vault.ask)

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        """Answer a request that came as a task."""
        if task_name != TASK or self._vault is None:
            return make_reply(TaskCode.TASK_UNKNOWN)
        return answer_task(self._vault.ask, shareable)
