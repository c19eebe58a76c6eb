"""What a site folder does not do: open with a key that others can read, or serve another data set."""

from __future__ import annotations

import msgspec
import pytest

from dpcape.core.errors import InvalidParameter, LedgerRefused, ProtocolError
from dpcape.site.folder import SiteFolder
from dpcape.site.ledger import Ceiling

from .consortium import Consortium


@pytest.mark.parametrize("mode", [0o640, 0o620, 0o610, 0o604, 0o602, 0o601])
def test_a_key_that_anybody_else_can_touch_is_refused(consortium: Consortium, mode: int) -> None:
    place = consortium.sites["lyon"]
    key = place.keys / "identity.key"
    key.chmod(mode)
    with pytest.raises(LedgerRefused, match="accounts other than its owner's can read it"):
        SiteFolder(place.path)
    key.chmod(0o600)
    assert SiteFolder(place.path).identity.public == place.identity.public


def test_an_approval_for_one_data_set_serves_no_other(consortium: Consortium) -> None:
    place = consortium.sites["lyon"]
    place.add_data("other", consortium.folder / "oslo.csv", epsilon=1.2, delta=1e-5, different_people=True)
    place.approve(consortium.study, "cohort")
    with pytest.raises(LedgerRefused, match="different data set"):
        place.site_for(consortium.study, "other")
    assert place.site_for(consortium.study, "cohort").name == "lyon"


def test_another_site_in_the_place_of_one_or_slightly_other_shares_are_not_what_was_approved(
    consortium: Consortium,
) -> None:
    consortium.approve()
    terms = consortium.federation().terms(1.0, 1e-5)
    consortium.study.check_terms(terms)
    names = ("lima", "lyon", "rome")
    swapped = msgspec.structs.replace(
        terms, n_records=dict.fromkeys(names, 60), epsilons=dict.fromkeys(names, terms.epsilons["lyon"])
    )
    with pytest.raises(ProtocolError, match="sites of an allowance must be as in the approved study"):
        consortium.study.check_terms(swapped)
    for share in (0.999, 0.99999):
        with pytest.raises(ProtocolError, match="the shares of the releases"):
            consortium.study.check_terms(msgspec.structs.replace(terms, shares=(share,)))


def test_a_ceiling_is_of_a_data_set_that_is_there(consortium: Consortium) -> None:
    place = consortium.sites["lyon"]
    before = place.chain.entries()
    with pytest.raises(InvalidParameter, match="a data set must be one of"):
        place.set_ceiling("another", Ceiling(1.0, 1e-5))
    assert place.chain.entries() == before


def test_a_study_whose_kept_copy_differs_is_not_approved(consortium: Consortium) -> None:
    """The copy is what is looked at later: it must be what the digest is of."""
    place, study = consortium.sites["lyon"], consortium.study
    copy = place.path / "studies" / place.keep(study) / "study.toml"
    copy.write_text(copy.read_text(encoding="utf-8").replace("epsilon = 1.0", "epsilon = 0.1"), encoding="utf-8")
    for act in (place.keep, place.approve, place.deny):
        with pytest.raises(ProtocolError, match="changed during the review"):
            act(study)
    assert place.state().approvals == {}
