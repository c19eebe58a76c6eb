"""A site folder lets through what its steward approved, and nothing else."""

from __future__ import annotations

import shutil
import stat
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import pytest

from dpcape import PCA, Cape, Federation, Mean
from dpcape.core.errors import DamagedFile, DpcapeError, Failed, InvalidParameter, LedgerRefused, ProtocolError
from dpcape.core.messages import Described, Refused, decode_from_site
from dpcape.core.privacy.calibration import plan_release
from dpcape.site.chain_head import Head, HeadCopy
from dpcape.site.folder import SiteFolder
from dpcape.site.ledger import Ceiling
from dpcape.statistics.moments import second_moment
from dpcape.steward.review import review_text
from dpcape.study.study import Study

from .consortium import SITES, TEXT, Consortium


def test_an_approved_study_runs_and_is_charged_everywhere(consortium: Consortium) -> None:
    consortium.approve()
    model = consortium.study.estimator().fit(consortium.federation())
    assert model.guarantee_.status == "verified"
    assert not model.guarantee_.replayable
    for place in consortium.sites.values():
        kinds = [entry.kind for entry in place.chain.entries()]
        assert kinds[-2:] == ["charge", "release"]
        spent = place.state().spent("cohort", 1e-5)
        assert model.guarantee_.epsilon <= spent <= 1.0


def test_nothing_is_read_without_approval(consortium: Consortium, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*args: object) -> None:
        raise AssertionError("records were read")

    monkeypatch.setattr(Study, "records_for", read)
    place = consortium.sites["lyon"]
    with pytest.raises(LedgerRefused, match="has not approved"):
        place.site_for(consortium.study)
    place.approve(consortium.study)
    place.revoke(consortium.study)
    with pytest.raises(LedgerRefused, match="has not approved"):
        place.site_for(consortium.study)
    place.approve(consortium.study)
    place.deny(consortium.study)
    with pytest.raises(LedgerRefused, match="has not approved"):
        place.site_for(consortium.study)


def test_nothing_is_read_above_the_ceiling(consortium: Consortium, monkeypatch: pytest.MonkeyPatch) -> None:
    costly = consortium.variant("epsilon = 1.0", "epsilon = 1.3")
    consortium.sites["lyon"].approve(costly)
    monkeypatch.setattr(Study, "records_for", lambda *args: pytest.fail("records were read"))
    with pytest.raises(LedgerRefused, match=r"epsilon 1\.2"):
        consortium.sites["lyon"].site_for(costly)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("epsilon = 1.0", "epsilon = 0.9"),
        ("delta = 1e-5", "delta = 2e-5"),
        ("n_components = 2", "n_components = 3"),
        ('"pca"\nn_components = 2\ncenter = false', '"mean"'),
        ("n_colluding = 1", "n_colluding = 0"),
        ('kind = "cape"', 'kind = "secure-sum"'),
        ("bound = 1.0", "bound = 1.5"),
        ('["a", "b", "c"]', '["a", "b"]'),
        ("[sites.oslo]", "[sites.oslo]\n[sites.rome]"),
    ],
)
def test_a_changed_study_is_not_approved(consortium: Consortium, old: str, new: str) -> None:
    consortium.approve()
    changed = consortium.variant(old, new)
    assert changed.digest() != consortium.study.digest()
    with pytest.raises(LedgerRefused, match="has not approved"):
        consortium.sites["lyon"].site_for(changed)


@pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning")
@pytest.mark.parametrize("parameters", ["", "\nclip = [0.9, 0.05]"], ids=["centred", "clipped"])
def test_releases_that_depend_on_the_number_of_records_are_let_through(consortium: Consortium, parameters: str) -> None:
    """So few records are not recentred, nor clipped again: other statistics, which the approval covers too."""
    study = consortium.variant("\ncenter = false", parameters)
    consortium.approve(study)
    model = study.estimator().fit(consortium.federation(study))
    assert [release.statistic for release in model.releases_] == ["second_moment" if parameters else "centred_moments"]
    assert not {release.statistic for release in model.releases_} <= study.statistics(), "those of more records differ"
    assert all(len(place.state().charges) == 1 for place in consortium.sites.values())


