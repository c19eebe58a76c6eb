"""Clusters: k-means and mixtures of Gaussians."""
