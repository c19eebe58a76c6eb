"""Designs of topic and mixture models, and how mu^2 is divided between second and third moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcape.analyses.parameters import CHOICE, OTHER, Parameter, is_number, shown
from dpcape.analyses.release import Either, Release
from dpcape.core.errors import InvalidParameter

if TYPE_CHECKING:
    from dpcape.analyses.description import Public

LARGEST_FULL = 200_000
"""With design="auto", a third moment of more numbers than this is released in few coordinates."""
DESIGNS = ("auto", "full", "whitened")
DESIGN = Parameter("design", CHOICE, "auto", words=DESIGNS)
SYMMETRIC_MOMENTS = "symmetric second and third moments; composition mu^2 = mu_2^2 + mu_3^2"
RELATIVE_NOTE = (
    "The first result sets the largest contribution to the last release, so the scales of that release are relative to "
    "it. The comparison with the weakest topic or component uses the second moment only."
)
DESIGN_NOTE = "With design = 'auto', the first result decides between the whole third moment and few coordinates."


def _refuse_share(share: object, public: Public) -> None:
    if isinstance(share, str) and share == "auto":
        return
    if not is_number(share) or not 0.01 <= float(share) <= 0.99:
        remedy = "The papers use 0.5."
        raise InvalidParameter("second_moment_share", "be 'auto' or a number from 0.01 to 0.99", shown(share), remedy)


SECOND_MOMENT_SHARE = Parameter("second_moment_share", OTHER, "auto", refuse=_refuse_share)


def second_moment_share(share: float | str, *, n_features: float, n_components: float) -> float:
    """Return the share of mu^2 for the second moment; "auto" follows measurements (experiments/topics).

    The second moment determines n_features x n_components numbers and the third n_components^3, so the second moment
    needs a larger share the more columns there are.
    """
    if not isinstance(share, str):
        return float(share)
    columns_each = n_features / n_components
    return 0.45 if columns_each < 4 else (0.6 if columns_each < 20 else 0.75)


def chosen_design(design: str, full: Release, whitened: Release) -> Release | Either:
    """Return the release of the third moment; with "auto", both of which an earlier result chooses one."""
    return {"full": full, "whitened": whitened}.get(design) or Either(whitened, full, LARGEST_FULL)
