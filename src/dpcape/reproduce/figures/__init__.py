"""The papers' figures, one module per topic, each with an ``EXPERIMENTS`` tuple."""
