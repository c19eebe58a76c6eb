"""Estimators: each requests private means of bounded statistics and post-processes them."""
