"""``python -m dpcape``."""

from dpcape.cli import main

main()
