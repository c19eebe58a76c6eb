"""The one thing that may be asked of records: the mean over records of a bounded contribution.

A statistic is built from public facts alone, at the aggregator and again at each site; only its name and public arrays
travel. ``diameter`` says how far apart the contributions of two records can be, which is what replacing one record does
to a total, so a statistic cannot be asked for without its sensitivity.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpcape.errors import InvalidParameter
from dpcape.facts import Facts

Vector = NDArray[np.float64]
PublicValue = int | float | str | bool | NDArray[Any]

# Rows per block when totals are accumulated; part of the rounding analysis below.
BLOCK_ROWS = 1024
_UNIT_ROUNDOFF = 2.0**-53


class Statistic(ABC):
    """The mean over records of a contribution of bounded length.

    A subclass sets ``name`` and ``kinds``, computes ``size``, ``radius`` and ``diameter`` from public facts, and writes
    ``total``. Contributions and totals are *packed* vectors in which Euclidean length is the length the privacy proof
    uses; ``unpack`` gives the mean its natural form.

    Attributes
    ----------
    name : str — what travels in a message; the site looks its own code up by it.
    kinds : frozenset of str — kinds of records it applies to.
    facts : Facts — public facts of the records, the same at all sites.
    public : mapping — further public values it was built from.

    Privacy
    -------
    ``diameter`` is the largest Euclidean distance between the packed contributions of two units (replace-one);
    ``radius`` the largest length of one. Both hold for exact arithmetic; ``rounding`` bounds what floating point adds.
    """

    name: ClassVar[str]
    kinds: ClassVar[frozenset[str]]
    units: ClassVar[frozenset[str]] = frozenset({"record", "subject"})

    def __init__(self, facts: Facts, **public: PublicValue) -> None:
        if facts.kind not in self.kinds:
            wanted = ", ".join(sorted(self.kinds))
            raise InvalidParameter(
                f"records for the statistic {self.name!r} must be of kind {wanted}; got {facts.kind!r}. "
                f"Build each site's records with {'rows' if 'rows' in self.kinds else sorted(self.kinds)[0]}(...)."
            )
        if facts.unit not in self.units:
            raise InvalidParameter(
                f"unit for the statistic {self.name!r} must be {' or '.join(sorted(self.units))}; got {facts.unit!r}. "
                "Whole subjects are protected by JointICA only; elsewhere give each person one row."
            )
        self.facts = facts.shape_facts()
        self.public: Mapping[str, PublicValue] = dict(public)

    @property
    @abstractmethod
    def size(self) -> int:
        """Length of the packed vector."""

    @property
    @abstractmethod
    def diameter(self) -> float:
        """Largest distance between the contributions of two units."""

    @property
    @abstractmethod
    def radius(self) -> float:
        """Largest length of one unit's contribution."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the unpacked mean."""
        return (self.size,)

    @property
    def assumption(self) -> str:
        """What the diameter rests on besides proof, in words; empty for a proved one."""
        return ""

    @abstractmethod
    def total(self, records: Any) -> Vector:
        """Return the packed sum of contributions over ``records`` (runs at the site)."""

    def unpack(self, packed: Vector) -> Any:
        """Return the mean in its natural form (post-processing)."""
        return packed.reshape(self.shape)

    def valid_share(self, packed: Vector) -> tuple[float, float] | None:
        """Return the released share of valid records and the length of its row, where the statistic counts records.

        The share carries noise of that length times the noise of a coordinate. None if records are not counted.
        """
        return None

    def rounding(self, n_records: int) -> float:
        """Bound the Euclidean error that floating point leaves in ``total``.

        Summing N terms of length at most ``radius`` in blocks makes an error of at most gamma_k N radius, where k
        counts the roundings any one term passes through (Higham 2002, section 4.2): the block, the blocks' sum, and
        the contribution itself, for which 4 (n_features + 64) roundings are allowed. The factor 2 covers 1/(1 - k u).
        """
        depth = BLOCK_ROWS + math.ceil(n_records / BLOCK_ROWS) + 4 * (self.facts.n_features + 64)
        return 2 * depth * _UNIT_ROUNDOFF * n_records * self.radius

    def sensitivity(self, n_records: int) -> float:
        """Return how far replacing one unit moves the computed total: diameter plus both totals' rounding.

        A unit that is invalid contributes zero, which is as far from another contribution as that one is long.
        """
        return max(self.diameter, self.radius) + 2 * self.rounding(n_records)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self.size}, diameter={self.diameter:.6g})"


_KNOWN: dict[str, type[Statistic]] = {}
_S = TypeVar("_S", bound=type[Statistic])


def known(cls: _S) -> _S:
    """Class decorator: let sites find this statistic by its name."""
    if cls.name in _KNOWN:
        raise InvalidParameter(f"a statistic's name must be new; got {cls.name!r} twice.")
    _KNOWN[cls.name] = cls
    return cls


def build(name: str, facts: Facts, public: Mapping[str, PublicValue]) -> Statistic:
    """Build the statistic of this name from the site's own code and the site's own facts."""
    if name not in _KNOWN:
        raise InvalidParameter(
            f"a statistic must be one of {sorted(_KNOWN)}; got {name!r}. Install the same dpcape version everywhere."
        )
    make: Callable[..., Statistic] = _KNOWN[name]
    try:
        return make(facts, **public)
    except TypeError as error:
        raise InvalidParameter(
            f"public values of the statistic {name!r} must match its definition; got {sorted(public)}."
        ) from error
