"""The papers' own calibrations, for comparison only: claimed and verified figures side by side."""
