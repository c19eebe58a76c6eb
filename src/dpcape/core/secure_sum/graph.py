"""Who masks with whom: all pairs of sites, or a sparse graph whose use is certified set by set.

With many sites, masks and shares for all pairs cost more than the sum. In a sparse graph a site masks with its
neighbours alone, and shares its round secrets among them. What is then hidden depends on the set of sites whose sum is
opened: colluding sites must not separate the honest ones of that set from each other. So no site takes part in a sum
over a set before it has certified that set, whatever the graph is, and whichever sites were dropped.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np

from dpcape.core.arrays import FloatArray, IntArray
from dpcape.core.errors import ProtocolError
from dpcape.core.secure_sum.config import Config
from dpcape.core.secure_sum.transcript import digest

# Covers the rounding of a Cholesky factorization: (n + 2) 2^-53 times the trace stays below it as long as the trace
# times n is below 2^42, far above what fits into memory.
MARGIN = 2.0**-10
_MOST_REMEMBERED = 16


class MaskingGraph:
    """Pairs of sites that share masks in a session, and holders of their shares.

    Parameters
    ----------
    config : Config
        Terms of the session.
    edges : array of int or None
        Pairs of indices of sites, without repetition; None for all pairs.

    Privacy
    -------
    Public. A set passes `check_connected` only if its honest sites are connected by pairs of honest sites of the set,
    for every choice of ``config.n_colluding`` colluding sites (docs/secure_sum.md, section 6).
    """

    def __init__(self, config: Config, edges: IntArray | None) -> None:
        self._config = config
        self._edges = edges
        self._neighbours = {} if edges is None else _neighbours(config.sites, edges)
        self._connected: dict[tuple[str, ...], bool] = {}

    def neighbours(self, site: str) -> tuple[str, ...]:
        """Return the sites that share a mask with a site, sorted."""
        if self._edges is None:
            return tuple(other for other in self._config.sites if other != site)
        return self._neighbours[site]

    def holders(self, dealer: str) -> tuple[str, ...]:
        """Return the sites among which a site shares its secrets, in the order of the shares.

        Without a sparse graph these are all sites; the dealer's own share is not sent.
        """
        return self._config.sites if self._edges is None else self._neighbours[dealer]

    def threshold(self, dealer: str) -> int:
        """Return the number of shares that rebuild a secret of a site: always more than colluding sites hold."""
        if self._edges is None:
            return self._config.threshold
        return max(self._config.n_colluding, len(self._neighbours[dealer]) // 2) + 1

    def index(self, dealer: str, holder: str) -> int:
        """Return the index of a holder's shares of a site's secrets, from 1."""
        return self.holders(dealer).index(holder) + 1

    def check_connected(self, names: tuple[str, ...]) -> None:
        """Refuse a set of sites unless its honest members are certainly connected."""
        if self._edges is None:
            return
        if names not in self._connected:
            if len(self._connected) == _MOST_REMEMBERED:
                self._connected.clear()
            self._connected[names] = is_certified(self._laplacian(names), self._config.n_colluding)
        if not self._connected[names]:
            raise ProtocolError(
                f"The set of {len(names)} sites was refused",
                f"{self._config.n_colluding} colluding sites might separate its honest sites from each other",
                "Nothing was opened for it. Start a new run with a larger n_neighbours, or when more sites are "
                "present.",
            )

    def _laplacian(self, names: tuple[str, ...]) -> FloatArray:
        """Return the Laplacian of the graph between the named sites."""
        edges = np.empty((0, 2), dtype=np.int64) if self._edges is None else self._edges
        row_of = {name: row for row, name in enumerate(names)}
        rows = np.array([row_of.get(site, -1) for site in self._config.sites])[edges]
        first, second = rows[(rows >= 0).all(axis=1)].T
        matrix = np.zeros((len(names), len(names)))
        matrix[first, second] = matrix[second, first] = -1.0
        matrix[np.diag_indices_from(matrix)] = -matrix.sum(axis=0)
        return matrix


def is_certified(laplacian: FloatArray, n_colluding: int) -> bool:
    """Return whether a graph certainly stays connected when any `n_colluding` of its sites are removed.

    The second smallest eigenvalue of the Laplacian L must exceed `n_colluding`. Proof (Fiedler, 1973): let the removal
    of a set K leave A and B without an edge between them, and let x be 1/|A| on A, -1/|B| on B and 0 on K. It is
    orthogonal to the constant vector, and edges that change it join A or B to K, at most |K| at each site; so x' L x is
    at most |K| (1/|A| + 1/|B|) = |K| x' x, and the eigenvalue is at most |K|.

    The eigenvalue is not computed. All ones added to the Laplacian move the eigenvalue of the constant vector from 0 to
    the number of sites, so the claim is that M = L + 1 1' - (n_colluding + MARGIN) I is positive definite up to the
    margin. If a factorization R of M is completed in floating point, then M + E = R'R with |E_ij| at most
    g sqrt(M_ii M_jj) and g = (n + 1) u / (1 - 2 (n + 1) u) (Higham, Accuracy and Stability of Numerical Algorithms,
    theorem 10.3 and section 10.1), so the smallest eigenvalue of M is at least -g trace(M) > -MARGIN. The entries
    of M are exact: small integers and a power of two.
    """
    n_sites = len(laplacian)
    shifted = laplacian + 1.0
    shifted[np.diag_indices_from(shifted)] -= n_colluding + MARGIN
    trace = float(np.trace(shifted))
    if n_sites - n_colluding < 2 or not (n_sites + 2) * max(trace, 0.0) * 2.0**-52 < MARGIN:
        return False
    try:
        np.linalg.cholesky(shifted)
    except np.linalg.LinAlgError:
        return False
    return True


# Sites in one process share the session, hence the graph and the sets it was certified for.
@lru_cache(maxsize=8)
def masking_graph(config: Config, session_id: bytes) -> MaskingGraph:
    """Return the graph of a session: all pairs, or cycles through all sites in orders drawn from the session id.

    Every site contributes to the session id, and the last one to do so could choose among graphs. This decides which
    sets can be certified, as does the choice of drop-outs, and not what a certified set hides.
    """
    if not config.n_neighbours:
        return MaskingGraph(config, None)
    n_sites, n_cycles = len(config.sites), config.n_neighbours // 2
    stream = hashlib.shake_256(digest("graph", session_id)).digest(8 * n_sites * n_cycles)
    keys = np.frombuffer(stream, dtype="<u8").reshape(n_cycles, n_sites)
    orders = np.argsort(keys, axis=1, kind="stable")
    pairs = np.stack([orders, np.roll(orders, 1, axis=1)], axis=-1).reshape(-1, 2)
    return MaskingGraph(config, np.unique(np.sort(pairs, axis=1), axis=0))


def _neighbours(sites: tuple[str, ...], edges: IntArray) -> dict[str, tuple[str, ...]]:
    """Return each site's neighbours, sorted."""
    rows: list[list[int]] = [[] for _ in sites]
    for first, second in edges.tolist():
        rows[first].append(second)
        rows[second].append(first)
    return {site: tuple(sites[row] for row in sorted(own)) for site, own in zip(sites, rows, strict=True)}
