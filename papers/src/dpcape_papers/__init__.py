"""Every figure and table of the papers, run again: data, picture, and a verdict on each claim of the text.

Seeded generators in this package make up data and repeat the papers' own noise; nothing is protected by them. Verified
curves run the real protocols with replayable noise, which protects nobody either: data here are made up or public.
"""
