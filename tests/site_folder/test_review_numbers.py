"""What a review says a study costs is what the ledger then says it cost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpcape.site.folder import SiteFolder
from dpcape.site.ledger import Ceiling
from dpcape.steward.review import review
from dpcape.study.study import Study

from .consortium import Consortium


def charged(place: SiteFolder, study: Study, run: str) -> float:
    """Charge a run of an approved study; return what the ledger says is spent now."""
    ledger = place.ledger(study, "cohort")
    ledger.charge(replace(study.charge(place.name), allowance=run))
    return ledger.spent()


def test_before_and_after_count_everything_spent_on_the_data_set(consortium: Consortium) -> None:
    place, first = consortium.sites["lyon"], consortium.study
    second = consortium.variant("thickness", "thickness-two")
    place.set_ceiling("cohort", Ceiling(5.0, 1e-5, per_study=3.0))
    assert review(place, first, "cohort").spent == 0.0
    for study in (first, second):
        place.approve(study, runs=2)
    spent = [0.0]
    for run, study in enumerate((first, second, first)):
        seen = review(place, study, "cohort")
        assert (seen.spent, seen.ceiling, seen.per_study) == (pytest.approx(spent[-1]), 5.0, 3.0)
        spent.append(charged(place, study, str(run)))
        assert seen.after == pytest.approx(spent[-1], rel=1e-12)
    assert spent[0] < spent[1] < spent[2] < spent[3]
    # Of its own runs: the first study has made two, the second one; each counts its next one too.
    two, three = (review(place, study, "cohort").alone for study in (second, first))
    assert two == pytest.approx(spent[2], rel=1e-12)
    assert three == pytest.approx(spent[3], rel=1e-12)
