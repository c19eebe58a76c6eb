"""Where the things under test live: the only file here that knows the modules inside dpcape."""

from __future__ import annotations

from dpcape.analyses.registry import variants
from dpcape.cli import main
from dpcape.core import errors, messages
from dpcape.core.messages import FromSite, ToSite, decode_from_site, decode_to_site, encode
from dpcape.core.privacy.ledger import Charge
from dpcape.core.privacy.terms import Terms
from dpcape.core.protocols.registry import make_protocol
from dpcape.core.statistic import _KNOWN as KNOWN_STATISTICS
from dpcape.core.statistic import load_all
from dpcape.guarantee.card import Spent, card_html, card_of, card_text
from dpcape.planning.consortium import Consortium as Setting
from dpcape.planning.planned import releases_of, start_of
from dpcape.planning.study_plan import plan_study
from dpcape.runs import folder as run_folder
from dpcape.runs.in_process import run_in_process
from dpcape.site import hash_chain
from dpcape.site.folder import SiteFolder
from dpcape.site.ledger import Ceiling
from dpcape.statistics.moments import first_moments, second_moment
from dpcape.steward.pages import Pages
from dpcape.study.study import Study
from dpcape.transport.transport import Passing

# A family that is renewed by itself must find what all of them together load.
load_all()
PLANNED = variants()
statistic_names = Study.statistics
# Modules that ask what time it is, by the name `datetime`.
CLOCKS = (hash_chain, run_folder)

__all__ = [
    "CLOCKS",
    "KNOWN_STATISTICS",
    "PLANNED",
    "Ceiling",
    "Charge",
    "FromSite",
    "Pages",
    "Passing",
    "Setting",
    "SiteFolder",
    "Spent",
    "Study",
    "Terms",
    "ToSite",
    "card_html",
    "card_of",
    "card_text",
    "decode_from_site",
    "decode_to_site",
    "encode",
    "errors",
    "first_moments",
    "main",
    "make_protocol",
    "messages",
    "plan_study",
    "releases_of",
    "run_in_process",
    "second_moment",
    "start_of",
    "statistic_names",
]
