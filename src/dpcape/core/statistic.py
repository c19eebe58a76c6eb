"""The only kind of query on records: the mean over records of a bounded contribution.

A statistic is built from public facts, at the aggregator and again at each site; only its name and public arrays are
sent. Its ``extent`` bounds the distance between the contributions of two records, which is how far replacing one record
moves a total. A statistic can therefore not be requested without its sensitivity.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from importlib import import_module
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar, cast

from dpcape.core.arrays import FloatArray, IntArray
from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import BLOCK_ROWS as BLOCK_ROWS
from dpcape.core.extent import Extent
from dpcape.core.facts import PublicFacts
from dpcape.core.statistic_names import STATISTICS

PublicValue: TypeAlias = int | float | str | bool | FloatArray | IntArray
"""Value that a statistic is built from, besides the public facts."""

RecordsT_contra = TypeVar("RecordsT_contra", contravariant=True)
"""Records that a statistic reads: one of the interfaces in ``dpcape.core.record_blocks``."""

MeanT_co = TypeVar("MeanT_co", covariant=True)
"""Natural form of a statistic's mean."""


class Statistic(ABC, Generic[RecordsT_contra, MeanT_co]):
    """Mean over records of a contribution of bounded length.

    A subclass sets ``name`` and ``kinds``, proves its ``extent``, returns in ``numbers`` what determines it, and
    implements ``total``. Contributions and totals are *packed* vectors, whose Euclidean norm is the one the privacy
    proof uses; ``unpack`` gives the mean its natural form.

    Attributes
    ----------
    name : str
        Name in messages, by which a site finds its own code.
    kinds : frozenset of str
        Kinds of records it applies to.
    units : frozenset of str
        Units of protection its diameter is proved for.
    extent : callable
        Static method that returns the ``Extent`` for public numbers, given by name: plain Python, which the
        planner's page is generated from.
    vectorised : bool
        Whether ``total`` of a statistic outside dpcape may be given all records of a site at once; it must then be the
        sum of the totals of single records, which a search tries to refute. False: it is given one record at a time.
    place : int
        Which of the sorted names of all sites is that of the site that computes it (:meth:`at`).
    facts : Facts
        Public facts of the records, the same at all sites.
    public : mapping
        Further public values it was built from.

    Privacy
    -------
    ``diameter`` is the largest Euclidean distance between the packed contributions of two units (replace-one);
    ``radius`` the largest length of one. Both hold for exact arithmetic; ``rounding`` bounds what floating point adds.
    """

    name: ClassVar[str]
    kinds: ClassVar[frozenset[str]]
    units: ClassVar[frozenset[str]] = frozenset({"record", "subject"})
    extent: ClassVar[Callable[..., Extent]]  # type: ignore[explicit-any]  # arrays of any type travel
    vectorised: ClassVar[bool] = False
    place: int = 0

    def __init__(self, facts: PublicFacts, **public: PublicValue) -> None:
        if facts.kind not in self.kinds:
            wanted = ", ".join(sorted(self.kinds))
            must = f"be of kind {wanted}"
            remedy = f"Build each site's records with {'rows' if 'rows' in self.kinds else sorted(self.kinds)[0]}(...)."
            raise InvalidParameter(f"Records for the statistic {self.name!r}", must, repr(facts.kind), remedy)
        if facts.unit not in self.units:
            must = f"be {' or '.join(sorted(self.units))}"
            remedy = "Whole subjects are protected by JointICA only; elsewhere give each person one row."
            raise InvalidParameter(f"unit for the statistic {self.name!r}", must, repr(facts.unit), remedy)
        self.facts = facts.shape_facts()
        self.public: Mapping[str, PublicValue] = dict(public)

    @property
    @abstractmethod
    def numbers(self) -> Mapping[str, float]:
        """Public numbers, by name, that determine the extent of this statistic."""

    @property
    def by_site(self) -> bool:
        """Whether its mean has a part for each site, which stays visible under every protocol."""
        return self.numbers.get("n_sites", 1) > 1

    def at(self, place: int) -> Self:
        """Return this statistic as the site computes it that is number ``place`` among the sorted names of all sites.

        Every statistic keeps its place, and so do copies that are built elsewhere, as on a site's cluster.
        """
        moved = copy.copy(self)
        moved.place = place
        return moved

    @cached_property
    def _extent(self) -> Extent:
        return self.extent(**self.numbers)

    @property
    def size(self) -> int:
        """Length of the packed vector."""
        return int(self._extent.size)

    @property
    def released_size(self) -> int:
        """Length of the vector that leaves a site: the packed vector and the number of valid records."""
        return int(self._extent.released_size)

    @property
    def count_weight(self) -> float:
        """Weight with which valid records are counted beside the total (:attr:`Extent.count_weight`)."""
        return self._extent.count_weight

    @property
    def diameter(self) -> float:
        """Largest distance between the contributions of two units."""
        return self._extent.diameter

    @property
    def radius(self) -> float:
        """Largest length of one unit's contribution."""
        return self._extent.radius

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the unpacked mean."""
        return (self.size,)

    @property
    def assumption(self) -> str:
        """Unproved assumptions behind the diameter, in words; empty where this package proves it."""
        if is_own(type(self)):
            return ""
        return (
            f"the diameter of the statistic {self.name!r}, which is not part of dpcape, is what its author states "
            "(searched, not proved)"
        )

    @abstractmethod
    def total(self, records: RecordsT_contra) -> FloatArray:
        """Return the packed sum of contributions over ``records`` (runs at the site)."""

    def unpack(self, packed: FloatArray) -> MeanT_co:
        """Return the mean in its natural form (post-processing); an array of this ``shape`` unless overridden."""
        # A subclass whose natural form is not an array overrides this.
        return cast(MeanT_co, packed.reshape(self.shape))

    def rounding(self, n_records: int) -> float:
        """Return a bound on the Euclidean floating-point error of ``total``."""
        return self._extent.rounding(n_records)

    def sensitivity(self, n_records: int) -> float:
        """Return how far replacing one unit moves the computed total: diameter plus both totals' rounding.

        A unit that is invalid contributes zero, which is as far from another contribution as that one is long.
        """
        return self._extent.sensitivity(n_records)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self.size}, diameter={self.diameter:.6g})"


def is_own(kind: type) -> bool:
    """Return whether a class is defined in dpcape; what is defined elsewhere is never called verified."""
    return kind.__module__.partition(".")[0] == "dpcape"


def is_free(name: str, cls: type, table: Mapping[str, str]) -> bool:
    """Return whether a class may have this name: a name of dpcape's own belongs to the module that the table says."""
    return table.get(name) in (None, cls.__module__)