def test_the_coordinator_cannot_ask_for_other_terms(consortium: Consortium) -> None:
    consortium.approve()
    federation = consortium.federation()
    for epsilon, delta, shares, message in (
        (2.0, 1e-5, (1.0,), "epsilon"),
        (0.5, 1e-5, (1.0,), "epsilon"),
        (1.0, 1e-6, (1.0,), "delta"),
        (1.0, 1e-5, (0.5, 0.5), "number of releases"),
        (1.0, 1e-5, (0.5,), "shares"),
    ):
        with pytest.raises(ProtocolError, match=f"{message}.* approved study"):
            federation.allow(epsilon, delta, shares)
    assert all(place.state().charges == [] for place in consortium.sites.values())


def test_the_coordinator_cannot_change_protocol_sites_or_weights(consortium: Consortium) -> None:
    consortium.approve()
    line, members = consortium.line()
    with pytest.raises(ProtocolError, match="protocol"):
        PCA(2, epsilon=1.0, delta=1e-5, center=False).fit(Federation(line, protocol=Cape(n_colluding=0)))
    weights = {"lima": 0.5, "lyon": 0.3, "oslo": 0.2}
    with pytest.raises(ProtocolError, match="weights"):
        PCA(2, epsilon=1.0, delta=1e-5, center=False).fit(
            Federation(line, protocol=Cape(n_colluding=1), weights=weights)
        )
    assert set(members) == set(SITES)


def test_the_coordinator_cannot_ask_for_another_statistic(consortium: Consortium) -> None:
    """The terms of a mean are those of a PCA; what is asked for is not."""
    consortium.approve()
    with pytest.raises(ProtocolError, match=r"approved study \(second_moment\)"):
        Mean(epsilon=1.0, delta=1e-5).fit(consortium.federation())
    assert all(place.state().charges == [] for place in consortium.sites.values())


def test_an_approval_is_for_one_run_unless_it_says_more(consortium: Consortium) -> None:
    consortium.approve()
    consortium.study.estimator().fit(consortium.federation())
    with pytest.raises(LedgerRefused, match="used up"):
        consortium.federation()


def test_the_ceiling_holds_across_studies(consortium: Consortium) -> None:
    consortium.approve()
    consortium.study.estimator().fit(consortium.federation())
    other = consortium.variant("thickness", "thickness-two")
    consortium.approve(other)
    with pytest.raises(LedgerRefused, match="would exceed the ceiling of this data set"):
        consortium.federation(other)


def test_a_run_said_again_to_a_restarted_site_gives_nothing(consortium: Consortium) -> None:
    """A coordinator keeps what it said and says it again, although the steward approved one run more."""
    consortium.approve(runs=2)
    place = consortium.sites["lyon"]
    place.set_ceiling("cohort", Ceiling(9.0, 1e-5))
    line, members = consortium.line()
    said: list[bytes] = []
    answer = members["lyon"].answer

    def overheard(data: bytes) -> bytes:
        said.append(data)
        return answer(data)

    members["lyon"].answer = overheard
    consortium.study.estimator().fit(Federation(line, protocol=consortium.study.protocol()))
    restarted = SiteFolder(place.path).site_for(consortium.study)
    replies = [decode_from_site(restarted.answer(data))[1] for data in said]
    assert len(replies) >= 9
    assert all(isinstance(reply, Described | Refused) for reply in replies)
    assert len(place.state().charges) == 1


@pytest.mark.parametrize("lie", [1, 10**6, 10**15, 2**63])
def test_lies_about_the_size_of_another_site_do_not_make_the_noise_smaller(consortium: Consortium, lie: int) -> None:
    consortium.approve()
    federation = consortium.federation()
    terms = federation.terms(1.0, 1e-5)
    lied = msgspec.structs.replace(terms, n_records={**terms.n_records, "lima": lie})
    if lied.delta * lied.total_records > 1:
        with pytest.raises(ProtocolError, match="at most 1/N"):
            consortium.study.check_terms(lied)
    # Also where such a delta was accepted.
    replace(consortium.study, accept_large_delta=True).check_terms(lied)
    statistic = second_moment(federation.facts)
    true = plan_release(terms, 0, statistic, consortium.study.protocol())
    if lie >= 10**15:
        with pytest.raises(InvalidParameter, match="must fit into 64-bit integers"):
            plan_release(lied, 0, statistic, consortium.study.protocol())
        return
    false = plan_release(lied, 0, statistic, consortium.study.protocol())
    assert false.own_scales["lyon"] >= true.own_scales["lyon"]
    assert false.mus["lyon"] <= true.mus["lyon"]


