"""Experiments: cells, cache, results, pictures and the index page."""
