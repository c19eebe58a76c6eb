"""Every figure and table of the papers, run again: data, picture, and a verdict on each claim of the text."""
