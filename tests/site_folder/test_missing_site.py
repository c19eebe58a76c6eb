"""A study that starts without one of its sites: what is claimed for the rest, and attacks that try to use it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np
import pytest

from dpcape import PCA, Federation
from dpcape.core.errors import DpcapeError, LedgerRefused
from dpcape.core.messages import Agreed, Open, Refused, Reopen, decode_from_site, decode_to_site, encode
from dpcape.core.noise import OsNoise
from dpcape.core.privacy.calibration import plan_release, target_mus
from dpcape.core.protocols.noise_dealer import NoiseDealer
from dpcape.core.secure_sum.identity import Identity
from dpcape.site.folder import SiteFolder
from dpcape.site.in_process import InProcess
from dpcape.statistics.moments import second_moment
from dpcape.study.study import Study
from dpcape.transport.transport import Transport

SITES = ("lima", "lyon", "oslo", "pune")
PRESENT = SITES[:3]
TEXT = """[study]
name = "first"
analysis = "pca"
n_components = 1
epsilon = 1.0
delta = 1e-5
[protocol]
kind = "{kind}"
n_colluding = 1
minimum_sites = 3
[sites.lima]
[sites.lyon]
[sites.oslo]
[sites.pune]
[data]
kind = "rows"
features = 2
array = "X"
bound = 1.0
"""


class Place:
    """Four site folders that approved one run of a study."""

    def __init__(self, path: Path, kind: str = "cape") -> None:
        (path / "study.toml").write_text(TEXT.format(kind=kind))
        self.study = Study.load(path / "study.toml")
        self.folders = {site: SiteFolder.create(path / site, name=site) for site in SITES}
        for number, (site, folder) in enumerate(self.folders.items()):
            np.savez(path / f"{site}.npz", X=np.random.default_rng(number).uniform(-0.5, 0.5, (40 + number, 2)))
            folder.add_data("main", path / f"{site}.npz", epsilon=50.0, delta=1e-3)
            for other in self.folders.values():
                folder.pin(other.name, other.identity.public.hex())
            folder.approve(self.study)

    def line(self, sites: tuple[str, ...]) -> InProcess:
        members = {site: self.folders[site].site_for(self.study) for site in sites}
        return InProcess(members, NoiseDealer(Identity.generate(), OsNoise()))

    def federation(self, line: Transport) -> Federation:
        return Federation(line, protocol=self.study.protocol())

    def n_charges(self) -> dict[str, int]:
        return {site: len(folder.state().charges_of("main")) for site, folder in self.folders.items()}


@pytest.mark.parametrize("kind", ["cape", "secure-sum"])
def test_noise_and_guarantee_are_those_of_the_sites_that_start(tmp_path: Path, kind: str) -> None:
    place = Place(tmp_path, kind)
    federation = place.federation(place.line(PRESENT))
    model = PCA(1, epsilon=1.0, delta=1e-5).fit(federation)
    guarantee = model.guarantee_
    assert tuple(sorted(guarantee.sites)) == PRESENT == guarantee.took_part
    assert guarantee.epsilon <= 1.0
    assert place.n_charges() == {"lima": 1, "lyon": 1, "oslo": 1, "pune": 0}
    # Against one colluding site: the own noise of the two others must cover what one record moves.
    terms = federation.terms(1.0, 1e-5, (1.0,))
    statistic = second_moment(federation.facts)
    plan = plan_release(terms, 0, statistic, place.study.protocol())
    for site in PRESENT:
        needed = plan.output_sensitivities[site] / target_mus(terms)[site]
        others = sorted(scale for name, scale in plan.own_scales.items() if name != site)
        assert math.hypot(plan.own_scales[site], others[0]) >= needed * (1 - 1e-9)
    # The sum has three sites' noise and no more is claimed.
    assert model.releases_[0].scale == pytest.approx(plan.sum_scale(PRESENT) / terms.total_records)


def test_noise_for_more_sites_than_start_is_refused(tmp_path: Path) -> None:
    """A coordinator that starts with three sites and asks for the smaller noise of four that all finish."""
    place = Place(tmp_path)
    line = place.line(PRESENT)
    terms = place.federation(line).terms(1.0, 1e-5, (1.0,))
    for changed in (
        {"settings": msgspec.structs.replace(terms.settings, n_colluding=0)},
        {"n_records": {site: terms.n_records[site] for site in PRESENT[:2]}},
        {"n_records": {**terms.n_records, "kobe": 40}},
    ):
        asked = msgspec.structs.replace(terms, **changed)
        asked = msgspec.structs.replace(asked, epsilons=dict.fromkeys(asked.n_records, 1.0))
        assert isinstance(opened(line, "lima", Open(terms=asked)), Refused)
    assert isinstance(opened(line, "lima", Open(terms=terms)), Agreed)
    assert sum(place.n_charges().values()) == 0


def opened(line: InProcess, site: str, message: Open | Reopen) -> object:
    return decode_from_site(line.site(site).answer(encode(message, allowance=message.terms.allowance)))[1]


def test_two_subsets_are_two_runs(tmp_path: Path) -> None:
    """The difference of two sums over overlapping sites would show one site; the second is not approved."""
    place = Place(tmp_path)
    federation = place.federation(place.line(PRESENT))
    PCA(1, epsilon=1.0, delta=1e-5).fit(federation)
    with pytest.raises(LedgerRefused, match="approved"):
        place.line(SITES[1:])
    assert place.n_charges() == {"lima": 1, "lyon": 1, "oslo": 1, "pune": 0}


def test_a_charge_for_three_sites_does_not_pay_for_others(tmp_path: Path) -> None:
    """Reopening goes on under its own terms alone: the same allowance with another set of sites is refused."""
    place = Place(tmp_path)
    line = place.line(PRESENT)
    federation = place.federation(line)
    private = federation.allow(1.0, 1e-5)
    private.mean(second_moment(federation.facts))
    terms = private._terms
    sizes = {**{site: terms.n_records[site] for site in PRESENT[:2]}, "pune": 43}
    other = msgspec.structs.replace(terms, n_records=sizes, epsilons=dict.fromkeys(sizes, 1.0))
    again = {site: place.folders[site].site_for(place.study, allowance=terms.allowance) for site in PRESENT}
    fresh = InProcess(again, NoiseDealer(Identity.generate(), OsNoise()))
    refused = opened(fresh, "lima", Reopen(terms=other))
    assert isinstance(refused, Refused)
    assert not isinstance(opened(fresh, "lima", Reopen(terms=terms)), Refused)


class TwoFaced(Transport):
    """A coordinator that tells one site of a smaller set than the others."""

    def __init__(self, inner: InProcess, deceived: str, kept: tuple[str, ...]) -> None:
        self._inner, self._deceived, self._kept = inner, deceived, kept

    @property
    def sites(self) -> tuple[str, ...]:
        return self._inner.sites

    def ask(
        self, messages_by_site: Mapping[str, bytes], deadline: float | None
    ) -> tuple[dict[str, bytes], tuple[str, ...]]:
        sent = dict(messages_by_site)
        allowance, message = decode_to_site(sent[self._deceived])
        if isinstance(message, Open):
            kept = {site: message.terms.n_records[site] for site in self._kept}
            terms = msgspec.structs.replace(message.terms, n_records=kept, epsilons=dict.fromkeys(kept, 1.0))
            sent[self._deceived] = encode(Open(terms=terms), allowance=allowance)
        return self._inner.ask(sent, deadline)


@pytest.mark.parametrize("kind", ["cape", "secure-sum"])
def test_sites_that_were_told_of_different_sets_release_nothing(tmp_path: Path, kind: str) -> None:
    place = Place(tmp_path, kind)
    line = TwoFaced(place.line(SITES), "lyon", PRESENT)
    with pytest.raises(DpcapeError):
        PCA(1, epsilon=1.0, delta=1e-5).fit(place.federation(line))
    assert sum(place.n_charges().values()) == 0
