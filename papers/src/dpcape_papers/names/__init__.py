"""The names that readers of the papers look for: what each is in dpcape, and what is corrected."""

from dpcape_papers.names.name import CONSEQUENCES, PaperName
from dpcape_papers.names.registry import NAMES, find_name

__all__ = ["CONSEQUENCES", "NAMES", "PaperName", "find_name"]
