"""Privilege separation at a site: the vault holds records, keys and ledger; the engine runs in a sandbox.

::

    supervisor  starts, watches and restarts the other two as a pair; judges the self-test
    server      the vault: folder, ledger, identity and Site; no network, no engine
    launch      confines itself, reports what it can still reach, then becomes the engine
    client      what an engine uses to hand frames to the vault; the only part an engine may import

docs/threat_model.md says what holds in which mode; docs/decisions/0012 why.
"""
