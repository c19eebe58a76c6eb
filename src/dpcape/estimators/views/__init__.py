"""Views: what columns of the same records have in common (correlations, CCA, PLS)."""
