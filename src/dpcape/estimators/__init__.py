"""Estimators, in a folder by family: each requests private means of bounded statistics and post-processes them."""
