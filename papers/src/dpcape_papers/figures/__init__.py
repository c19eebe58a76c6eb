"""The papers' figures, one package per topic: an ``EXPERIMENTS`` tuple, and the code behind it in other modules."""
