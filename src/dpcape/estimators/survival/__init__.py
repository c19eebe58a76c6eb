"""Survival: curves, tests of their difference, and hazard ratios."""