AnyStatistic: TypeAlias = Statistic[Any, Any]  # type: ignore[explicit-any]  # known when it runs
"""A statistic whose types of records and mean are unknown to the type checker."""

_KNOWN: dict[str, type[AnyStatistic]] = {}
_S = TypeVar("_S", bound=type[AnyStatistic])


def known(cls: _S) -> _S:
    """Register a statistic class under its name, by which sites find it (class decorator)."""
    if cls.name in _KNOWN or not is_free(cls.name, cls, STATISTICS):
        raise InvalidParameter("The name of a statistic", "be new", f"{cls.name!r}, which is registered", "Rename it.")
    _KNOWN[cls.name] = cls
    return cls


def statistic_class(name: str) -> type[AnyStatistic]:
    """Return the class of the statistic of this name; of dpcape's own, only its module is imported."""
    if name not in _KNOWN and name in STATISTICS:
        import_module(STATISTICS[name])
    if name not in _KNOWN:
        must = f"be one of {sorted({*_KNOWN, *STATISTICS})}"
        raise InvalidParameter("statistic", must, repr(name), "Install the same dpcape version everywhere.")
    return _KNOWN[name]


def extent_of(name: str, **numbers: float | None) -> Extent:
    """Return the extent of the statistic of this name, without building it.

    Parameters
    ----------
    name : str
        Name of the statistic.
    **numbers : float or None
        Public numbers by name: those that the static method ``extent`` of the statistic's class takes.
    """
    return statistic_class(name).extent(**numbers)


def build(name: str, facts: PublicFacts, public: Mapping[str, PublicValue]) -> AnyStatistic:
    """Return the statistic of this name, built from local code and the given facts."""
    make: Callable[..., AnyStatistic] = statistic_class(name)  # type: ignore[explicit-any]  # keywords differ
    try:
        return make(facts, **public)
    except TypeError as error:
        must, remedy = "match its definition", "Install the same dpcape version everywhere."
        raise InvalidParameter(f"Public values of the statistic {name!r}", must, sorted(public), remedy) from error


def load_all() -> Mapping[str, type[AnyStatistic]]:
    """Import every statistic of dpcape and return the classes that are known, by name: for lists and laws."""
    for module in STATISTICS.values():
        import_module(module)
    return _KNOWN