def test_an_approval_revoked_between_agreeing_and_charging_stops_the_run(consortium: Consortium) -> None:
    consortium.approve()
    federation = consortium.federation()
    allowance = federation.allow(1.0, 1e-5)
    consortium.sites["oslo"].revoke(consortium.study)
    with pytest.raises(LedgerRefused, match=r"oslo: .*has not approved"):
        allowance.mean(second_moment(federation.facts))
    assert consortium.sites["oslo"].state().charges == []


def test_sites_must_be_pinned(consortium: Consortium, tmp_path: Path) -> None:
    alone = SiteFolder.create(tmp_path / "alone", name="lyon")
    alone.add_data("cohort", tmp_path / "lyon.csv", epsilon=1.2, delta=1e-5)
    alone.approve(consortium.study)
    with pytest.raises(ProtocolError, match="not pinned"):
        alone.site_for(consortium.study)
    for name, key in (("oslo", "zz"), ("oslo", "11"), ("no way", "11" * 32), ("lyon", "11" * 32)):
        with pytest.raises(InvalidParameter):
            alone.pin(name, key)


def test_one_data_set_has_one_budget(consortium: Consortium, tmp_path: Path) -> None:
    place = consortium.sites["lyon"]
    shutil.copy(tmp_path / "lyon.csv", tmp_path / "copy.csv")
    for path in (tmp_path / "lyon.csv", tmp_path / "copy.csv"):
        with pytest.raises(InvalidParameter, match="must have one budget"):
            place.add_data("fresh", path, epsilon=9.0, delta=1e-5)
    with pytest.raises(DamagedFile, match="Correct the path"):
        place.add_data("none", tmp_path / "nowhere.csv", epsilon=1.0, delta=1e-5)


def test_a_data_set_that_gets_another_file_keeps_its_budget_and_remembers_its_records(
    consortium: Consortium, tmp_path: Path
) -> None:
    place = consortium.sites["lyon"]
    place.set_ceiling("cohort", Ceiling(1.2, 1e-5, per_study=0.7))
    (tmp_path / "newer.csv").write_text((tmp_path / "lyon.csv").read_text() + "1,40,3.0\n", encoding="utf-8")
    place.add_data("cohort", tmp_path / "newer.csv", epsilon=1.2, delta=1e-5)
    assert place.state().ceilings["cohort"].per_study == 0.7
    assert [entry.kind for entry in place.chain.entries()[-2:]] == ["note", "ceiling"]
    with pytest.raises(InvalidParameter, match="must have one budget; got one that is already 'cohort'"):
        place.add_data("fresh", tmp_path / "lyon.csv", epsilon=9.0, delta=1e-5)


def test_a_lost_list_of_data_sets_gives_no_budget_back(consortium: Consortium, tmp_path: Path) -> None:
    place = consortium.sites["lyon"]
    consortium.approve()
    consortium.study.estimator().fit(consortium.federation())
    (place.path / "data.json").unlink()
    with pytest.raises(InvalidParameter, match=r"must hold data\.json; got .*Restore it"):
        place.data_sets()
    (place.path / "data.json").write_text("{}")
    with pytest.raises(InvalidParameter, match="got no file for 'cohort'"):
        place.add_data("fresh", tmp_path / "lyon.csv", epsilon=9.0, delta=1e-5)
    place.add_data("cohort", tmp_path / "lyon.csv", epsilon=1.2, delta=1e-5)
    assert place.state().spent("cohort", 1e-5) == pytest.approx(1.0, rel=1e-5)


def test_a_meaningless_ceiling_registers_nothing(consortium: Consortium, tmp_path: Path) -> None:
    place = SiteFolder.create(tmp_path / "new", name="lyon")
    with pytest.raises(InvalidParameter, match="positive finite epsilon"):
        place.add_data("cohort", tmp_path / "lyon.csv", epsilon=-1.0, delta=1e-5)
    assert place.data_sets() == {}
    with pytest.raises(Failed, match="dpcape site add"):
        review_text(place, consortium.study)


