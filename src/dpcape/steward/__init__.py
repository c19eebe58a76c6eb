"""The steward's page: ``dpcape site`` in a browser on the same computer.

::

    server.py           listens on 127.0.0.1 only, until stopped or idle
    request_handler.py  one request: checks it, then answers it
    request_checks.py   checks of a request's headers
    sign_in.py          one-time codes, the session, stamps of forms
    forms.py            form fields and uploaded files
    routes.py           the page or decision for each address
    pages.py            the pages
    decisions.py        decisions, through SiteFolder as the commands make them
    review.py           what a study would do here
    ledger_view.py      values of the ledger and of kept studies
    ledger_rows.py      rows of the ledger in words
    pictures.py         spending against ceilings
"""
