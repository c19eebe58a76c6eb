"""The data of the papers, prepared by public rules, and simulated data of the same shape."""