def test_a_data_set_without_a_ceiling_is_neither_reviewed_nor_approved(consortium: Consortium, tmp_path: Path) -> None:
    """What a crash between the two files of ``add_data`` leaves."""
    place = SiteFolder.create(tmp_path / "new", name="lyon")
    (place.path / "data.json").write_text('{"cohort": {"path": "/nowhere", "content": ""}}')
    for decide in (partial(review_text, place), place.approve):
        with pytest.raises(Failed, match="Set it: dpcape site budget"):
            decide(consortium.study)


def test_a_new_site_never_writes_over_the_keys_of_another(consortium: Consortium, tmp_path: Path) -> None:
    place = consortium.sites["lyon"]
    before = (place.keys / "identity.key").read_bytes()
    with pytest.raises(Failed, match="another --keys"):
        SiteFolder.create(tmp_path / "other", name="other", keys=place.keys)
    assert (place.keys / "identity.key").read_bytes() == before
    assert not (tmp_path / "other").exists()


def test_accepting_a_ledger_and_what_it_lost_are_one_step(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed while accepting: there must be no accepted ledger without the spending it lost."""
    place = consortium.sites["lyon"]
    (place.keys / "ledger.head").unlink()

    def killed(self: HeadCopy, head: Head) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(HeadCopy, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        place.accept_head(reason="disk failed", lost={"cohort": (1.0, 1e-5)})
    monkeypatch.undo()
    assert place.chain.disagreement() is not None
    place.accept_head(reason="again", lost={})
    assert place.state().spent("cohort", 1e-5) == pytest.approx(1.0, rel=1e-5)


def test_permissions(consortium: Consortium) -> None:
    place = consortium.sites["lyon"]
    place.keep(consortium.study)
    for path in (place.path, *place.path.rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode & 0o077 == 0, path
    key = place.keys / "identity.key"
    key.chmod(0o644)
    with pytest.raises(LedgerRefused, match="chmod 600"):
        SiteFolder(place.path)
    assert place.identity.private_bytes().hex() not in repr(place.identity)


def test_keys_may_live_elsewhere(tmp_path: Path) -> None:
    SiteFolder.create(tmp_path / "site", name="lyon", keys=tmp_path / "vault")
    again = SiteFolder(tmp_path / "site")
    assert (tmp_path / "vault" / "ledger.head").is_file()
    assert not (tmp_path / "site" / "keys").exists()
    assert again.pinned() == {"lyon": again.identity.public}
    with pytest.raises(InvalidParameter, match="must be new"):
        SiteFolder.create(tmp_path / "site", name="lyon")
    with pytest.raises(InvalidParameter, match="dpcape site init"):
        SiteFolder(tmp_path)


def test_a_restored_ledger_stops_the_site_until_the_steward_accepts(consortium: Consortium) -> None:
    place = consortium.sites["lyon"]
    consortium.approve()
    place.chain.close()
    backup = (place.path / "ledger.sqlite").read_bytes()
    consortium.sites["lyon"] = place = SiteFolder(place.path)
    consortium.study.estimator().fit(consortium.federation())
    place.chain.close()
    (place.path / "ledger.sqlite").write_bytes(backup)
    restored = SiteFolder(place.path)
    for attempt in (restored.pinned, restored.state, lambda: restored.site_for(consortium.study)):
        with pytest.raises(LedgerRefused, match="A restored backup may hide spending"):
            attempt()
    with pytest.raises(Failed, match="reason"):
        restored.accept_head(reason=" ", lost={})
    with pytest.raises(InvalidParameter, match="data set must be one of"):
        restored.accept_head(reason="disk failed", lost={"nothing": (1.0, 1e-5)})
    restored.accept_head(reason="disk failed", lost={"cohort": (1.0, 1e-5)})
    assert restored.state().spent("cohort", 1e-5) == pytest.approx(1.0, rel=1e-5)
    # The approval was there before the backup, but it may have been taken back since: the steward decides anew.
    with pytest.raises(LedgerRefused, match="has not approved"):
        restored.site_for(consortium.study)
    restored.approve(consortium.study)
    with pytest.raises(LedgerRefused, match="would exceed the ceiling"):
        restored.site_for(consortium.study)
    with pytest.raises(Failed, match="nothing to accept"):
        restored.accept_head(reason="again", lost={})


def test_a_lost_copy_of_the_head_can_be_replaced(consortium: Consortium) -> None:
    place = consortium.sites["lyon"]
    (place.keys / "ledger.head").unlink()
    with pytest.raises(LedgerRefused, match="Recover from a restored ledger"):
        place.state()
    place.accept_head(reason="file deleted by mistake, ledger compared with the export", lost={})
    assert place.chain.verify().length == len(place.chain.entries())
    assert place.chain.entries()[-1].kind == "accept"
    place.approve(consortium.study)


def test_a_whole_folder_restored_is_noticed_by_what_the_coordinator_saw(consortium: Consortium, tmp_path: Path) -> None:
    consortium.approve()
    place = consortium.sites["lyon"]
    place.chain.close()
    shutil.copytree(place.path, tmp_path / "backup")
    consortium.sites["lyon"] = place = SiteFolder(place.path)
    federation = consortium.federation()
    consortium.study.estimator().fit(federation)
    seen = federation.ledger_heads()
    place.chain.close()
    shutil.rmtree(place.path)
    shutil.copytree(tmp_path / "backup", place.path)
    consortium.sites["lyon"] = restored = SiteFolder(place.path)
    # By itself the site cannot know, and the approval is unused again ...
    for other in ("lima", "oslo"):
        consortium.sites[other].approve(consortium.study)
        consortium.sites[other].set_ceiling("cohort", Ceiling(3.0, 1e-5))
    line, _ = consortium.line()
    # ... but the coordinator shows it what it had.
    with pytest.raises(LedgerRefused, match=r"lyon: .*does not contain the head it showed before"):
        Federation(line, protocol=consortium.study.protocol(), seen_heads=seen)
    restored.accept_head(reason="disk failed", lost={"cohort": (1.0, 1e-5)}, seen=Head(*seen["lyon"]))
    Federation(line, protocol=consortium.study.protocol(), seen_heads=seen)


def test_review_is_in_words_and_reads_nothing(consortium: Consortium, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Study, "records_for", lambda *args: pytest.fail("records were read"))
    place = consortium.sites["lyon"]
    text = review_text(place, consortium.study)
    for words in (
        consortium.study.digest(),
        "What leaves this site",
        "1 release of totals over all records (second moment)",
        "against the aggregator together with any 1 site",
        "before: epsilon 0 of 1.2",
        "after: epsilon 1 of 1.2 (within the ceiling)",
    ):
        assert words in text
    costly = consortium.variant("epsilon = 1.0", "epsilon = 1.3")
    assert "ABOVE THE CEILING" in review_text(place, costly)
    exact = consortium.variant('"cape"\nn_colluding = 1', '"exact"')
    assert "exact totals" in review_text(place, exact)
    assert "No privacy guarantee" in review_text(place, exact)
    assert place.state().charges == []


def test_kept_studies_are_found_by_name_and_digest(consortium: Consortium) -> None:
    place = consortium.sites["lyon"]
    digest = place.keep(consortium.study)
    for reference in ("thickness", digest, digest[:10]):
        assert place.study(reference).digest() == digest
    for wrong in ("unknown", digest[:4], "f" * 64):
        with pytest.raises(InvalidParameter, match="must be a file, or one that was reviewed"):
            place.study(wrong)
    stranger = Study.parse(TEXT.replace("[sites.lyon]", "[sites.rome]"), path=consortium.folder / "study.toml")
    for method in (partial(review_text, place), place.approve, place.site_for):
        with pytest.raises(InvalidParameter, match="must name the site 'lyon'"):
            method(stranger)


def test_a_kept_study_that_was_changed_is_not_taken_for_the_reviewed_one(consortium: Consortium) -> None:
    place = consortium.sites["lyon"]
    kept = place.path / "studies" / place.keep(consortium.study) / "study.toml"
    kept.write_text(kept.read_text(encoding="utf-8").replace("epsilon = 1.0", "epsilon = 1.1"), encoding="utf-8")
    with pytest.raises(DamagedFile, match="changed after the review"):
        place.study("thickness")


def test_every_refusal_is_a_dpcape_error_without_paths_of_data(consortium: Consortium) -> None:
    consortium.approve()
    (consortium.folder / "lyon.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(DpcapeError) as caught:
        consortium.sites["lyon"].site_for(consortium.study)
    assert str(consortium.folder) not in str(caught.value)
