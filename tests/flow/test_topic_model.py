"""Topic models end to end, in process."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.stats import chi2
from sklearn.base import clone

from dpcape import Cape, Exact, Federation, Independent, Replay, TopicModel, documents, in_process, rows
from dpcape.core.errors import InvalidParameter, UtilityWarning
from dpcape.metrics import component_error, match_components
from dpcape.statistics.packing import pack, pack_tensor
from dpcape.statistics.word_moments import word_pairs, word_triples

Array = NDArray[np.float64]
DATA = Path(__file__).parents[2].parent / "shared" / "data" / "newsgroups20_bow.npz"
# Three topics over eight words, far from parallel.
TOPICS = np.array(
    [
        [0.4, 0.3, 0.1, 0.05, 0.05, 0.05, 0.03, 0.02],
        [0.02, 0.05, 0.4, 0.3, 0.1, 0.05, 0.05, 0.03],
        [0.05, 0.02, 0.03, 0.05, 0.1, 0.15, 0.3, 0.3],
    ]
)
WEIGHTS = np.array([0.5, 0.3, 0.2])
NAMES = ["ball", "goal", "star", "moon", "year", "time", "code", "file"]


def corpus(n_documents: int, seed: int, *, mean_length: float = 8.0) -> NDArray[np.int64]:
    rng = np.random.default_rng(seed)
    lengths = rng.poisson(mean_length, size=n_documents)
    which = rng.choice(3, n_documents, p=WEIGHTS)
    return np.array([rng.multinomial(n, TOPICS[k]) for n, k in zip(lengths, which, strict=True)])


def federation(counts: Any, *, seed: int = 1, protocol: Any = None, n_sites: int = 3) -> Federation:
    sites = {f"site{k}": documents(counts[k::n_sites], feature_names=NAMES) for k in range(n_sites)}
    return Federation(in_process(sites, noise=Replay(seed)), protocol=protocol or Cape(n_colluding=1))


@pytest.fixture(scope="module")
def counts() -> Any:
    return csr_array(corpus(30000, 0))


@pytest.mark.parametrize("design", ["full", "whitened"])
def test_without_noise_both_designs_find_the_truth(counts: Any, design: str) -> None:
    model = TopicModel(3, epsilon=1.0, delta=1e-6, design=design).fit(federation(counts, protocol=Exact()))
    order = match_components(model.topics_, TOPICS)
    # Sampling error of 30,000 documents; both designs see the same moments.
    np.testing.assert_allclose(model.topics_[order], TOPICS, atol=0.02)
    np.testing.assert_allclose(model.weights_[order], WEIGHTS, atol=0.03)
    assert model.design_ == design
    assert model.guarantee_.epsilon == np.inf


def test_a_private_fit_is_close_and_tells_what_it_did(counts: Any) -> None:
    model = TopicModel(3, epsilon=2.0, delta=1e-6).fit(federation(counts))
    assert component_error(model.topics_, TOPICS) < 0.06
    assert (model.topics_ >= 0).all()
    np.testing.assert_allclose(model.topics_.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(model.weights_.sum(), 1.0, atol=1e-12)
    assert (np.diff(model.weights_) <= 0).all()
    assert len(model.releases_) == model.guarantee_.releases == 2
    assert model.guarantee_.epsilon <= 2.0
    assert {name for name, _ in model.top_words(2)[0]} == {"ball", "goal"}


def test_more_epsilon_means_less_error(counts: Any) -> None:
    errors = []
    for epsilon in (0.05, 0.5, 50.0):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UtilityWarning)
            fits = [TopicModel(3, epsilon=epsilon, delta=1e-6).fit(federation(counts, seed=s)) for s in range(3)]
        errors.append(np.mean([component_error(fit.topics_, TOPICS) for fit in fits]))
    assert errors[0] > 2 * errors[1] > 2 * errors[2]


def test_cape_beats_conventional_beats_local(counts: Any) -> None:
    def mean_error(make: Any) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UtilityWarning)
            fits = [TopicModel(3, epsilon=0.3, delta=1e-6).fit(make(seed)) for seed in range(4)]
        return float(np.mean([component_error(fit.topics_, TOPICS) for fit in fits]))

    cape = mean_error(lambda seed: federation(counts, seed=seed, n_sites=5))
    conventional = mean_error(lambda seed: federation(counts, seed=seed, n_sites=5, protocol=Independent()))
    alone = mean_error(lambda seed: federation(counts[::5], seed=seed, n_sites=1, protocol=Independent()))
    assert cape < conventional < alone


def test_a_restricted_vocabulary_keeps_the_frequent_words(counts: Any) -> None:
    model = TopicModel(3, epsilon=5.0, delta=1e-6, n_words=5).fit(federation(counts))
    frequent = np.sort(np.argsort(-(WEIGHTS @ TOPICS))[:5])
    assert model.words_.tolist() == frequent.tolist()
    assert model.topics_.shape == (3, 8)
    assert (np.delete(model.topics_, model.words_, axis=1) == 0).all()
    assert len(model.releases_) == model.guarantee_.releases == 3
    assert model.releases_[0].statistic == "word_shares"


def test_a_stated_length_lowers_the_noise(counts: Any) -> None:
    plain = TopicModel(3, epsilon=1.0, delta=1e-6, design="full").fit(federation(counts))
    stated = TopicModel(3, epsilon=1.0, delta=1e-6, design="full", document_length=6).fit(federation(counts))
    ratios = [b.scale / a.scale for a, b in zip(plain.releases_, stated.releases_, strict=True)]
    np.testing.assert_allclose(ratios, [1 / np.sqrt(30), 1 / np.sqrt(120)], rtol=1e-6)
    assert component_error(stated.topics_, TOPICS) < 0.1


def test_posteriors_predictions_and_scores(counts: Any) -> None:
    model = TopicModel(3, epsilon=5.0, delta=1e-6).fit(federation(counts))
    order = match_components(model.topics_, TOPICS)
    fresh = [np.array([[9, 8, 1, 0, 0, 0, 0, 0]]), np.array([[0, 0, 9, 8, 1, 0, 0, 0]])]
    for topic, document in enumerate(fresh):
        posterior = model.transform(document)
        assert posterior.shape == (1, 3)
        assert posterior[0, order[topic]] > 0.99
        np.testing.assert_allclose(model.transform(csr_array(document)), posterior)
        assert model.predict(document)[0] == order[topic]
    np.testing.assert_allclose(model.transform(np.zeros((1, 8))), model.weights_[None], rtol=1e-9)
    shuffled = clone(model).fit(federation(counts))
    shuffled.topics_ = shuffled.topics_[:, ::-1]
    held_out = corpus(200, 9)
    assert model.score(held_out) > shuffled.score(held_out) + 0.15
    # No model beats the truth by more than chance.
    entropy = float(np.mean([-np.sum(topic * np.log(topic)) for topic in TOPICS]))
    assert model.score(held_out) < 0
    assert model.score(held_out) > -entropy - 1.0


def test_save_and_load(counts: Any, tmp_path: Path) -> None:
    model = TopicModel(3, epsilon=5.0, delta=1e-6, n_words=6).fit(federation(counts))
    model.save(tmp_path / "topics.npz")
    again = TopicModel.load(tmp_path / "topics.npz")
    for name in ("topics_", "weights_", "strengths_", "words_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    assert again.design_ == model.design_
    assert again.top_words(3) == model.top_words(3)
    assert again.get_params() == model.get_params()


def test_plots_return_axes(counts: Any) -> None:
    import matplotlib.pyplot as plt

    model = TopicModel(3, epsilon=5.0, delta=1e-6).fit(federation(counts))
    panels = model.plot_topics(4)
    assert panels[0].get_yticklabels()[0].get_text() in NAMES
    assert model.plot_strengths().get_ylabel() == "strength"
    plt.close("all")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"n_components": 9}, "n_components"),
        ({"n_components": 0}, "n_components"),
        ({"n_components": "auto"}, "n_components"),
        ({"n_words": 2}, "n_components"),
        ({"n_words": 9}, "n_words"),
        ({"n_words": 0}, "n_words"),
        ({"document_length": 2}, "document_length"),
        ({"document_length": 4.5}, "document_length"),
        ({"design": "narrow"}, "design"),
        ({"second_moment_share": 0.0}, "second_moment_share"),
        ({"second_moment_share": "half"}, "second_moment_share"),
    ],
    ids=str,
)
def test_bad_parameters_are_refused_before_anything_is_charged(changed: dict[str, Any], message: str) -> None:
    fed = federation(corpus(30, 0))
    options: dict[str, Any] = {"n_components": 3, "epsilon": 1.0, "delta": 1e-6, **changed}
    with pytest.raises(InvalidParameter, match=message):
        TopicModel(**options).fit(fed)


def test_other_records_and_bad_counts_are_refused() -> None:
    fed = Federation(in_process({"a": rows(np.eye(4), bound=1.0)}), protocol=Independent())
    with pytest.raises(InvalidParameter, match=r"Build them with documents\("):
        TopicModel(2, epsilon=1.0, delta=1e-6).fit(fed)
    with pytest.raises(InvalidParameter, match="counts"):
        documents(np.array([[1, -1, 3]]), invalid="refuse")
    model = TopicModel(3, epsilon=5.0, delta=1e-6).fit(federation(corpus(3000, 1), protocol=Exact()))
    with pytest.raises(InvalidParameter, match="negative"):
        model.transform(-np.ones((1, 8)))
    with pytest.raises(InvalidParameter, match="words"):
        model.score(np.ones((1, 7)))


def test_hopeless_noise_is_a_warning_and_gives_valid_topics() -> None:
    fed = federation(corpus(300, 2))
    with pytest.warns(UtilityWarning, match="second moment"):
        model = TopicModel(3, epsilon=0.1, delta=1e-6).fit(fed)
    assert np.isfinite(model.topics_).all()
    np.testing.assert_allclose(model.topics_.sum(axis=1), 1.0, atol=1e-12)


def test_fewer_topics_than_asked_for_is_a_warning_without_noise() -> None:
    rng = np.random.default_rng(4)
    counts = rng.multinomial(6, TOPICS[0], size=20000)
    with pytest.warns(UtilityWarning):
        # Sampling error keeps the second eigenvalue from zero; a moment of one topic has rank one all the same.
        model = TopicModel(8, epsilon=1.0, delta=1e-6).fit(federation(counts))
    assert np.isfinite(model.topics_).all()


@pytest.mark.parametrize(
    ("make", "pack_up", "n_words"), [(word_pairs, pack, 150), (word_triples, pack_tensor, 40)], ids=["pairs", "triples"]
)
def test_the_printed_scale_is_the_noise_that_is_there(make: Any, pack_up: Any, n_words: int) -> None:
    """Variance over 11,000 packed entries of one release, alpha = 1e-6; rejects scale x 0.9 and x 1.1."""
    counts = csr_array(np.random.default_rng(5).poisson(0.2, size=(600, n_words)))
    sites = {f"site{k}": documents(counts[k::3]) for k in range(3)}
    fed = Federation(in_process(sites, noise=Replay(3)), protocol=Cape(n_colluding=1))
    statistic = make(fed.facts, clip=1.0)
    private = fed.allow(1.0, 1e-6)
    released = private.mean(statistic)
    clean = Federation(in_process(sites), protocol=Exact()).allow(1.0, 1e-6).mean(statistic)
    noise = pack_up(released - clean) / private.releases[-1].scale
    low, high = chi2.ppf([5e-7, 1 - 5e-7], noise.size) / noise.size
    assert noise.size > 11000
    assert low <= np.mean(noise**2) <= high
    assert not low <= np.mean((0.9 * noise) ** 2) <= high
    assert not low <= np.mean((1.1 * noise) ** 2) <= high


def test_a_vocabulary_of_thousands_needs_no_cube() -> None:
    rng = np.random.default_rng(6)
    counts = csr_array(rng.poisson(0.01, size=(600, 1100)))
    sites = {f"site{k}": documents(counts[k::3]) for k in range(3)}
    fed = Federation(in_process(sites, noise=Replay(1)), protocol=Cape(n_colluding=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)
        model = TopicModel(4, epsilon=1.0, delta=1e-6).fit(fed)
    assert model.design_ == "whitened"
    assert model.topics_.shape == (4, 1100)
    # The largest thing released is the packed second moment.
    assert [release.statistic for release in model.releases_] == ["word_pairs", "whitened_word_triples"]


@pytest.mark.shared_data
@pytest.mark.skipif(not DATA.exists(), reason="the newsgroups are not beside the project")
def test_newsgroup_topics_at_epsilon_ten() -> None:
    with np.load(DATA) as stored:
        matrix = (stored["data"].astype(int), stored["indices"].astype(int), stored["indptr"])
        counts = csr_array(matrix, shape=tuple(stored["shape"]))
        names = [str(word) for word in stored["vocab"]]
    order = np.random.default_rng(0).permutation(counts.shape[0])
    sites = {
        f"site{k}": documents(counts[part], feature_names=names) for k, part in enumerate(np.array_split(order, 4))
    }
    fed = Federation(in_process(sites, noise=Replay(1)), protocol=Cape(n_colluding=1))
    model = TopicModel(8, epsilon=10.0, delta=1e-6, n_words=500, document_length=60).fit(fed)
    found = [{word for word, _ in topic} for topic in model.top_words(10)]
    for wanted in ({"god", "jesus"}, {"windows", "file"}, {"game", "team"}, {"drive", "scsi"}, {"key", "chip"}):
        assert any(wanted <= words for words in found), wanted
