"""The dealer scheme on a real federation: the noise generator is a participant with a kit and keys and no records."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("nvflare")

from dpcape.core.errors import LedgerRefused, ProtocolError, SiteLost
from dpcape.guarantee.card import card_of
from dpcape.runs.folder import RunFolder
from dpcape.runs.in_process import run_on_federation
from dpcape.site.folder import SiteFolder

from .consortium import SUBJECTS
from .dealing import DEALER

if TYPE_CHECKING:
    from .dealing import Dealing

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("default")]

INFOMAX = 'solver = "infomax"\nn_components = 2\nn_iter = {}\ntol = 1e-12'


@pytest.fixture(scope="module")
def dealing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dealing]:
    from .dealing import Dealing

    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    made = Dealing(tmp_path_factory.mktemp("dealing"))
    made.create()
    try:
        made.start()
        yield made
    finally:
        made.stop()
        left = made.survivors()
    assert left == []


def test_the_result_is_that_of_one_process_and_names_the_dealer(dealing: Dealing) -> None:
    study = dealing.study("dealt", "pca", parameters="n_components = 2")
    dealing.approve(study)
    run = dealing.run(study)
    expected = dealing.model_in_process(study)
    found = run.model()
    for name in expected._fitted:
        assert hasattr(found, name) == hasattr(expected, name), name
        if not hasattr(expected, name):
            continue  # such as what only some settings have
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), name)
    assert found.guarantee_.replayable
    assumed = found.guarantee_.assumptions
    assert any(text.startswith(f"the noise dealer {DEALER} is honest") for text in assumed)
    # The dealer's engine is kept from its noise as a site's is from its records.
    assert any(DEALER in text and "Landlock" in text for text in assumed)
    said = card_of(found.guarantee_).sentences
    assert any(DEALER in sentence for sentence in said)
    assert "the noise dealer" in said
    assert dealing.charges(study) == [1, 1]
    folder = SiteFolder(dealing.folder(DEALER))
    assert folder.data_sets() == {}
    assert [entry.kind for entry in folder.chain.entries()].count("deal") == 1


def test_a_dealer_whose_steward_did_not_approve_deals_nothing(dealing: Dealing) -> None:
    study = dealing.study("not-asked", "mean")
    dealing.approve(study, dealing.sites)
    with pytest.raises(LedgerRefused, match=rf"^{DEALER}: .*has not approved"):
        dealing.run(study)
    assert dealing.charges(study) == [0, 0]


def test_a_dealer_that_is_not_there_ends_the_study_before_it_is_charged(dealing: Dealing) -> None:
    study = dealing.study("absent", "mean")
    dealing.approve(study)
    dealing.kill(DEALER)
    try:
        with pytest.raises(SiteLost, match=DEALER):
            dealing.run(study)
    finally:
        dealing.start_one(DEALER)
        dealing.await_connected([*dealing.sites, DEALER])
    assert dealing.charges(study) == [0, 0]


def test_a_study_goes_on_under_its_charge_when_the_dealer_is_back(dealing: Dealing) -> None:
    study = dealing.study("resumed", "joint_ica", parameters=INFOMAX.format(150), data=SUBJECTS, epsilon=50.0)
    dealing.approve(study)
    killed: list[int] = []

    def listen(state: dict[str, Any]) -> None:
        if state["release"] >= 3 and not killed:
            killed.append(state["release"])
            dealing.kill(DEALER)

    try:
        with pytest.raises(ProtocolError, match=rf"noise dealer {DEALER} did not answer.*--resume"):
            dealing.run(study, listen)
    finally:
        dealing.start_one(DEALER)
        dealing.await_connected([*dealing.sites, DEALER])
    kept = RunFolder(dealing.path / "runs" / study.name).releases.releases()
    assert killed
    assert len(kept) >= 3
    run = run_on_federation(study, dealing.path / "runs" / study.name, resume=True)
    assert len(run.model().releases_) == len(study.shares(dict.fromkeys(study.sites, 300)))
    assert dealing.charges(study) == [1, 1]
    # No release that was made before was asked for again, and the dealer counts one run.
    assert SiteFolder(dealing.folder(DEALER)).state().runs[study.digest()] == 1
    assert {number: release.total for number, release in run.releases.releases().items() if number in kept} == {
        number: release.total for number, release in kept.items()
    }
