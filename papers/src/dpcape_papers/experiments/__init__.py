"""Running experiments: cells, their cache, results, pictures and the index page."""
