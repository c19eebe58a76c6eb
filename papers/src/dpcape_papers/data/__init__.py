"""The papers' data, prepared by public rules, and simulated data."""
