"""What a site folder does not do: open with a key that others can read, or serve another data set."""

from __future__ import annotations

import pytest

from dpcape.errors import LedgerRefused
from dpcape.site_folder import SiteFolder

from .consortium import Consortium


@pytest.mark.parametrize("mode", [0o640, 0o620, 0o610, 0o604, 0o602, 0o601])
def test_a_key_that_anybody_else_can_touch_is_refused(consortium: Consortium, mode: int) -> None:
    place = consortium.sites["lyon"]
    key = place.keys / "identity.key"
    key.chmod(mode)
    with pytest.raises(LedgerRefused, match="readable by its owner alone"):
        SiteFolder(place.path)
    key.chmod(0o600)
    assert SiteFolder(place.path).identity.public == place.identity.public


def test_an_approval_for_one_data_set_serves_no_other(consortium: Consortium) -> None:
    place = consortium.sites["lyon"]
    place.add_data("other", consortium.folder / "oslo.csv", epsilon=1.2, delta=1e-5)
    place.approve(consortium.study, "cohort")
    with pytest.raises(LedgerRefused, match="the data set it was approved for"):
        place.site_for(consortium.study, "other")
    assert place.site_for(consortium.study, "cohort").name == "lyon"
