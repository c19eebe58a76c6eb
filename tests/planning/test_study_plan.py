"""Plans say what a fit will do, and spend nothing."""

from __future__ import annotations

import json
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from click.testing import CliRunner

from dpcape import (
    CCA,
    PCA,
    Cape,
    Federation,
    Independent,
    JointICA,
    KMeans,
    LinearRegression,
    LogisticRegression,
    Mean,
    MixtureModel,
    NetworkClassifier,
    PolynomialLoss,
    TopicModel,
    documents,
    in_process,
    labelled,
    rows,
    subjects,
    views,
)
from dpcape.analyses.registry import variants
from dpcape.analyses.release import AT_MOST, RELATIVE
from dpcape.analyses.release import EXACT as EXACT_SCALES
from dpcape.cli import main
from dpcape.core.errors import Failed, InvalidParameter
from dpcape.core.privacy.ledger import Ledger
from dpcape.planning.consortium import Consortium as Setting
from dpcape.planning.declared import Declared
from dpcape.planning.federation_plan import rehearsed
from dpcape.planning.page.planner_page import write_planner
from dpcape.planning.planned import releases_of
from dpcape.planning.study_plan import plan_study

SIZES = {"lima": 300, "lyon": 500, "oslo": 200}
PRIVACY: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}


def held(kind: str, n: int) -> Any:
    source = np.random.default_rng([n, 1])
    X = 0.2 * source.standard_normal((n, 6))
    if kind == "views":
        return views(X, X[:, :3], bounds=(1.0, 2.0))
    if kind == "response":
        return labelled(X, source.random(n), bound=1.0, response=(0, 1))
    if kind == "classes":
        return labelled(X, source.integers(2, size=n), bound=1.0, classes=[0, 1])
    if kind == "documents":
        return documents(source.integers(3, size=(n, 8)))
    if kind == "subjects":
        return subjects([0.2 * source.laplace(size=(10, 5)) for _ in range(n // 10)], bound=1.0, unit="record")
    if kind == "people":
        return subjects(
            [0.2 * source.laplace(size=(12, 5)) for _ in range(n // 10)],
            bound=1.0,
            unit="subject",
            rows_per_subject=12,
            n_features=5,
        )
    return rows(X, bound=1.0)


def federation(kind: str, **more: Any) -> Federation:
    ledgers = {name: Ledger() for name in SIZES}
    made = Federation(
        in_process({name: held(kind, n) for name, n in SIZES.items()}, ledgers=ledgers),
        protocol=Cape(n_colluding=1),
        **more,
    )
    made.kept = ledgers
    return made


# Infomax that never stops early, so that all rounds are there to be compared.
ROUNDS: dict[str, Any] = {"n_iter": 3, "tol": 0.0}
# Those whose noise does not depend on the records: the plan is exact.
EXACT = [
    (Mean(**PRIVACY), "rows", "mean"),
    (PCA(2, **PRIVACY), "rows", "pca"),
    (PCA(2, **PRIVACY, center=False), "rows", "uncentred-pca"),
    (PCA(2, **PRIVACY, adjust="site"), "rows", "site-adjusted-pca"),
    (CCA(1, **PRIVACY), "views", "cca"),
    (CCA(1, **PRIVACY, adjust="site"), "views", "site-adjusted-cca"),
    (CCA(1, **PRIVACY, center=False), "views", "uncentred-cca"),
    (CCA(1, **PRIVACY, scale="private"), "views", "scaled-cca"),
    (CCA(1, **PRIVACY, basis=(np.eye(6, 4), None)), "views", "wide-cca"),
    (CCA(1, **PRIVACY, basis=(np.eye(6, 4), np.eye(3, 2)), maps=True), "views", "wide-cca-maps"),
    (LinearRegression(**PRIVACY), "response", "linear-regression"),
    (LogisticRegression(**PRIVACY, fit_intercept=False), "classes", "logistic-regression"),
    (PCA(2, **PRIVACY, basis=np.eye(6, 4)), "rows", "wide-pca"),
    (PCA(2, **PRIVACY, basis=np.eye(6, 4), maps=True), "rows", "wide-pca-maps"),
    (KMeans(2, **PRIVACY, n_iter=3), "rows", "kmeans"),
    (NetworkClassifier(3, **PRIVACY, n_iter=2, clip=0.7), "classes", "network-classifier"),
    (TopicModel(2, **PRIVACY, design="full"), "documents", "topic-model"),
    (TopicModel(2, **PRIVACY, design="full", document_length=5), "documents", "topic-model"),
    (TopicModel(2, **PRIVACY, design="full", n_words=6), "documents", "topic-model"),
    (MixtureModel(2, **PRIVACY, noise_variance=0.01, design="full"), "rows", "mixture-model"),
    (PolynomialLoss("poisson", **PRIVACY), "response", "polynomial-loss"),
    (JointICA(2, **PRIVACY), "subjects", "joint-ica"),
    (JointICA(2, **PRIVACY, basis=np.eye(5, 2)), "subjects", "joint-ica"),
    (JointICA(2, **PRIVACY, basis=np.eye(5, 4), solver="infomax", **ROUNDS), "subjects", "infomax-joint-ica"),
    (JointICA(2, **PRIVACY, basis=np.eye(5, 4), maps=True), "subjects", "joint-ica-maps"),
    (JointICA(2, **PRIVACY, n_timepoints=12, insist=True), "people", "subject-joint-ica"),
    (JointICA(2, **PRIVACY, n_timepoints=12, insist=True, basis=np.eye(5, 2)), "people", "subject-joint-ica"),
    (
        JointICA(2, **PRIVACY, n_timepoints=12, insist=True, solver="infomax", **ROUNDS),
        "people",
        "subject-infomax-joint-ica",
    ),
]
NAMES = [f"{name}-{number}" for number, (*_, name) in enumerate(EXACT)]


@pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning")
@pytest.mark.parametrize(("estimator", "kind", "name"), EXACT, ids=NAMES)
def test_plan_is_what_fit_does_and_spends_nothing(estimator: Any, kind: str, name: str) -> None:
    fed = federation(kind)
    plan = fed.plan(estimator)
    assert not hasattr(estimator, "guarantee_")
    assert all(ledger.charges == [] for ledger in fed.kept.values())
    estimator.fit(fed)
    assert plan.scales == [release.scale for release in estimator.releases_]
    assert [step.plan.mus for step in plan.steps] == [release.mus for release in estimator.releases_]
    assert plan.guarantee.mu == estimator.guarantee_.mu
    assert {site: entry.epsilon for site, entry in plan.sites.items()} == {
        site: entry.epsilon for site, entry in estimator.guarantee_.sites.items()
    }
    assert plan.guarantee.took_part == ()
    assert plan.expected_error is not None
    assert plan.expected_error > 0
    del estimator.guarantee_


@pytest.mark.parametrize(("estimator", "kind", "name"), EXACT, ids=NAMES)
def test_planner_knows_the_releases_of_the_analysis(estimator: Any, kind: str, name: str) -> None:
    fed = federation(kind)
    asked = rehearsed(fed, estimator).each()
    parameters = estimator.get_params()
    options = {key: value for key, value in parameters.items() if key in variants()[name][1].options}
    if isinstance(parameters.get("basis"), tuple):
        each = [None if part is None else part.shape[1] for part in parameters["basis"]]
        options |= dict(zip(("n_x_basis", "n_y_basis"), each, strict=True))
    elif parameters.get("basis") is not None:
        options["n_basis"] = parameters["basis"].shape[1]
    setting = Setting(fed.sites, fed.protocol, **PRIVACY)
    planned = releases_of(name, fed.facts.widths, fed.facts.bounds, options, setting=setting)
    assert all(release.known == EXACT_SCALES for release in planned)
    assert planned[0].statistic.facts.owner_note == fed.facts.owner_note
    repeated = [release for release in planned for _ in range(release.times)]
    for (step, _), release in zip(asked, repeated, strict=True):
        mine, its = release.statistic, step.statistic
        assert (mine.name, mine.size, mine.diameter, mine.radius) == (its.name, its.size, its.diameter, its.radius)
        assert mine.sensitivity(1234) == its.sensitivity(1234)
        assert release.share == step.share


# The largest contribution to the last release is known when the first is: scales are relative to it.
WHITENED = [
    (MixtureModel(2, **PRIVACY, noise_variance=0.01, design="whitened"), "rows", "whitened-mixture-model"),
    (MixtureModel(3, **PRIVACY, noise_variance=0.0, design="whitened"), "rows", "whitened-mixture-model"),
    (TopicModel(2, **PRIVACY, design="whitened"), "documents", "whitened-topic-model"),
]


@pytest.mark.parametrize(("estimator", "kind", "name"), WHITENED, ids=["mixture", "noiseless", "topics"])
def test_scales_in_few_coordinates_are_relative(estimator: Any, kind: str, name: str) -> None:
    """Noise over the largest contribution is what the planner says, whatever the first result."""
    fed = federation(kind)
    outline = rehearsed(fed, estimator)
    steps = [(release.statistic, outline.scale(plan), plan) for release, plan in outline.each()]
    options = {key: value for key, value in estimator.get_params().items() if key in variants()[name][1].options}
    setting = Setting(fed.sites, fed.protocol, **PRIVACY)
    planned = releases_of(name, fed.facts.widths, fed.facts.bounds, options, setting=setting)
    found = plan_study(releases=planned, sizes=fed.sites, protocol=fed.protocol, **PRIVACY)
    n_more = len(steps) - 2
    assert [release.known for release in planned] == [EXACT_SCALES, RELATIVE] + [EXACT_SCALES] * bool(n_more)
    assert [entry.get("known") for entry in found["releases"]] == [None, RELATIVE] + [None] * bool(n_more)
    (first, scale, _), (second, other, plan) = steps[:2]
    assert scale == found["releases"][0]["aggregate_scale"]
    assert second.radius != pytest.approx(1.0)
    # On the grid, a contribution of length 1 is longer by a few steps of 2^-20, and one of any other length by as many.
    assert other / second.radius == pytest.approx(found["releases"][1]["aggregate_scale"], rel=1e-5)
    assert plan.mus["oslo"] == pytest.approx(found["releases"][1]["mu"], rel=1e-9)
    assert [first.released_size, second.released_size] == [release.statistic.released_size for release in planned[:2]]
    for _, later, _ in steps[2:]:
        assert later == found["releases"][2]["aggregate_scale"]
    assert "relative to the largest contribution" in str(fed.plan(estimator))


@pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning")
def test_noise_of_chosen_words_is_at_most_what_is_planned() -> None:
    fed = federation("documents")
    estimator = TopicModel(2, **PRIVACY, design="full", n_words=6, document_length=7)
    setting = Setting(fed.sites, fed.protocol, **PRIVACY)
    options = {"n_components": 2, "n_words": 6, "document_length": 7}
    planned = releases_of("topic-model", (8,), (1.0,), options, setting=setting)
    assert [release.known for release in planned] == [EXACT_SCALES, AT_MOST, AT_MOST]
    found = plan_study(releases=planned, sizes=fed.sites, protocol=fed.protocol, **PRIVACY)["releases"]
    scales = [release.scale for release in estimator.fit(fed).releases_]
    assert scales[0] == found[0]["aggregate_scale"]
    assert all(scale <= entry["aggregate_scale"] for scale, entry in zip(scales[1:], found[1:], strict=True))


def test_both_designs_are_named_where_the_first_result_chooses() -> None:
    plan = federation("rows").plan(MixtureModel(2, **PRIVACY, noise_variance=0.01))
    assert len(plan.steps) == 4
    assert {plan.steps[1].statistic.name, plan.steps[1].instead} == {"third_moment", "whitened_third_moment"}
    assert "whitened_third_moment or third_moment" in str(plan)
    assert "noise: " in str(plan)
    assert "expected error" not in str(plan)
    assert plan.guarantee.epsilon == pytest.approx(1.0, rel=1e-5)
    plt.close(plan.plot().figure)


def test_no_error_is_expected_of_as_many_components_as_noise_leaves() -> None:
    plan = federation("rows").plan(PCA("auto", **PRIVACY, center=False))
    assert plan.expected_error is None
    with pytest.raises(Failed, match="formula"):
        plan.smallest_epsilon(0.1)


def test_plot_and_page_card() -> None:
    fed = federation("rows")
    plan = fed.plan(PCA(2, **PRIVACY, center=False), declared=Declared(shape="geometric", decay=0.5))
    axes = plan.plot()
    names = [line.get_label() for line in axes.get_lines()]
    assert names[:4] == ["pooled data", "CAPE", "conventional", "largest site alone"]
    pooled, cape, conventional, alone = (np.array(line.get_ydata(), dtype=float) for line in axes.get_lines()[:4])
    assert (pooled <= cape).all()
    assert (cape <= conventional).all()
    assert (conventional <= alone * (1 + 1e-9)).all()
    plt.close(axes.figure)
    html = plan._repr_html_()
    assert "nothing spent" in html
    assert all(site in html for site in SIZES)
    least = plan.smallest_epsilon(0.01)
    assert least is not None
    assert fed.plan(
        PCA(2, epsilon=least, delta=1e-5, center=False), declared=plan.declared
    ).expected_error == pytest.approx(0.01, rel=1e-3)


def test_weights_and_unequal_epsilons_are_planned() -> None:
    weights = {"lima": 0.5, "lyon": 0.25, "oslo": 0.25}
    fed = federation("rows", weights=weights)
    plan = fed.plan(Mean(epsilon={"lima": 0.5, "lyon": 1.0, "oslo": 2.0}, delta=1e-5))
    assert plan.sites["lima"].epsilon <= 0.5
    assert plan.scales[0] > federation("rows").plan(Mean(**PRIVACY)).scales[0]
    plt.close(plan.plot().figure)


def test_only_analyses_are_planned() -> None:
    fed = Federation(in_process({"lyon": held("rows", 50)}), protocol=Independent())
    with pytest.raises(InvalidParameter, match="must be an analysis; got"):
        fed.plan("pca")


# The command.

USUAL = "--features 20 --records 9000 --sites 5 --colluding 1 --protocol cape --epsilon 1 --delta 1e-5 --json"


def run(*words: str) -> Any:
    return CliRunner().invoke(main, ["plan", *words])


@pytest.mark.parametrize("name", variants())
def test_command_plans_every_analysis(name: str) -> None:
    # Few features: the diameter of a loss is searched for among possible records.
    result = run("--analysis", name, *USUAL.replace("20", "6", 1).split())
    assert result.exit_code == 0, result.output
    plan = json.loads(result.stdout)
    assert plan["aggregate_scale"] > plan["pooled_scale"] > 0
    assert plan["assumptions"][0].startswith("a person appears at one site only")


def test_command_prints_a_line_for_each_release() -> None:
    words = ("--analysis", "whitened-mixture-model", *USUAL.replace("--json", "").split())
    printed = " ".join(run(*words).stdout.split())
    entries = json.loads(run(*words, "--json").stdout)["releases"]
    first, second, third = (f"aggregate scale {entry['aggregate_scale']:.6g}" for entry in entries)
    assert f"release 1 second moment: {first}; share 0.3 of mu^2" in printed
    assert f"mixture step, 2 times: {third}; share 0.25 of mu^2" in printed
    assert f"release 2 whitened third moment: {second}, relative to the largest contribution;" in printed
    assert "note The first result" in printed
    assert "{" not in printed


def test_rounds_cost_noise_not_privacy() -> None:
    few, many = (
        json.loads(run("--analysis", "kmeans", "--parameter", f"n_iter={rounds}", *USUAL.split()).stdout)
        for rounds in (4, 16)
    )
    assert few["n_releases"] == 4 + 2
    assert many["mu"] == pytest.approx(few["mu"], rel=1e-9)
    fewer, more = (plan["releases"][2]["aggregate_scale"] for plan in (few, many))
    assert more == pytest.approx(2 * fewer, rel=1e-6)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--analysis", "pca"), "Missing option '--features'."),
        (("--analysis", "kmeans", "--parameter", "n_iter", *USUAL.split()), "must be NAME=VALUE"),
        (("--analysis", "kmeans", "--parameter", "n_iter=0", *USUAL.split()), "n_iter must be"),
        (("--analysis", "kmeans", "--parameter", "speed=2", *USUAL.split()), "n_clusters, n_iter"),
        (("--analysis", "linear-regression", "--parameter", "fit_intercept=1", *USUAL.split()), "true or false"),
    ],
)
def test_command_refuses(words: tuple[str, ...], text: str) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert text in result.output


@pytest.mark.parametrize(
    ("words", "text"),
    [
        # What would be another study than the page's, or break its script.
        (("--protocol", "cape", "--cancelling-ratio", "1"), "--cancelling-ratio 100"),
        (("--parameter", 'n_components="<!--<script>"'), "n_components must be"),
        (("--analysis", "kmeans", "--parameter", "n_iter=1979-05-27"), "n_iter must be"),
        (("--analysis", "pca", "--parameter", "speed=3"), "one of n_components"),
    ],
)
def test_page_refuses(tmp_path: Any, words: tuple[str, ...], text: str) -> None:
    result = run("--html", str(tmp_path / "plan.html"), *words)
    assert result.exit_code == 2
    assert text in result.output
    assert not (tmp_path / "plan.html").exists()


def test_no_start_value_can_end_the_script(tmp_path: Any) -> None:
    write_planner(tmp_path / "plan.html", {"values": "<!--<script></script>"})
    text = (tmp_path / "plan.html").read_text(encoding="utf-8")
    assert text.count("<script>") == text.count("</script>") == 1
    assert "<!--" not in text


@pytest.mark.parametrize("bound", ["inf", "nan", "0", "1e300"])
def test_bounds_are_positive_numbers(bound: str) -> None:
    result = run("--analysis", "pca", *USUAL.split(), "--bound", bound)
    assert result.exit_code == 2
    assert "bound" in result.output


def test_page_is_written_without_numbers(tmp_path: Any) -> None:
    result = run("--html", str(tmp_path / "plan.html"))
    assert result.exit_code == 0, result.output
    text = (tmp_path / "plan.html").read_text(encoding="utf-8")
    assert "<title>Plan a private study" in text
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
