"""Real federations on NVIDIA FLARE (extra ``engine``): the only package that imports nvflare.

FLARE carries opaque bytes. What they mean, who may send them and what a site answers is decided by dpcape on both
ends; no code travels, and nothing of FLARE is visible outside this package::

    dpcape run -> submit.py -> FLARE job (job.py) -> controller.py: Federation over push_carrier.py or task_carrier.py
                                                     executor.py:   client of the vault, at every site
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from dpcape.core.errors import MissingExtra

if TYPE_CHECKING:
    from dpcape.study.study import Study


def run_study(study: Study, out: str | Path) -> None:
    """Run a study on the federation it names, in the run folder ``out``, with a live table of who is awaited."""
    if find_spec("nvflare") is None:
        raise MissingExtra("NVIDIA FLARE", "engine")
    from dpcape.engines.flare.live_table import live_table
    from dpcape.engines.flare.submit import compute
    from dpcape.runs.folder import RunFolder

    with live_table(study.name) as listen:
        compute(study, RunFolder(out), listen=listen)
