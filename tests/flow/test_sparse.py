"""Secure sums over a sparse masking graph: the same result, sites lost at every stage, and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from dpcape import Cape, Federation, SecureSum
from dpcape.cli import main
from dpcape.core.errors import InvalidParameter, ProtocolError
from dpcape.core.protocols.secure_session import session_config
from dpcape.core.secure_sum.graph import masking_graph
from dpcape.statistics.moments import second_moment

from .lines import LosingLine, Loss, example_rows, line_of
from .test_drop_outs import check_sum, open_allowance

MANY = example_rows(30, n_rows=6, width=2)
SPARSE = {"n_colluding": 1, "minimum_sites": 27, "n_neighbours": 14}
each = pytest.mark.parametrize("kind", [Cape, SecureSum])
A, B, C = "site00", "site11", "site29"


@each
def test_the_result_does_not_depend_on_the_graph(kind: type[Cape | SecureSum]) -> None:
    means = []
    for n_neighbours in (None, 14):
        private = open_allowance(line_of(MANY), kind(**{**SPARSE, "n_neighbours": n_neighbours}))
        means.append(private.mean(second_moment(private._federation.facts)))
    np.testing.assert_array_equal(*means)


@each
@pytest.mark.parametrize(
    ("losses", "n_survivors"),
    [
        ([Loss(A, "Accept", after=True)], 29),
        ([Loss(A, "Submit"), Loss(B, "Submit", after=True), Loss(C, "Sign")], 28),
        ([Loss(A, "Submit"), Loss(B, "Unmask")], 29),
        ([Loss(A, "Sign"), Loss(B, "Unmask")], 30),
    ],
)
def test_sites_may_be_lost(kind: type[Cape | SecureSum], losses: list[Loss], n_survivors: int) -> None:
    private = open_allowance(line_of(MANY, losses), kind(**SPARSE))
    mean = private.mean(second_moment(private._federation.facts))
    assert len(private.releases[0].survivors) == n_survivors
    check_sum(MANY, private, mean)


class _Isolating(LosingLine):
    """Loses all neighbours but one of the site that has fewest, when they are asked for their vectors."""

    def _carry(self, site: str, data: bytes, deadline: float | None) -> bytes | None:
        if not self._losses and len(self.of_kind("Accept")) == len(self.sites):
            (guarded,) = self.inner.site(self.sites[0])._allowances.values()
            session = guarded.role._session
            graph = masking_graph(session._config, session.session_id)
            around = min((graph.neighbours(name) for name in self.sites), key=len)
            self._losses = [Loss(name, "Submit") for name in around[1:]]
        return super()._carry(site, data, deadline)


@each
def test_targeted_drop_outs_end_without_a_result(kind: type[Cape | SecureSum]) -> None:
    data = example_rows(60, n_rows=3, width=2)
    line = _Isolating(line_of(data).inner)
    private = open_allowance(line, kind(n_colluding=1, minimum_sites=45, n_neighbours=18))
    with pytest.raises(ProtocolError, match="colluding sites might separate"):
        private.mean(second_moment(private._federation.facts))
    assert len(data) - len(line._gone) >= 45, "enough sites were left"
    assert private.releases == []
    assert line.of_kind("Unmask") == []
    assert all(line.inner.site(entry.site).ledger.charges for entry in line.of_kind("Submit")), "the charge stands"


@pytest.mark.parametrize(
    ("n_neighbours", "why"),
    [(8, "at least 12"), (13, "an even whole number"), (2, "at least 4"), (30, "at most 28")],
)
def test_numbers_that_cannot_work_are_refused_before_anything_is_sent(n_neighbours: int, why: str) -> None:
    line = line_of(MANY)
    with pytest.raises(InvalidParameter, match=f"n_neighbours must be .*{why}"):
        Federation(line, protocol=Cape(n_colluding=1, minimum_sites=27, n_neighbours=n_neighbours)).allow(1.0, 1e-5)
    assert not line.of_kind("Greet")


@each
def test_the_card_says_how_sites_share_masks(kind: type[Cape | SecureSum]) -> None:
    private = open_allowance(line_of(MANY), kind(**SPARSE))
    private.mean(second_moment(private._federation.facts))
    told = private.guarantee().assumptions
    assert any("at most 14 others" in text for text in told)
    private = open_allowance(line_of(MANY), kind(**{**SPARSE, "n_neighbours": None}))
    private.mean(second_moment(private._federation.facts))
    assert told[: len(private.guarantee().assumptions)] == private.guarantee().assumptions
    assert private.guarantee().epsilon == pytest.approx(1.0, abs=1e-3)


def test_with_few_sites_left_all_share_masks() -> None:
    terms = open_allowance(line_of(MANY), SecureSum(n_colluding=1, minimum_sites=29, n_neighbours=28))._terms
    assert session_config(terms, terms.sites, 0).n_neighbours == 28
    assert session_config(terms, terms.sites[:29], 0).n_neighbours == 0


PLAN = "plan --analysis pca --features 20 --records 10000 --sites 200 --colluding 2 --protocol cape --epsilon 1"


def test_the_planner_takes_the_number_and_the_noise_stays(tmp_path: Path) -> None:
    def planned(*more: str) -> Result:
        return CliRunner().invoke(main, [*PLAN.split(), "--delta", "1e-5", "--json", *more])

    sparse, complete = (json.loads(planned(*more).stdout) for more in (("--neighbours", "20"), ()))
    assert sparse.pop("n_neighbours") == 20
    assert "at most 20 others" in sparse.pop("assumptions")[-1]
    del complete["assumptions"]
    assert sparse == complete
    refused = planned("--neighbours", "6")
    assert refused.exit_code != 0
    assert "n_neighbours must be at least 8 with 200 sites" in f"{refused.output}{refused.exception}"
    assert planned("--neighbours", "20", "--html", str(tmp_path / "plan.html")).exit_code != 0
