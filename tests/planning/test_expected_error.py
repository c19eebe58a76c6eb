"""Expected errors against simulation: the formulas must predict what noise does."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcape.analyses.registry import analyses
from dpcape.core.errors import InvalidParameter
from dpcape.core.facts import PublicFacts
from dpcape.planning.declared import Declared
from dpcape.planning.kept_energy import grouped, kept_energy
from dpcape.planning.measures import measure_of
from dpcape.postprocessing.tensor_power import power_method


def simulated(spectrum: np.ndarray, kept: int, scale: float, repeats: int) -> tuple[float, float]:
    """Mean and standard error of the share of energy kept under isotropic symmetric noise."""
    source, size, shares = np.random.default_rng(7), spectrum.size, []
    for _ in range(repeats):
        raw = source.standard_normal((size, size)) * scale
        vectors = np.linalg.eigh(np.diag(spectrum) + (raw + raw.T) / 2)[1][:, -kept:]
        shares.append(float(np.sum(vectors**2 * spectrum[:, None]) / spectrum[:kept].sum()))
    return float(np.mean(shares)), float(np.std(shares) / math.sqrt(repeats))


@pytest.mark.parametrize("scale", [1e-4, 1e-3, 1e-2, 0.05, 0.3])
@pytest.mark.parametrize(("shape", "decay"), [("power", 1.0), ("geometric", 0.7)])
@pytest.mark.parametrize(("size", "kept"), [(8, 2), (60, 5)])
def test_kept_energy_is_what_noise_leaves(size: int, kept: int, shape: str, decay: float, scale: float) -> None:
    spectrum = Declared(shape=shape, decay=decay).spectrum(size)
    mean, error = simulated(spectrum, kept, scale, 40)
    formula = kept_energy(spectrum, kept, scale)
    # Five standard errors, and what a large-matrix formula is off by at eight columns.
    assert abs(formula - mean) <= 5 * error + 0.03 * (1 - mean)
    # The test has teeth: noise a third larger or smaller is not mistaken for this.
    if 1e-3 <= scale <= 1e-2:
        for factor in (0.67, 1.5):
            assert abs(kept_energy(spectrum, kept, factor * scale) - mean) > 5 * error + 0.03 * (1 - mean)


def test_a_gap_is_second_order_perturbation() -> None:
    spectrum, scale = np.array([0.6, 0.2, 0.1, 0.0]), 1e-4
    pairs = sum(1 / (0.6 - other) for other in (0.2, 0.1, 0.0))
    assert 1 - kept_energy(spectrum, 1, scale) == pytest.approx(scale**2 / 2 * pairs / 0.6, rel=1e-4)


@settings(deadline=None)
@given(
    st.integers(2, 120),
    st.integers(1, 5),
    st.floats(0.1, 3.0),
    st.lists(st.floats(1e-6, 10.0), min_size=2, max_size=6).map(sorted),
)
def test_more_noise_never_keeps_more(size: int, kept: int, decay: float, scales: list[float]) -> None:
    spectrum = Declared(decay=decay).spectrum(size)
    kept = min(kept, size)
    shares = [kept_energy(spectrum, kept, scale) for scale in scales]
    assert all(later <= earlier + 1e-9 for earlier, later in itertools.pairwise(shares))
    least = kept * spectrum.mean() / spectrum[:kept].sum()
    assert all(least - 1e-12 <= share <= 1 for share in shares)


@settings(deadline=None)
@given(st.integers(1, 3000), st.integers(48, 100))
def test_groups_keep_number_and_energy(size: int, single: int) -> None:
    spectrum = Declared(decay=1.3).spectrum(size)
    values, counts = grouped(spectrum, single)
    assert counts.sum() == size
    assert float(counts @ values) == pytest.approx(spectrum.sum())


def facts(kind: str, width: int, **more: object) -> PublicFacts:
    return PublicFacts(kind=kind, unit="record", n_records=1, widths=(width,), bounds=(1.0,), **more)


@pytest.mark.parametrize("scale", [3e-4, 3e-3, 3e-2])
def test_regression_loss_is_what_shrunken_coefficients_lose(scale: float) -> None:
    """Solve noisy normal equations with the true prior variance, and count the explained variance that is lost."""
    declared, width = Declared(shape="geometric", decay=0.8, explained=0.6), 12
    measure = measure_of(analyses()["linear_regression"], facts("labelled", width, response=(0.0, 1.0)), {}, declared)
    assert measure is not None
    spectrum, source = declared.spectrum(width), np.random.default_rng(3)
    variance = 0.6 / 3
    prior, weight, losses = variance / spectrum.sum(), math.sqrt(0.5), []
    for _ in range(400):
        truth = source.standard_normal(width) * math.sqrt(prior)
        raw = source.standard_normal((width, width)) * scale
        # Noise on the moment acts on the true coefficients; noise on the cross moment is added.
        heights = spectrum * truth + (raw + raw.T) / 2 @ truth
        heights += source.standard_normal(width) * scale / (weight * math.sqrt(2))
        noise = scale**2 / 2 * (1 / weight**2 + prior * width)
        found = prior * spectrum * heights / (prior * spectrum**2 + noise)
        losses.append(float(spectrum @ (found - truth) ** 2) / variance)
    spread = float(np.std(losses)) / math.sqrt(len(losses))
    assert abs(measure.value([scale]) - np.mean(losses)) <= 5 * spread + 0.05 * np.mean(losses)


@pytest.mark.parametrize("kind", ["topics", "mixture"])
def test_noise_of_moments_is_that_of_the_models_own_decomposition(kind: str) -> None:
    """The second moment alone, then the third alone, as large as the other is small."""
    size, n_components, variance = 12, 3, 0.02
    declared = Declared(shape="geometric", decay=0.7, energy=0.8)
    options = {"n_components": n_components, "design": "full", "noise_variance": variance}
    name, own = ("topic_model", 0.0) if kind == "topics" else ("mixture_model", variance)
    measure = measure_of(analyses()[name], facts("documents" if kind == "topics" else "rows", size), options, declared)
    assert measure is not None
    assert not measure.is_error
    eigenvalues = declared.spectrum(size)[:n_components] - own
    source = np.random.default_rng(7)
    # The operator norm of isotropic symmetric noise is scale sqrt(2 D) for large D; a little less for a small one.
    noise = np.tril(source.standard_normal((200, size, size)), -1) / math.sqrt(2)
    noise += np.swapaxes(noise, 1, 2)
    noise[:, range(size), range(size)] = source.standard_normal((200, size))
    norm = float(np.linalg.norm(noise, 2, axis=(1, 2)).mean())
    assert measure.value([1e-3, 0.0]) == pytest.approx(1e-3 * norm / eigenvalues[-1], rel=0.2)
    # A symmetrised tensor in whitening coordinates, and the largest value that a power method finds in it.
    cube = source.standard_normal((20, size, size, size))
    symmetric = sum(np.transpose(cube, (0, *order)) for order in itertools.permutations((1, 2, 3))) / 6
    whitener = np.eye(size, n_components) / np.sqrt(eigenvalues)
    turned = np.einsum("nijk,ia,jb,kc->nabc", symmetric, whitener, whitener, whitener)
    largest = np.mean([power_method(tensor, 1)[0][0] for tensor in turned])
    third = measure.value([0.0, 1e-3])
    assert third == pytest.approx(1e-3 * largest / math.sqrt(n_components), rel=0.5)
    assert measure.value([1e-3, 1e-3]) == max(measure.value([1e-3, 0.0]), third)


def test_a_component_below_the_noise_of_its_columns_is_drowned() -> None:
    options = {"n_components": 3, "design": "whitened", "noise_variance": 0.5}
    measure = measure_of(analyses()["mixture_model"], facts("rows", 12), options, Declared())
    assert measure is not None
    assert measure.value([1e-9, 1e-9]) == math.inf


def test_centre_noise_is_that_of_sum_and_share() -> None:
    measure = measure_of(analyses()["kmeans"], facts("rows", 5), {"n_clusters": 4}, Declared())
    assert measure is not None
    source = np.random.default_rng(5)
    # A centre of full length: sums over shares, both noisy.
    centre, scale = np.eye(5)[0], 1e-3
    sums = centre / 4 + scale * source.standard_normal((20000, 5))
    shares = 0.25 + scale * source.standard_normal((20000, 1))
    distance = math.sqrt(float(np.mean(np.sum((sums / shares - centre) ** 2, axis=1))))
    assert measure.value([scale]) == pytest.approx(distance, rel=0.02)


def test_gradients_of_several_layers_have_as_much_noise_as_weights() -> None:
    options = {"n_hidden": (3, 2), "clip": 0.5}
    labels = facts("labelled", 5, classes=("no", "yes"))
    measure = measure_of(analyses()["network_classifier"], labels, options, Declared())
    assert measure is not None
    # 6 x 3 weights and biases, then 4 x 2 and 3 x 1.
    assert measure.value([1e-3]) == pytest.approx(1e-3 * math.sqrt(18 + 8 + 3) / 0.5)


@pytest.mark.parametrize(
    "declared",
    [
        Declared(shape="odd"),
        Declared(energy=0.0),
        Declared(energy=1.5),
        Declared(decay=0.0),
        Declared(shape="geometric", decay=1.5),
        Declared(values=(0.1, 0.2)),
        Declared(values=(0.9, 0.9)),
        Declared(values=(-0.1,)),
        Declared(values=(0.1,) * 9),
    ],
)
def test_spectra_that_cannot_be_are_refused(declared: Declared) -> None:
    with pytest.raises(InvalidParameter):
        declared.spectrum(8)
