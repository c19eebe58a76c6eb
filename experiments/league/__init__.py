"""The league: dpcape against other private methods at the same guarantee."""
