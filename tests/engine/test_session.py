"""What the coordinator reads out of FLARE's answers."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("nvflare")

from dpcape.transport.flare.session import Coordination


class Session:
    """Answers as FLARE 2.9.0 does: copied from a running server, shortened."""

    def list_jobs(self, detailed: bool) -> list[dict[str, Any]]:
        entry = {"min_clients": 3, "submitter_name": "coordinator@dpcape.org", "job_folder_name": "job"}
        early = {"name": "dpcape-first", "job_id": "a6132839", "submit_time": 1794798615.7, "status": "RUNNING"}
        late = {
            "name": "dpcape-second",
            "job_id": "f0ca8480",
            "submit_time": 1794799242.6,
            "status": "FINISHED:COMPLETED",
        }
        return [{**entry, **early}, {**entry, **late}]


def test_jobs_are_listed_newest_first_by_name_and_id() -> None:
    assert Coordination(Session()).jobs() == [
        {"job": "f0ca8480", "name": "dpcape-second", "status": "FINISHED:COMPLETED"},
        {"job": "a6132839", "name": "dpcape-first", "status": "RUNNING"},
    ]
