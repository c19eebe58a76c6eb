"""The planner as one self-contained offline page."""

from dpcape.planning.page.planner_page import write_planner

__all__ = ["write_planner"]
