"""Chapter 8 and section 3.4 of the dissertation: regressions and the network, with their competitors."""
