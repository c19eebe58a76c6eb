"""Joint analyses across sites, under differential privacy."""
