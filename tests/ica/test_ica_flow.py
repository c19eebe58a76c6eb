"""JointICA from sites to maps, on small data; the figures at full size are in ``experiments/ica``."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.stats import chi2

from dpcape import Cape, Exact, Federation, Independent, JointICA, Replay, in_process, rows, subjects
from dpcape.analyses.description import Public
from dpcape.analyses.joint_ica import least_subjects
from dpcape.core.errors import InvalidParameter, UtilityWarning
from dpcape.core.privacy.gaussian import mu_of
from dpcape.datasets import simulated_fmri
from dpcape.metrics import gain_index, matched_correlations
from dpcape.statistics.fourth_moments import fourth_moment

K, SHAPE = 4, (8, 8)


def simulation(n_subjects=60, seed=1, kind="garch"):
    return simulated_fmri(
        np.random.default_rng(seed), n_subjects=n_subjects, n_components=K, shape=SHAPE, n_timepoints=120, kind=kind
    )


def federation(simulated, unit, protocol, seed=5, bound=5.0):
    held = {
        f"site{i}": subjects(
            simulated.arrays[i::4],
            bound=bound,
            unit=unit,
            rows_per_subject=max(map(len, simulated.arrays)),
            n_features=simulated.arrays[0].shape[1],
        )
        for i in range(4)
    }
    return Federation(in_process(held, noise=Replay(seed)), protocol=protocol)


@pytest.mark.parametrize("unit", ["record", "subject"])
@pytest.mark.parametrize("solver", ["moment", "infomax"])
@pytest.mark.parametrize("public", [True, False])
def test_exact_runs_find_the_maps(unit, solver, public):
    # Infomax needs very many rounds for sources of weak kurtosis; Laplace sources keep this test short.
    simulated = simulation(kind="laplace")
    basis = np.linalg.qr(simulated.mixing)[0] if public else None
    options = {
        "solver": solver,
        "basis": basis,
        "n_timepoints": 120,
        "n_iter": 400 if unit == "record" else 150,
        "learning_rate": 2.0,
    }
    model = JointICA(K, epsilon=1.0, delta=1e-5, **options).fit(federation(simulated, unit, Exact()))
    assert gain_index(model.unmixing_, simulated.mixing) < 0.06
    assert matched_correlations(model.mixing_, simulated.mixing).min() > 0.98
    np.testing.assert_allclose(model.unmixing_ @ model.mixing_, np.eye(K), atol=1e-8)
    assert model.transform(simulated.arrays[0]).shape == (120, K)


def test_private_runs_find_the_maps_and_say_what_is_protected():
    simulated = simulation(n_subjects=200)
    basis = np.linalg.qr(simulated.mixing)[0]
    model = JointICA(K, epsilon=4.0, delta=1e-5, basis=basis).fit(federation(simulated, "record", Cape(n_colluding=1)))
    assert gain_index(model.unmixing_, simulated.mixing) < 0.08
    sentence = model.guarantee_.sentence()
    assert "per record (a person owns many time points" in sentence
    by_subject = JointICA(K, epsilon=20.0, delta=1e-5, basis=basis, n_timepoints=120).fit(
        federation(simulated, "subject", Cape(n_colluding=1))
    )
    assert gain_index(by_subject.unmixing_, simulated.mixing) < 0.15
    assert "per subject, when one subject" in by_subject.guarantee_.sentence()
    assert by_subject.guarantee_.epsilon <= 20.0


@pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning")
@pytest.mark.parametrize("unit", ["record", "subject"])
def test_every_declared_round_is_paid_for_even_if_infomax_stops_early(unit):
    simulated = simulation(n_subjects=8)
    fed = federation(simulated, unit, Cape(n_colluding=1))
    options = {"basis": np.linalg.qr(simulated.mixing)[0], "n_timepoints": 120, "insist": True}
    short, full = (
        JointICA(K, epsilon=3.0, delta=1e-5, solver="infomax", n_iter=12, tol=tolerance, **options).fit(fed)
        for tolerance in (1e9, 0.0)
    )
    assert len(short.releases_) < len(full.releases_) == full.guarantee_.releases
    assert short.guarantee_.releases == full.guarantee_.releases
    assert short.guarantee_.epsilon == pytest.approx(full.guarantee_.epsilon, rel=1e-6)
    assert short.guarantee_.epsilon == pytest.approx(3.0, rel=1e-5)


def test_noise_on_the_tensor_has_the_scale_that_was_planned():
    """Chi-squared on 8,855 packed coordinates, alpha 1e-6; the same test must reject 0.9 and 1.1 times the scale."""
    generator = np.random.default_rng(0)
    held = {f"site{i}": subjects([generator.standard_normal((30, 20))], bound=5.0, unit="record") for i in range(4)}
    results = {}
    for name, protocol in (("noisy", Cape(n_colluding=1)), ("exact", Exact())):
        fed = Federation(in_process(held, noise=Replay(11)), protocol=protocol)
        private = fed.allow(1.0, 1e-5)
        results[name] = private.mean(fourth_moment(fed.facts, np.eye(20), clip=2.0))
        results[name + " scale"] = private.releases[-1].scale
    noise = (results["noisy"] - results["exact"]) / results["noisy scale"]
    low, high = chi2.ppf([0.5e-6, 1 - 0.5e-6], noise.size)

    def accepts(factor):
        return low < ((noise * factor) ** 2).sum() < high

    assert accepts(1.0)
    assert not accepts(0.9)
    assert not accepts(1.1)


def test_warnings_come_when_noise_must_win():
    simulated = simulation(n_subjects=12)
    model = JointICA(K, epsilon=0.1, delta=1e-5, n_timepoints=120, insist=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(federation(simulated, "subject", Cape(n_colluding=1)))
    texts = [str(entry.message) for entry in caught if entry.category is UtilityWarning]
    assert any("public sizes" in text for text in texts)
    assert any("private PCA" in text for text in texts)
    assert any("Do not interpret these maps" in text for text in texts)


def test_too_few_people_are_refused_before_anything_is_charged(monkeypatch):
    fed = federation(simulation(n_subjects=12), "subject", Cape(n_colluding=1))
    model = JointICA(K, epsilon=1.0, delta=1e-5, n_timepoints=120)
    monkeypatch.setattr(Federation, "allow", lambda *_, **__: pytest.fail("an allowance was asked for"))
    with pytest.raises(InvalidParameter, match=r"Subjects must number at least \d+ .* got 12.*insist=True"):
        model.fit(fed)


@pytest.mark.parametrize(
    ("n_components", "columns", "epsilon", "n_subjects", "found"),
    [
        # Measured: q_NGI .35 and .035, .12 and .03, .07 and .02; with a private PCA maps of .80 and .96, ABIDE .25.
        (5, 5, 1.0, 200, False),
        (5, 5, 1.0, 400, True),
        (10, 10, 1.0, 450, False),
        (10, 10, 1.0, 700, True),
        (20, 20, 1.0, 1024, False),
        (20, 20, 1.5, 1024, True),
        (20, 144, 1.0, 1024, False),
        (20, 144, 2.0, 1024, True),
        (5, 200, 2.0, 374, False),
    ],
)
def test_the_rule_divides_what_was_found_from_what_was_not(n_components, columns, epsilon, n_subjects, found):
    public = Public({"n_components": n_components, "n_features": columns, "n_basis": None, "mu": mu_of(epsilon, 1e-5)})
    assert (n_subjects >= least_subjects(public)) is found


def test_infomax_warns_when_its_rounds_are_too_noisy():
    simulated = simulation(n_subjects=40)
    basis = np.linalg.qr(simulated.mixing)[0]
    for unit in ("record", "subject"):
        for epsilon, expected in ((0.1, True), (200.0, False)):
            options = {"solver": "infomax", "n_iter": 4, "basis": basis, "n_timepoints": 120, "insist": True}
            model = JointICA(K, epsilon=epsilon, delta=1e-5, **options)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                model.fit(federation(simulated, unit, Cape(n_colluding=1)))
            assert any("infomax rounds" in str(entry.message) for entry in caught) is expected


def test_a_middling_result_is_warned_of_in_other_words():
    from dpcape.estimators.ica.self_check import ALL_CLEAR, value_of_noise
    from dpcape.estimators.ica.stages import _checked
    from dpcape.statistics.packing import layout, packed_size4

    n = 20
    tensor = np.zeros(packed_size4(n))
    tensor[layout(n).weights == 1.0] = 1.0
    value = 1 - 6 / (n + 4) + 3 * n / ((n + 2) * (n + 4))
    for target, text in ((1.0, "Do not interpret"), (1.2, "weaker components"), (ALL_CLEAR + 0.01, None)):
        scale = value / value_of_noise(n) / target
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert _checked(tensor, np.eye(n), scale) == pytest.approx(target)
        assert [text in str(entry.message) for entry in caught] == ([True] if text else [])


def test_constant_voxels_are_harmless():
    simulated = simulation()
    for array in simulated.arrays:
        array[:, :5] = 0.0
    for unit in ("record", "subject"):
        model = JointICA(K, epsilon=1.0, delta=1e-5, n_timepoints=120).fit(federation(simulated, unit, Exact()))
        assert np.isfinite(model.mixing_).all()
        np.testing.assert_allclose(model.mixing_[:5], 0.0, atol=1e-6)


def test_save_and_load(tmp_path):
    simulated = simulation(n_subjects=8)
    model = JointICA(K, epsilon=1.0, delta=1e-5, basis=np.linalg.qr(simulated.mixing)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)
        model.fit(federation(simulated, "record", Independent()))
    model.save(tmp_path / "ica.npz")
    again = JointICA.load(tmp_path / "ica.npz")
    np.testing.assert_array_equal(again.mixing_, model.mixing_)
    assert again.guarantee_ == model.guarantee_


def refusal(match, held, n_components=2, **options):
    def attempt():
        fed = Federation(in_process(held(), noise=Replay(0)), protocol=Independent())
        JointICA(n_components, epsilon=1.0, delta=1e-5, insist=True, **options).fit(fed)

    with warnings.catch_warnings():
        # So few subjects are also warned of, before a site refuses them.
        warnings.simplefilter("ignore", UtilityWarning)
        with pytest.raises(InvalidParameter, match=match):
            attempt()


def test_bad_input_is_refused_in_a_sentence():
    def series(*shapes):
        return [np.random.default_rng(i).standard_normal(shape) for i, shape in enumerate(shapes)]

    def one(unit, *shapes):
        return lambda: {
            "lyon": subjects(
                series(*shapes),
                bound=3.0,
                unit=unit,
                rows_per_subject=max(n for n, _ in shapes),
                n_features=5,
                invalid="refuse",
            )
        }

    refusal("at least 2 subjects; got 1", one("subject", (30, 5)))
    refusal("time points .*4 components; got .*3", one("subject", (3, 5), (3, 5)), 4)
    refusal("(?i)time points .*4 components; got 3", one("record", (3, 5)), 4)
    refusal("columns", one("subject", (30, 5), (30, 6)))
    refusal(
        "widths",
        lambda: {
            "lyon": subjects(series((30, 5)), bound=3.0, unit="record"),
            "oslo": subjects(series((30, 6)), bound=3.0, unit="record"),
        },
    )
    refusal(
        "feature_names",
        lambda: {
            name: subjects(series((30, 2)), bound=3.0, unit="record", feature_names=voxels)
            for name, voxels in (("lyon", ["v1", "v2"]), ("oslo", ["v1", "v3"]))
        },
    )
    good = one("record", (30, 5))
    refusal("solver must be one of", good, solver="fastica")
    refusal("kurtosis must be one of", good, kurtosis="any")
    refusal("n_components must be a whole number from 2 to 5", good, 6)
    refusal("n_components must be a whole number", good, 1)
    refusal("n_iter must be a whole number", good, n_iter=0)
    refusal("n_timepoints must be a whole number from 3", one("subject", (30, 5), (30, 5)), n_timepoints=2)
    refusal("basis must have orthonormal columns", good, basis=np.ones((5, 2)))
    refusal("basis must be .*5 rows", good, basis=np.eye(4))
    refusal("learning_rate must be", good, learning_rate=-1.0)
    fed = Federation(in_process(one("subject", (30, 5), (30, 5))()), protocol=Independent())
    with pytest.raises(InvalidParameter, match="epsilon must be"):
        JointICA(2, epsilon=0.0, delta=1e-5).fit(fed)
    with pytest.raises(InvalidParameter, match="Federation"):
        JointICA(2, epsilon=1.0, delta=1e-5).fit(rows(np.eye(3), bound=1.0))


def test_pictures_are_drawn():
    plt = pytest.importorskip("matplotlib.pyplot")
    from dpcape.datasets import autocorrelation
    from dpcape.report import map_plots

    simulated = simulation(n_subjects=1)
    true = simulated.mixing
    np.testing.assert_allclose(map_plots.matched_maps(-true[:, ::-1], true), true)
    axes = map_plots.plot_maps({"true": true, "again": true}, SHAPE, n_shown=3)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["true", "again"]
    assert axes.images[0].get_array().shape == (2 * (SHAPE[0] + 1), 3 * (SHAPE[1] + 1))
    courses = simulated.arrays[0][:, :4].astype(float)
    assert len(map_plots.plot_courses({"true": courses}).lines) == 4
    assert map_plots.plot_autocorrelations({"true": autocorrelation(courses, 5)}).get_xlabel() == "lag"
    axes = map_plots.plot_gain_index([1, 2], {"cape": [0.1, 0.2]}, reference=0.05)
    assert len(axes.lines) == 2
    plt.close("all")
