"""Where the things under test live: the only file here that knows the modules inside dpcape."""

from __future__ import annotations

from dpcape import errors, messages, run_folder
from dpcape.cli import main
from dpcape.messages import FromSite, ToSite, decode_from_site, decode_to_site, encode
from dpcape.planner.analyses import PLANNED, options_of, releases_of
from dpcape.planner.page import write_planner
from dpcape.planner.release import Setting
from dpcape.planning import make_protocol, plan_study
from dpcape.privacy import chain
from dpcape.privacy.ledger import Charge
from dpcape.privacy.site_ledger import Ceiling
from dpcape.privacy.terms import Terms
from dpcape.report.card import Spent, card_html, card_of, card_text
from dpcape.run import run_in_process
from dpcape.site_folder import SiteFolder
from dpcape.statistics import first_moments, second_moment
from dpcape.statistics.base import _KNOWN as KNOWN_STATISTICS
from dpcape.steward_page.pages import Pages
from dpcape.study import Study
from dpcape.study.outline import statistic_names
from dpcape.transport.base import Passing

# Modules that ask what time it is, by the name `datetime`.
CLOCKS = (chain, run_folder)
# The function of the planner page that plans a study.
PLAN_FUNCTION = "planStudy"

__all__ = [
    "CLOCKS",
    "KNOWN_STATISTICS",
    "PLANNED",
    "PLAN_FUNCTION",
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
    "options_of",
    "plan_study",
    "releases_of",
    "run_in_process",
    "second_moment",
    "statistic_names",
    "write_planner",
]
