"""Reproduction of every figure and table of the papers: data, picture and a verdict on each claim of the text.

Generators in this package are seeded: they simulate data and repeat the papers' noise, and protect nothing. Verified
curves run the real protocols with replayable noise, which protects nothing either. All data are simulated or public.
"""
