"""Files of one site as records."""
