"""The privacy card: the same words wherever it is shown, and figures that hold."""

from __future__ import annotations

import itertools
import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from scipy.special import ndtr, ndtri

from dpcape import (
    PCA,
    Cape,
    Dealer,
    Exact,
    Federation,
    Independent,
    Replay,
    SecureSum,
    in_process,
    rows,
    subjects,
)
from dpcape.core.errors import InvalidParameter
from dpcape.core.privacy.calibration import plan_release
from dpcape.core.privacy.collusion import epsilons_by_colluders
from dpcape.core.privacy.gaussian import delta_of, epsilon_of
from dpcape.core.privacy.inference import most_hits, most_right
from dpcape.core.privacy.terms import epsilon_reserve, tail_reserve
from dpcape.guarantee.card import Card, Odds, Spent, card_html, card_of, card_terminal, card_text, scale_line
from dpcape.guarantee.guarantee import CONDITIONAL, PUBLISHED, VERIFIED, Guarantee
from dpcape.statistics.moments import second_moment

from .html_reader import read_html

# The noise is fresh, and with probability 3e-5 per fit it makes the share of valid records look small.
pytestmark = pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning")
SITES = ("lima", "lyon", "oslo", "rome", "york")
PROTOCOLS = (
    Cape(n_colluding=1),
    Cape(n_colluding=1, minimum_sites=4, cancelling_ratio=1.0),
    SecureSum(n_colluding=2),
    Independent(),
    Dealer(n_colluding=0),
    Exact(),
)


def held() -> dict[str, Any]:
    generator = np.random.default_rng(5)
    return {
        name: rows(generator.normal(size=(60 + 20 * index, 3)) * 0.3, bound=1.0) for index, name in enumerate(SITES)
    }


def fitted(protocol: Any, *, epsilon: Any = 1.0, noise: Any = None) -> PCA:
    options = {} if noise is None else {"noise": noise}
    return PCA(2, epsilon=epsilon, delta=1e-5, center=False).fit(
        Federation(in_process(held(), **options), protocol=protocol)
    )


@pytest.fixture(scope="module")
def guarantee() -> Guarantee:
    return fitted(Cape(n_colluding=1)).guarantee_


def cards() -> list[Card]:
    made = [card_of(model.guarantee_, releases=model.releases_) for model in map(fitted, PROTOCOLS)]
    base = fitted(Cape(n_colluding=1), noise=Replay(1)).guarantee_
    fresh = msgspec.structs.replace(base, replayable=False)
    unequal = fitted(Independent(), epsilon=dict(zip(SITES, (0.5, 1.0, 1.0, 2.0, 30.0), strict=True)))
    within, above = (Spent("cohort", 0.4, after, 2.0, 1e-5) for after in (1.2, 2.5))
    return [
        *made,
        card_of(base),
        card_of(msgspec.structs.replace(fresh, status=CONDITIONAL), spent=within, planned=True),
        card_of(msgspec.structs.replace(fresh, status=PUBLISHED), planned=True),
        card_of(fresh, spent=above),
        card_of(fresh, spent=Spent("cohort", 0.0, math.inf, 2.0, 1e-5)),
        card_of(unequal.guarantee_),
    ]


