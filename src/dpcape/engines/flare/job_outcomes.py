"""At the server: a site's report that its job failed ends that site's part, not the study.

FLARE fails the whole job on such a report, and any member can send one. Here a report only says that the site is no
longer awaited; the study goes on if enough sites are left (``minimum_sites``).
"""

from __future__ import annotations

from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_context import FLContext
from nvflare.apis.job_launcher_spec import JobReturnCode
from nvflare.private.defs import CellChannel, CellChannelTopic, JobFailureMsgKey


class JobOutcomes(FLComponent):  # type: ignore[misc]  # FLARE is untyped
    """Replaces FLARE's handler of failure reports when the server starts."""

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Take the handler's place."""
        if event_type != EventType.SYSTEM_START:
            return
        server = fl_ctx.get_engine().server

        def reported(request: Any) -> Any:
            if isinstance(request.payload, dict):
                request.payload[JobFailureMsgKey.CODE] = JobReturnCode.UNKNOWN
            # FLARE checks the sender and marks the site's process as finished.
            return server.process_job_failure(request)

        server.cell.register_request_cb(
            channel=CellChannel.SERVER_MAIN, topic=CellChannelTopic.REPORT_JOB_FAILURE, cb=reported
        )
