"""Memory that analyses declare and take."""
