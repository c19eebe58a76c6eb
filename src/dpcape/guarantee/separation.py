"""Where a site's records are, besides its own process: behind which separation from an engine, on which cluster.

Each has a line that says so wherever a result is shown.
"""

from __future__ import annotations

from collections.abc import Mapping

ACCOUNT, CONFINED, SIGNALS, PORTS, UNSEPARATED = "account", "confined", "signals", "ports", "none"

_CONFINED = "engine confined by Landlock and seccomp; assumed: the site's kernel is sound"
_FIREWALL = "assumed: a firewall limits the engine's connections"

# What a guarantee says of a site that reports this mode.
LINES = {
    ACCOUNT: "engine under another account, confined by Landlock and seccomp",
    CONFINED: _CONFINED,
    SIGNALS: f"{_CONFINED}; the engine can stop the site",
    PORTS: f"{_CONFINED}; the engine can stop the site; {_FIREWALL}",
    UNSEPARATED: "NOT SEPARATED: every member and the coordinator can read this site's records",
}


def separation_lines(modes: Mapping[str, str]) -> tuple[str, ...]:
    """Return one line for each mode that sites report, with their names; sites without an engine are left out."""
    sites_by_mode: dict[str, list[str]] = {}
    for site, mode in sorted(modes.items()):
        if mode:
            # An unknown mode counts as no separation.
            sites_by_mode.setdefault(mode if mode in LINES else UNSEPARATED, []).append(site)
    return tuple(f"at {', '.join(sites_by_mode[mode])}: {LINES[mode]}" for mode in LINES if mode in sites_by_mode)


# What a guarantee says of a site that computes totals elsewhere than in its own process.
CLUSTERS = {"dask": "computed on the site's Dask cluster; assumed: it lies inside the site's boundary"}
_SOME_CLUSTER = "computed on a cluster of the site's; assumed: it lies inside the site's boundary"


def cluster_lines(clusters: Mapping[str, str]) -> tuple[str, ...]:
    """Return one line for each kind of cluster that sites compute on, with their names."""
    sites_by_line: dict[str, list[str]] = {}
    for site, cluster in sorted(clusters.items()):
        if cluster:
            sites_by_line.setdefault(CLUSTERS.get(cluster, _SOME_CLUSTER), []).append(site)
    return tuple(f"at {', '.join(sites)}: {line}" for line, sites in sorted(sites_by_line.items()))


def is_unseparated(modes: Mapping[str, str]) -> bool:
    """Whether a site's records lie open to the engine's peers."""
    return any(mode and (mode not in LINES or mode == UNSEPARATED) for mode in modes.values())
