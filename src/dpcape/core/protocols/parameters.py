"""Parameters of protocols, described once for study files, commands and the planner's page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class ProtocolParameter:
    """Description of a parameter of a protocol.

    Attributes
    ----------
    name : str
        Name in Python and in study files.
    title : str
        Label of its input field.
    kind : str
        "count" for an integer of at least ``least``, "number" for a real number, "name" for that of a participant, on
        which no figure depends.
    least : int
        Smallest value of a count.
    required : bool
        Whether it must be given.
    default : float, str or None
        Default value.
    """

    name: str
    title: str
    kind: Literal["count", "number", "name"] = "count"
    least: int = 0
    required: bool = False
    default: float | str | None = None


N_COLLUDING = ProtocolParameter("n_colluding", "Sites that may collude", required=True)
MINIMUM_SITES = ProtocolParameter("minimum_sites", "Sites that must finish", least=1)
N_NEIGHBOURS = ProtocolParameter("n_neighbours", "Sites that a site shares masks with", least=4)
CANCELLING_RATIO = ProtocolParameter("cancelling_ratio", "Cancelling ratio", kind="number", default=100.0)
DEALER_NAME = ProtocolParameter("dealer", "Participant that deals noise", kind="name", default="")
