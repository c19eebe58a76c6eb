"""What topic and mixture models share: designs, and how mu^2 is divided between second and third moment."""

from __future__ import annotations

from typing import Any

from dpcape.analyses.parameters import CHOICE, OTHER, Parameter, is_number, shown
from dpcape.analyses.release import Either, Release
from dpcape.errors import InvalidParameter
from dpcape.formula import Number, choose

DESIGNS = ("auto", "full", "whitened")
DESIGN = Parameter("design", CHOICE, "auto", words=DESIGNS)
SYMMETRIC_MOMENTS = "symmetric second and third moments; composition mu^2 = mu_2^2 + mu_3^2"
RELATIVE_NOTE = (
    "How large a contribution to the last release may be is set by the first result: its scales are given relative to "
    "that. The comparison with the weakest topic or component counts the second moment alone."
)
DESIGN_NOTE = "With design = 'auto' the first result chooses between the whole third moment and few coordinates."


def _refuse_share(share: Any, public: Any) -> None:
    if isinstance(share, str) and share == "auto":
        return
    if not is_number(share) or not 0.01 <= float(share) <= 0.99:
        raise InvalidParameter(
            f"second_moment_share must be 'auto' or a number from 0.01 to 0.99; got {shown(share)}. The papers use 0.5."
        )


SECOND_MOMENT_SHARE = Parameter("second_moment_share", OTHER, "auto", refuse=_refuse_share)


def second_moment_share(share: float | str, *, n_features: Number, n_components: Number) -> Any:
    """Return the part of mu^2 for the second moment; "auto" follows measurements (experiments/topics).

    The second moment fixes n_features x n_components numbers and the third n_components^3: the more columns,
    the more the second moment matters.
    """
    if not isinstance(share, str):
        return float(share)
    columns_each = n_features / n_components
    return choose(columns_each < 4, 0.45, choose(columns_each < 20, 0.6, 0.75))


def chosen_design(design: str, whole: Release, whitened: Release) -> Release | Either:
    """Return the release of the third moment; with "auto" an earlier result chooses."""
    return {"full": whole, "whitened": whitened}.get(design) or Either(whitened, whole)
