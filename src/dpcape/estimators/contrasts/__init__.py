"""Contrasts: adjusted differences between groups, in one outcome or many."""
