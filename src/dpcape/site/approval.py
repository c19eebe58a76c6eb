"""What an approved study lets through at a site."""

from __future__ import annotations

from collections.abc import Mapping

from dpcape.analyses.footprint import site_footprint
from dpcape.core.enclosed import WAYS
from dpcape.core.errors import InvalidMessage, ProtocolError
from dpcape.core.limits import UNCHARGED, check_memory
from dpcape.core.messages import Request
from dpcape.core.privacy.terms import Terms
from dpcape.study.study import Study


class ApprovedStudy:
    """An approved study as a site checks requests against it (``dpcape.core.site.Approval``)."""

    def __init__(self, study: Study) -> None:
        # Raises if the statistics of the study cannot be determined, so that such a study cannot be approved.
        study.statistics()
        self._study = study
        self._statistics: dict[tuple[tuple[str, int], ...], frozenset[str]] = {}
        self._inner = frozenset() if study.enclosure is None else study.inner_statistics()

    def check_terms(self, terms: Terms) -> None:
        """Refuse terms of an allowance that are not the study's, or a study with a release that does not fit here."""
        self._study.check_terms(terms)
        needed = site_footprint(self._study.description, self._study.public(terms.n_records))
        check_memory("The study", needed, "the site", UNCHARGED)

    def check_request(self, request: Request, n_records: Mapping[str, int]) -> None:
        """Refuse a release of anything the study does not compute for sites of these sizes."""
        # The statistics of an analysis may depend on the numbers of records, which the allowance states.
        sizes = tuple(sorted(n_records.items()))
        if sizes not in self._statistics:
            self._statistics[sizes] = self._study.statistics(n_records)
        if request.statistic not in self._statistics[sizes]:
            must = f"be of a statistic of the approved study ({', '.join(sorted(self._statistics[sizes]))})"
            raise InvalidMessage("A release", must, repr(request.statistic), "Run the approved study.")
        if request.statistic in WAYS:
            self._check_enclosed(request)

    def _check_enclosed(self, request: Request) -> None:
        """Refuse code of another package that runs in another way than the study states."""
        enclosure = self._study.enclosure
        requested = {name: request.public.get(name) for name in ("package", "block", "seconds")}
        agreed = None if enclosure is None else {name: getattr(enclosure, name) for name in requested}
        if requested != agreed or request.public.get("inner") not in self._inner:
            why = "its statistic, package, block or time differs from the approved study"
            raise ProtocolError("The release was refused", why, "Use the approved study.")
