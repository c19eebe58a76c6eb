"""What an approved study lets through at a site."""

from __future__ import annotations

from dpcape.errors import ProtocolError
from dpcape.privacy.terms import Terms
from dpcape.study import Study
from dpcape.transport.messages import Request


class ApprovedStudy:
    """An approved study as a site checks requests against it (``dpcape.site.site.Approval``)."""

    def __init__(self, study: Study) -> None:
        self._study, self._statistics = study, study.statistics()

    def check_terms(self, terms: Terms) -> None:
        """Refuse terms of an allowance that are not the study's."""
        self._study.check_terms(terms)

    def check_request(self, request: Request) -> None:
        """Refuse a release of anything the study does not compute."""
        if request.statistic not in self._statistics:
            raise ProtocolError(
                f"A release must be of a statistic of the approved study ({', '.join(sorted(self._statistics))}); "
                f"got {request.statistic!r}. Run the approved study."
            )
