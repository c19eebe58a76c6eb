"""Many sites in one process: whole studies beside the key agreements they cannot do without, and a sparse graph.

CPU time of this process, one thread, interleaved. PCA of 20 columns, 50 records at each site, two colluding. The
reference is one X25519 exchange per ordered pair of sites. Run ``python benchmarks/many_sites.py``; with ``--thousand``
also 1000 sites, with masks between all of them and with 20 neighbours each, which takes minutes and 2 GB.
"""

from __future__ import annotations

import sys
import warnings
from functools import partial

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from timing import cpu_times, show

from dpcape import PCA, Cape, Federation, Replay, SecureSum, in_process, rows

N_SITES, N_NEIGHBOURS = 200, 20


def exchanges(keys: list[X25519PrivateKey]) -> None:
    """Agree on a key for every ordered pair of sites."""
    public = [key.public_key() for key in keys]
    for key in keys:
        for other in public:
            key.exchange(other)


def study(n_sites: int, kind: type[Cape | SecureSum], n_neighbours: int | None) -> None:
    """Run one study, with sites, keys and ledgers made for it."""
    draw = np.random.default_rng(1)
    records = {f"site-{k:04d}": rows(0.1 * draw.normal(size=(50, 20)), bound=1.0) for k in range(n_sites)}
    protocol = kind(n_colluding=2, n_neighbours=n_neighbours)
    PCA(3, epsilon=1.0, delta=1e-5, center=False).fit(
        Federation(in_process(records, noise=Replay(3)), protocol=protocol)
    )


def main() -> None:
    """Print the ratios."""
    warnings.simplefilter("ignore")
    study(5, SecureSum, None)  # imports
    tasks = {"exchanges": partial(exchanges, [X25519PrivateKey.generate() for _ in range(N_SITES)])}
    for kind in (SecureSum, Cape):
        tasks[kind.name] = partial(study, N_SITES, kind, None)
        tasks[f"{kind.name}, sparse"] = partial(study, N_SITES, kind, N_NEIGHBOURS)
    times = cpu_times(tasks, rounds=3)
    for kind in (SecureSum, Cape):
        what = f"{N_SITES} sites, {kind.title} / one X25519 exchange per ordered pair"
        show(what, times[kind.name] / times["exchanges"], "<= 4")
        show(f"{what}, {N_NEIGHBOURS} neighbours", times[f"{kind.name}, sparse"] / times["exchanges"], "")
    if "--thousand" in sys.argv:
        ways = {"all": None, "sparse": N_NEIGHBOURS}
        found = cpu_times({way: partial(study, 1000, SecureSum, number) for way, number in ways.items()}, rounds=1)
        print(", ".join(f"{way}: {float(seconds):.1f} s" for way, seconds in found.items()))
        show("1000 sites, masks between all / 20 neighbours", found["all"] / found["sparse"], ">= 3")


if __name__ == "__main__":
    main()
