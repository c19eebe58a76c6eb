"""The planner as one self-contained offline page."""
