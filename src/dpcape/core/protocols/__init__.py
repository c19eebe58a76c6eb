"""Protocols: how sites add noise so that it is large at a site and small in the sum."""
