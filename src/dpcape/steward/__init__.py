"""The steward's page: what ``dpcape site`` shows and does, in a browser on the same computer.

::

    server.py     listens on 127.0.0.1 and nowhere else, until stopped or left alone
    exchange.py   one request: who asks, is it allowed, what is answered
    door.py       the code to sign in with, the session, the stamps of forms
    checks.py     what a request must look like before anything is done for it
    forms.py      what the steward filled in
    desk.py       which page or decision an address stands for
    pages.py      what is shown
    decisions.py  what is done, through SiteFolder as the commands do it
    facts.py      what the ledger and the kept studies say
    pictures.py   spending against ceilings
"""

from dpcape.steward.server import StewardServer

__all__ = ["StewardServer"]
