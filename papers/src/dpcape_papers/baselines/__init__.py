"""Competitors of the papers, for comparison only: what they claim, and what holds."""
