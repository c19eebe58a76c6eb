"""The papers' figures, one package per topic: an ``EXPERIMENTS`` tuple, and the work behind it in other modules."""
