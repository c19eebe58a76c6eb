"""Empirical audits: attacks with the adversary's whole view, compared with the guarantee."""
