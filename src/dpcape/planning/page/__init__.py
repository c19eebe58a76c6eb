"""The planner as one offline page."""

from dpcape.planning.page.planner_page import write_planner

__all__ = ["write_planner"]