def shown_in_terminal(card: Card) -> str:
    console = Console(width=4000, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(card_terminal(card))
    console.file.close()
    return console.export_text()


def words(text: str) -> str:
    return " ".join(text.split())


def test_all_forms_say_the_same() -> None:
    for card in cards():
        page = read_html(card_html(card)).text
        text, terminal = words(card_text(card)), words(shown_in_terminal(card))
        assert len(card.sentences) > 10
        for sentence in filter(None, card.sentences):
            for form in (page, text, terminal):
                assert words(sentence) in form


def test_forms_follow_the_order_of_the_content() -> None:
    for card in cards():
        for form in (read_html(card_html(card)).text, words(card_text(card)), words(shown_in_terminal(card))):
            places = [form.index(part.title) for part in card.parts]
            assert places == sorted(places)


def test_cards_are_well_formed_and_every_picture_has_words() -> None:
    for card in cards():
        for notebook in (True, False):
            tree = read_html(card_html(card, notebook=notebook, level=2))
            pictures = tree.all("svg")
            assert len(pictures) == 2 * (card.odds is not None) + (card.spent is not None)
            for picture in pictures:
                assert picture.attributes["role"] == "img"
                assert picture.one("title").text == words(picture.attributes["aria-label"])
            assert [len(node.content) > 0 for node in tree.all("style")] == [True] * notebook
            assert all(node.attributes.get("scope") in ("row", "col") for node in tree.all("th"))
            assert tree.all("h2")
            assert len(tree.all("h3")) == len(card.parts)


def test_text_keeps_to_its_width() -> None:
    for card in cards():
        assert max(map(len, card_text(card, width=100).splitlines())) <= 100


def test_a_terminal_of_80_columns_breaks_no_picture_and_marks_points() -> None:
    for card in cards():
        console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
        console.print(card_terminal(card))
        console.file.close()
        lines = [line.strip("│ \n") for line in console.export_text().splitlines()]
        assert sum(line.startswith("- ") for line in lines) == sum(len(part.points) for part in card.parts)
        if card.odds:
            assert scale_line(card.odds) in lines


def test_the_card_follows_the_switch_of_its_host() -> None:
    style = card_html(next(iter(cards()))).partition("</style>")[0]
    for host in ('[data-theme="dark"]', '[data-jp-theme-light="false"]', ".vscode-dark"):
        assert f"{host} .dpcape-card" in style
    # As specific as the switches, and after them: what is printed is light.
    assert style.rindex(".dpcape-card.dpcape-card {") > style.rindex('[data-theme="dark"]')


# The status, and what is said first.


def test_statuses(guarantee: Guarantee) -> None:
    replace = msgspec.structs.replace
    for changed, tone, first in (
        (guarantee, "verified", "Epsilon 1 at delta 0.00001 per record"),
        (replace(guarantee, status=CONDITIONAL), "conditional", "If the stated sensitivity is right: epsilon 1"),
        (replace(guarantee, status=PUBLISHED), "published", "Claimed, not confirmed: epsilon 1"),
        (replace(guarantee, replayable=True), "replayable", "No protection; with fresh noise it would be: epsilon 1"),
        (replace(guarantee, status=PUBLISHED, replayable=True), "replayable", "No protection; with fresh noise"),
        (fitted(Exact()).guarantee_, "none", "No bound on what is revealed"),
    ):
        card = card_of(changed)
        assert card.tone == tone
        assert card.headline.startswith(first)
        assert ("verified" in card.status.lower()) == (tone == "verified")
        assert f'class="dpcape-card {tone}"' in card_html(card)
    unknown = card_of(replace(guarantee, status="something new"))
    assert unknown.tone == "conditional"


def test_what_is_not_bounded_has_no_figure() -> None:
    card = card_of(fitted(Exact()).guarantee_)
    assert card.odds is None
    text = words(card_text(card))
    assert "%" not in text
    assert "epsilon" not in text.lower()
    assert "There is no bound" in text
    assert "Do not approve this for records of people" in text


def test_small_epsilon_is_no_warning_and_both_ends_have_names() -> None:
    for epsilon in (0.01, 1.0, 20.0):
        card = card_of(fitted(Independent(), epsilon=epsilon).guarantee_)
        assert card.tone == "verified"
        page = card_html(card)
        assert "50%: coin toss" in page
        assert "100%: certain" in page
        assert ("protects little" in card_text(card)) == (epsilon == 20.0)


def test_the_unit_is_named_and_a_person_is_not_a_record() -> None:
    generator = np.random.default_rng(3)
    series = [generator.normal(size=(30, 2)) * 0.2 for _ in range(40)]
    for unit, expected in (("record", "time point"), ("subject", "One subject of one site")):
        records = {"lyon": subjects(series, bound=1.0, unit=unit, rows_per_subject=30, n_features=2)}
        allowance = Federation(in_process(records), protocol=Independent()).allow(1.0, 1e-5)
        card = card_of(allowance.guarantee())
        assert expected in card_text(card, width=4000)
        assert f"per {unit}" in card.headline
    assert "There is only one site." in card_text(card)
    assert "If sites collude" not in card_text(card)


def test_hostile_names_stay_text(guarantee: Guarantee) -> None:
    evil = "<script>alert(1)</script>"
    hostile = msgspec.structs.replace(guarantee, against=evil, owner_note=evil, assumptions=(evil,), unit="<b>")
    card = card_of(hostile, spent=Spent("<i>'\">", 0.1, 0.2, 1.0, 1e-5))
    page = card_html(card)
    assert "<script" not in page
    assert "<b>" not in page
    assert "<i>" not in page
    assert evil in read_html(page).text


def test_notebooks_show_the_card() -> None:
    model = fitted(Cape(n_colluding=1))
    assert model.guarantee_._repr_html_() == card_html(card_of(model.guarantee_))
    assert card_html(card_of(model.guarantee_, releases=model.releases_)) in model._repr_html_()
    assert "second moment" in model._repr_mimebundle_()["text/html"]
    assert "dpcape-card" not in PCA(2, epsilon=1.0, delta=1e-5, center=False)._repr_html_()
    assert card_of(model.guarantee_)._repr_html_() == card_html(card_of(model.guarantee_))


def test_the_ledger_is_judged_by_its_ceiling(guarantee: Guarantee) -> None:
    within = card_of(guarantee, spent=Spent("cohort", 0.4, 2.0, 2.0, 1e-5), planned=True)
    above = card_of(guarantee, spent=Spent("cohort", 0.4, 2.01, 2.0, 1e-5), planned=True)
    assert "after: epsilon 2 of 2 (within the ceiling)" in card_text(within)
    assert "after: epsilon 2.01 of 2 (ABOVE THE CEILING: the site would refuse)" in card_text(above)
    assert 'class="over"' in card_html(above)
    assert 'class="over"' not in card_html(within)
    assert "What leaves this site" in card_text(within)
    assert "What left each site" in card_text(card_of(guarantee))


def test_the_ceiling_of_one_study_counts_too(guarantee: Guarantee) -> None:
    cards = [
        card_of(guarantee, spent=Spent("cohort", 0.4, 1.5, 2.0, 1e-5, alone=1.1, per_study=most), planned=True)
        for most in (1.1, 1.0)
    ]
    assert "this study alone: epsilon 1.1 of 1.1 (within its ceiling)" in card_text(cards[0])
    assert "this study alone: epsilon 1.1 of 1 (ABOVE THE CEILING: the site would refuse)" in card_text(cards[1])
    assert ['class="over"' in card_html(card) for card in cards] == [False, True]


# The odds, against the exact Gaussian formulas.

mus = st.floats(1e-3, 12.0)
shares = st.floats(1e-9, 1.0 - 1e-9)


def by_envelope(false_alarms: float, mu: float) -> float:
    """The least of e^epsilon f + delta(epsilon), over a fine grid: a second way to the same bound."""
    grid = np.linspace(0.0, 60.0, 4001)
    lines = [math.exp(epsilon) * false_alarms + delta_of(float(epsilon), mu) for epsilon in grid]
    swapped = [1 - math.exp(-epsilon) * (1 - false_alarms - delta_of(float(epsilon), mu)) for epsilon in grid]
    return min(*lines, *swapped)


@settings(max_examples=25, deadline=None)
@given(mu=st.floats(0.05, 6.0), false_alarms=st.floats(1e-4, 0.999))
def test_hits_are_the_lower_envelope_of_all_pairs(mu: float, false_alarms: float) -> None:
    found = most_hits(false_alarms, epsilon=60.0, delta=1e-300, mu=mu)
    # The grid of the envelope is coarser than the curve, and 1e-6 is kept for integer noise.
    assert found == pytest.approx(by_envelope(false_alarms, mu), abs=2e-3)
    assert found <= by_envelope(false_alarms, mu) + 1.1e-6


@given(mu=mus, false_alarms=shares)
def test_the_best_test_never_beats_the_bound_and_comes_close(mu: float, false_alarms: float) -> None:
    """The likelihood-ratio test between N(0, 1) and N(mu, 1) is the best there is (Neyman and Pearson)."""
    epsilon = epsilon_of(1e-5, mu)
    best = float(ndtr(ndtri(false_alarms) + mu))
    bound = most_hits(false_alarms, epsilon=epsilon, delta=1e-5, mu=mu)
    assert best <= bound + 1e-12
    # Beyond the guarantee's epsilon the pair takes over: at most delta further off.
    assert bound - best <= 1e-5 + 1e-6 + 1e-12
    # Teeth: the bound of a view that is a tenth more private is broken, where it can be seen.
    if 0.05 < mu < 4 and 0.01 < false_alarms < 0.5:
        weaker = most_hits(false_alarms, epsilon=epsilon, delta=1e-5, mu=0.9 * mu)
        assert best > weaker


@given(mu=mus)
def test_guesses_are_half_plus_half_of_delta_at_zero(mu: float) -> None:
    right = most_right(epsilon=epsilon_of(1e-5, mu), delta=1e-5, mu=mu)
    assert 0 <= right - (0.5 + 0.5 * delta_of(0.0, mu)) <= 6e-7


@given(epsilon=st.floats(1e-3, 30.0), delta=st.floats(0.0, 0.1), false_alarms=shares)
def test_without_a_mu_the_pair_alone_is_used_and_is_attained(epsilon: float, delta: float, false_alarms: float) -> None:
    """Randomised response that gives itself away with probability delta meets the bound for a pair."""
    told, kept = math.exp(epsilon) / (1 + math.exp(epsilon)), 1 / (1 + math.exp(epsilon))
    right = delta + (1 - delta) * told
    assert most_right(epsilon=epsilon, delta=delta) == pytest.approx(right, abs=1e-12)
    bound = most_hits(false_alarms, epsilon=epsilon, delta=delta)
    corner = (1 - delta) * kept
    hits_at_corner = delta + (1 - delta) * told
    line = delta + false_alarms / corner * (hits_at_corner - delta)
    attained = (
        line
        if false_alarms <= corner
        else hits_at_corner + (1 - hits_at_corner) * (false_alarms - corner) / (1 - corner)
    )
    assert bound >= min(attained, 1.0) - 1e-9


def test_the_slack_covers_what_integer_noise_may_add() -> None:
    """docs/noise.md: hits become at most e^gap hits + tail, for the largest gap and tail a guarantee admits."""
    for delta, epsilon in itertools.product((1e-9, 1e-5, 1e-2), (1e-3, 1.0, 100.0)):
        gap, tail = epsilon_reserve(epsilon), tail_reserve(delta)
        for hits in (1e-9, 0.05, 0.5, 1.0):
            assert math.exp(gap) * hits + tail <= hits + 1e-6
        for right in (0.5, 0.9, 1.0):
            # Half a hit and half a correct rejection.
            assert (math.exp(gap) * (2 * right - 1) + tail + 1) / 2 <= right + 5e-7


def test_edges_of_the_odds() -> None:
    assert most_hits(0.0, epsilon=1.0, delta=1e-5, mu=0.3) == 1e-5
    assert most_hits(1.0, epsilon=1.0, delta=1e-5, mu=0.3) == 1.0
    assert most_hits(0.05, epsilon=1e4, delta=1e-5) == 1.0
    assert most_right(epsilon=1e4, delta=1e-5) == 1.0
    assert Odds.of(1.0, 1e-5).right > Odds.of(1.0, 1e-5, 0.268051).right
    with pytest.raises(InvalidParameter, match="between 0 and 1"):
        most_hits(1.2, epsilon=1.0, delta=1e-5)


def test_the_card_prints_the_computed_odds(guarantee: Guarantee) -> None:
    odds = card_of(guarantee).odds
    assert odds is not None
    assert odds.right == pytest.approx(float(ndtr(guarantee.mu / 2)), abs=1e-6)
    assert odds.hits == pytest.approx(float(ndtr(ndtri(0.05) + guarantee.mu)), abs=2e-6)
    text = words(card_text(card_of(guarantee)))
    assert "at most 55.4%" in text
    assert "with 5% false alarms detects it at most 8.5% of the time" in text
    assert "at most 2.72 times" in text
    claimed = card_of(msgspec.structs.replace(guarantee, status=PUBLISHED, mu=0.0001)).odds
    assert claimed is not None
    # A claim is not taken for Gaussian.
    assert claimed.right == pytest.approx((math.e + 1e-5) / (1 + math.e), abs=1e-6)


# What is left if others collude.


def test_colluders_are_counted_as_the_views_say() -> None:
    """Brute force: every coalition of each size, every set of survivors, straight from the protocol's view."""
    for protocol in PROTOCOLS[:3]:
        federation = Federation(in_process(held()), protocol=protocol)
        terms = federation.terms(1.0, 1e-5)
        plan = plan_release(terms, 0, second_moment(federation.facts), protocol)
        own, shared, reach = (
            np.array([scales[site] for site in terms.sites])
            for scales in (plan.own_scales, plan.shared_scales, plan.output_sensitivities)
        )
        found = epsilons_by_colluders(terms, protocol, [plan])
        agreed, least = terms.settings.n_colluding, terms.settings.minimum_sites
        for count in range(agreed + 1):
            mu = max(
                (reach * protocol.view(5, honest=honest, own_scales=own, shared_scales=shared).exposures())[site]
                for honest in itertools.combinations(range(5), least - count)
                for site in honest
            )
            assert found[count] == pytest.approx(epsilon_of(1e-5, mu), rel=1e-5)
        alone = epsilon_of(1e-5, float(np.max(reach / own)))
        assert found[agreed + 1 :] == pytest.approx([alone] * (4 - agreed), rel=1e-5)
        # Own noise alone is the last line of defence: no coalition sees more than that.
        for size in range(1, 6):
            for honest in itertools.combinations(range(5), size):
                view = protocol.view(5, honest=honest, own_scales=own, shared_scales=shared)
                assert (view.exposures()[list(honest)] <= (1 / own[list(honest)]) * (1 + 1e-9)).all()


def test_the_guarantee_is_in_the_table(guarantee: Guarantee) -> None:
    assert guarantee.by_colluders[1] == pytest.approx(guarantee.epsilon, rel=1e-9)
    assert guarantee.by_colluders == tuple(sorted(guarantee.by_colluders))
    table = next(part.table for part in card_of(guarantee).parts if part.table)
    assert [row[0] for row in table[1:]] == ["no other site", "1 other site", "2 to 4 other sites"]
    assert table[2][1:] == ("1", "guaranteed")
    assert "not guaranteed" in table[3][2]


def test_releases_not_yet_used_count_in_full() -> None:
    federation = Federation(in_process(held()), protocol=Cape(n_colluding=1))
    allowance = federation.allow(1.0, 1e-5, shares=(0.3, 0.7))
    assert allowance.guarantee().by_colluders == ()
    allowance.mean(second_moment(federation.facts))
    first = allowance.guarantee().by_colluders
    allowance.mean(second_moment(federation.facts))
    both = allowance.guarantee().by_colluders
    assert first[1] == pytest.approx(1.0, rel=1e-5)
    for before, after in zip(first, both, strict=True):
        assert before >= after * (1 - 1e-6)


def test_guarantees_written_before_have_no_table(guarantee: Guarantee) -> None:
    plain = msgspec.to_builtins(guarantee)
    del plain["by_colluders"]
    old = msgspec.convert(plain, Guarantee)
    assert old.status == VERIFIED
    assert "If sites collude" not in card_text(card_of(old))
