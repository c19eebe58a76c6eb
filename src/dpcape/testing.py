"""Checks for authors of statistics and losses: run them in your own tests.

The checks search for synthetic records that refute what a statistic or a loss states. They raise
:class:`~dpcape.core.errors.InvalidParameter` with the distance they found. Passing proves nothing: a guarantee that
rests on code outside dpcape stays conditional.
"""

from __future__ import annotations

from dpcape.core.facts import PublicFacts
from dpcape.core.statistic import AnyStatistic, PublicValue
from dpcape.site.pair_search import Effort
from dpcape.site.statistic_laws import LawReport, require_laws
from dpcape.statistics.block_search import require_separate_records
from dpcape.statistics.losses import loss_of
from dpcape.statistics.polynomials import PolynomialCoefficients, checked_diameter

__all__ = ["LawReport", "check_loss", "check_statistic"]


def check_statistic(kind: type[AnyStatistic], facts: PublicFacts, **public: PublicValue) -> LawReport:
    """Search for records that refute the extent of a statistic; return what was found.

    Checked: the extent is that of the instance; totals are finite for records of any size; no two contributions are
    farther apart than the diameter, none is longer than the radius; a total is the sum over single records, whatever
    their order, number and neighbours, within the stated rounding.

    Parameters
    ----------
    kind : type
        The statistic's class; it need not be registered.
    facts : PublicFacts
        Public facts of the records it is tried on; ``rows([[0.0, 0.0]], bound=1.0).facts()`` has two columns.
    **public : PublicValue
        Further public values the statistic is built from.

    Examples
    --------
    >>> from dpcape import rows
    >>> from dpcape.statistics.moments import FirstMoments
    >>> found = check_statistic(FirstMoments, rows([[0.0, 0.0]], bound=1.0).facts())
    >>> round(found.diameter, 4), round(found.distance, 4)
    (2.0, 2.0)
    """
    return require_laws(kind(facts, **public), facts, effort=Effort())


def check_loss(name: str, facts: PublicFacts) -> LawReport:
    """Search for records that refute what a registered loss states; return what was found.

    Checked besides what :func:`check_statistic` checks: the coefficients of a record do not depend on other records of
    its block, on their order or on their number.

    Parameters
    ----------
    name : str
        Name under which the loss is registered.
    facts : PublicFacts
        Public facts of the records it is tried on.

    Examples
    --------
    >>> from dpcape import labelled
    >>> facts = labelled([[0.0]], [0.0], bound=1.0, response=(0, 10)).facts()
    >>> found = check_loss("poisson", facts)
    >>> found.distance <= found.diameter
    True
    """
    shape = facts.shape_facts()
    require_separate_records(loss_of(name), shape)
    checked_diameter(name, shape)
    return check_statistic(PolynomialCoefficients, facts, loss=name)
