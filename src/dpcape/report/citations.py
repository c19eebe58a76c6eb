"""Citations: the software, and the papers that the documentation of an analysis names."""

from __future__ import annotations

import inspect
import re

from dpcape.core._version import __version__
from dpcape.core.protocols.registry import protocol_of

TITLE = "dpcape: joint analyses across sites under differential privacy"
AUTHORS = "The dpcape developers"
CAPE_PAPER = (
    "H. Imtiaz and A. D. Sarwate. Distributed Differentially Private Algorithms for Matrix and Tensor Factorization. "
    "IEEE Journal of Selected Topics in Signal Processing, 2018."
)
DISSERTATION = (
    "H. Imtiaz. Decentralized Differentially Private Algorithms for Matrix and Tensor Factorization. Dissertation, "
    "Rutgers University, 2020."
)
_ACCOUNTING = (
    "J. Dong, A. Roth and W. J. Su. Gaussian Differential Privacy. Journal of the Royal Statistical Society B, 2022."
)


def software() -> str:
    """Return the citation of this version of the software."""
    return f"{AUTHORS}. {TITLE}. Version {__version__}."


def papers(analysis: type, protocol: str) -> list[str]:
    """Return the papers on an analysis, as its documentation cites them, and on the protocol.

    Examples
    --------
    >>> from dpcape import PCA
    >>> papers(PCA, "Independent")[0]
    'H. Imtiaz and A. D. Sarwate 2018, algorithm 1; C. Dwork et al., Analyze Gauss, 2014.'
    """
    own = references_of(analysis)
    cited = [own] if own else []
    described = protocol_of(protocol)
    if (described is not None and described.shares_noise) or "Sarwate 2018" in own:
        cited.append(CAPE_PAPER)
    if "dissertation" in own:
        cited.append(DISSERTATION)
    return [*cited, _ACCOUNTING]


def references_of(named: type) -> str:
    """Return the References section of a class's documentation as one line; empty if it has none."""
    text = inspect.getdoc(named) or ""
    match = re.search(r"^References\n-+\n(.*?)(?:\n\n|\Z)", text, flags=re.DOTALL | re.MULTILINE)
    return "" if match is None else re.sub(r"[*`]", "", re.sub(r"\s+", " ", match[1])).strip()
