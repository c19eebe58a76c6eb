"""The fallback: requests as FLARE tasks, through documented calls only. Slower, since sites poll for tasks."""

from __future__ import annotations

import math
import time
from typing import Any, ClassVar

from nvflare.apis.controller_spec import Task
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import ReturnCode, Shareable, make_reply

from dpcape.engines.flare.config import TASK
from dpcape.transport.carrier import Carrier, Delivery
from dpcape.transport.frames import Kind

_KEY = "frame"
_CHECK_SECONDS = 0.02


class TaskCarrier(Carrier):
    """Sends requests as tasks of a controller."""

    can_ping: ClassVar[bool] = False

    def __init__(self, controller: Any, fl_ctx: FLContext) -> None:
        self._controller, self._context = controller, fl_ctx

    def carry(self, site: str, kind: Kind, data: bytes, timeout: float) -> Delivery:
        seconds = max(1, math.ceil(timeout))
        task = Task(name=TASK, data=Shareable({_KEY: data}), timeout=seconds)
        try:
            self._controller.send(task=task, fl_ctx=self._context, targets=[site])
            end = time.monotonic() + seconds + 1.0
            while task.completion_status is None and time.monotonic() < end:
                time.sleep(_CHECK_SECONDS)
            result = task.client_tasks[0].result if task.client_tasks else None
        except Exception:  # whatever the engine raises, the transport needs an answer
            return Delivery("error")
        if result is None:
            return Delivery("timeout")
        answer = result.get(_KEY)
        is_good = result.get_return_code() == ReturnCode.OK and isinstance(answer, bytes)
        return Delivery("ok", answer) if is_good else Delivery("error")


def answer_task(handle: Any, shareable: Shareable) -> Shareable:
    """Answer one task at a site."""
    reply = make_reply(ReturnCode.OK)
    try:
        reply[_KEY] = handle(shareable.get(_KEY))
    except OSError:  # the vault is gone
        return make_reply(ReturnCode.EXECUTION_EXCEPTION)
    return reply
