"""The trusted part: what must be right for the guarantee. It imports nothing else of dpcape; see README.md."""
