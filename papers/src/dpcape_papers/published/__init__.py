"""The papers' own calibrations and the guarantees they really provide, for comparison only."""
