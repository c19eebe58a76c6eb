"""Code of other packages at a site: it runs in sandboxed children, never in a process that holds keys or records.

::

    zygote      trusted; holds nothing, loads no foreign code, starts one child per task
    child       gives up what is left, loads the package, answers one task, dies
    sources     packages as text, so that a child needs no file
    tasks       what a child is told, and what it answers
    workers     the vault's side: hands over one block at a time, waits a fixed time, believes nothing

docs/threat_model.md says what holds, :mod:`dpcape.core.enclosed` why.
"""
