"""Differences between sites: harmonisation, and random effects over sites."""
