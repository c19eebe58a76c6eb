"""FLARE's client at a site, started inside the sandbox by ``dpcape site serve``.

The sandbox is what protects the site. What is changed in FLARE here lets it run without UDP, and is a second layer:
commands that read files or logs are removed, and control messages are taken from the server and the site's own jobs.
Its own processes meet on a socket that listens already, since nothing in the sandbox can begin to listen.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import Any

from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.cellnet.utils import make_reply
from nvflare.fuel.f3.drivers.tcp_driver import TcpStreamServer
from nvflare.fuel.f3.mpm import MainProcessMonitor
from nvflare.private.fed import authenticator
from nvflare.private.fed.app.client import client_train
from nvflare.private.fed.app.utils import version_check
from nvflare.private.fed.client.admin import FedAdminAgent
from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors

from dpcape.site.vault.client import LISTENER_VARIABLE

_REMOVED = {
    "ShellCommandProcessor",
    "SysInfoProcessor",
    "ReportEnvProcessor",
    "ConfigureJobLogProcessor",
    "ConfigureSiteLogProcessor",
}


def amend() -> None:
    """Change FLARE in this process."""
    # FLARE opens a UDP socket to learn its own address, which the server only writes into its log.
    authenticator._get_client_ip = lambda: "127.0.0.1"
    allowed = [entry for entry in ClientRequestProcessors.request_processors if type(entry).__name__ not in _REMOVED]
    ClientRequestProcessors.request_processors[:] = allowed
    dispatch = FedAdminAgent._dispatch_request

    def from_server(self: Any, request: Any) -> Any:
        origin = str(request.get_header(MessageHeaderKey.ORIGIN))
        # The site's own jobs report to it as well.
        if origin != FQCN.ROOT_SERVER and not origin.startswith(f"{self.cell.get_fqcn()}."):
            return make_reply(ReturnCode.UNAUTHENTICATED, "", None)
        return dispatch(self, request)

    FedAdminAgent._dispatch_request = from_server
    if LISTENER_VARIABLE in os.environ:
        _listen_on(int(os.environ.pop(LISTENER_VARIABLE)))


def _listen_on(inherited: int) -> None:
    """Have FLARE's server for the site's own jobs take an inherited socket, which listens, for the one it made."""
    os.set_inheritable(inherited, False)

    def bind(self: Any) -> None:
        self.socket.close()
        self.socket = socket.socket(fileno=os.dup(inherited))
        self.server_address = self.socket.getsockname()

    TcpStreamServer.server_bind = bind
    TcpStreamServer.server_activate = lambda self: None


def main() -> None:
    """Run FLARE's client with the arguments FLARE's own start script gives it."""
    amend()
    version_check()
    arguments = client_train.parse_arguments()
    sys.exit(MainProcessMonitor.run(main_func=client_train.main, run_dir=arguments.workspace, args=arguments))


if __name__ == "__main__":
    main()
