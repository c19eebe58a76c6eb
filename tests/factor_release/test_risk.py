"""The attacks do what they say, and find nothing where there is nothing."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pytest
from made_data import factor_data, made_bundle, standardised

from dpcape.factor_release.attacks import (
    area_under_curve,
    learn_map,
    reconstruction_ceiling,
    reconstruction_r2,
    top_one_rate,
)
from dpcape.factor_release.gibbs_sampler import principal_scores
from dpcape.factor_release.risk import NO_GUARANTEE, RiskReport, assess_risk
from dpcape.factor_release.risk_page import reconstruction_picture, risk_page


def scores(n_factors: int):
    return lambda features: principal_scores(features, n_factors)[0][None]


def report_on(X: np.ndarray, factors: np.ndarray, n_repeats: int = 5) -> RiskReport:
    refit = scores(factors.shape[1])
    return assess_risk(made_bundle(X, factors), X, refit=refit, rng=np.random.default_rng(0), n_repeats=n_repeats)


@pytest.fixture(scope="module")
def informative() -> RiskReport:
    """One line of an earlier simulation: n = 200, p = 2000, K = 10, unit residuals."""
    X = factor_data(200, 2000, 10, seed=1)[0]
    X = (X - X.mean(axis=0)) / X.std()  # one scale for all features, as the table was made
    return report_on(X, principal_scores(X, 10)[0])


def test_known_case_gives_the_known_risk(informative: RiskReport) -> None:
    few, many = informative.leaks[0], informative.leaks[-1]
    assert (few.n_leaked, many.n_leaked) == (12, 30)
    assert informative.ceiling == pytest.approx(0.915, abs=0.01)
    assert few.reconstruction.value == pytest.approx(0.673, abs=0.06)
    assert many.reconstruction.value == pytest.approx(0.852, abs=0.02)
    assert many.identified_all.value == 1.0
    assert few.identified_few.value == pytest.approx(0.72, abs=0.1)
    assert many.identified_few.value > 0.8
    assert many.membership_all is not None
    assert many.membership_all.value > 0.95


def test_factors_that_know_nothing_give_chance() -> None:
    X = standardised(factor_data(200, 300, 5, seed=2)[0])
    nothing = np.random.default_rng(3).standard_normal((200, 5))
    blind = lambda features: np.random.default_rng(4).standard_normal((1, len(features), 5))  # noqa: E731
    report = assess_risk(made_bundle(X, nothing), X, refit=blind, rng=np.random.default_rng(0), n_repeats=5)
    for leak in report.leaks:
        assert leak.reconstruction.value < 0.02
        assert leak.identified_all.value < 0.03
        assert leak.membership_all is not None
        assert abs(leak.membership_all.value - 0.5) < 0.12


def test_learnt_map_is_ridge_chosen_by_leave_one_out() -> None:
    rng = np.random.default_rng(5)
    F, X = rng.standard_normal((15, 3)), rng.standard_normal((15, 40))
    learnt = learn_map(F, X)
    np.testing.assert_allclose(learnt.rebuild(F).mean(axis=0), X.mean(axis=0), atol=1e-10)
    exact = F @ rng.standard_normal((3, 40)) + 2.0
    np.testing.assert_allclose(learn_map(F, exact).rebuild(F), exact, atol=1e-2)


def test_attack_does_not_depend_on_the_frame() -> None:
    X = standardised(factor_data(60, 100, 4, seed=6)[0])
    E = principal_scores(X, 4)[0]
    Q = np.linalg.qr(np.random.default_rng(7).standard_normal((4, 4)))[0]
    a = learn_map(E[:20], X[:20]).rebuild(E[20:])
    np.testing.assert_allclose(a, learn_map(E[:20] @ Q, X[:20]).rebuild(E[20:] @ Q), atol=1e-8)
    assert reconstruction_r2(a, X[20:]) < reconstruction_ceiling(E, X)


def test_small_measures() -> None:
    assert area_under_curve(np.array([2.0, 3.0]), np.array([1.0, 2.0])) == 0.875
    eye = np.eye(6)
    assert top_one_rate(eye, eye) == 1.0
    assert top_one_rate(eye, np.roll(eye, 1, axis=0)) == 0.0


def test_too_few_subjects_are_reported_not_hidden() -> None:
    X = standardised(factor_data(20, 50, 8, seed=8)[0])
    report = report_on(X, principal_scores(X, 8)[0], n_repeats=2)
    assert [leak.n_leaked for leak in report.leaks] == [10]
    assert len(report.not_measured) == 4
    assert "too few subjects" in risk_page(report)


class _Collector(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.labels = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        self.links += [str(v) for k, v in attrs if k in ("src", "href") and not str(v).startswith("#")]
        self.labels += bool(names.get("role") == "img" and names.get("aria-label"))
        if tag not in ("meta", "br", "link", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_page_is_self_contained_labelled_and_says_the_sentence(informative: RiskReport) -> None:
    page = risk_page(informative)
    collector = _Collector()
    collector.feed(page)
    assert not collector.open
    assert collector.links == []
    assert collector.labels == page.count("<svg") == 3
    assert NO_GUARANTEE in page
    assert "no differential-privacy guarantee" in NO_GUARANTEE
    assert risk_page(informative) == page
    assert "prefers-color-scheme: dark" in page
    assert "#1b1b1b" not in page


def test_values_are_not_written_on_the_ceiling(informative: RiskReport) -> None:
    axes = reconstruction_picture(informative).axes[0]
    heights = [text.get_position()[1] for text in axes.texts]
    assert len(heights) == len(informative.leaks)
    # A number is about 0.08 high.
    assert not [height for height in heights if height < informative.ceiling < height + 0.08]
