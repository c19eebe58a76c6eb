"""Topics of documents that three newspapers cannot pool, and a mixture model of measurements of three clinics."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from dpcape import Cape, Federation, MixtureModel, Replay, TopicModel, documents, in_process, rows

WORDS = ["goal", "team", "match", "vote", "party", "law", "price", "bank", "trade", "year"]
TOPICS = np.array(
    [
        [0.3, 0.3, 0.2, 0.02, 0.02, 0.01, 0.02, 0.01, 0.02, 0.1],
        [0.01, 0.02, 0.02, 0.3, 0.3, 0.2, 0.01, 0.02, 0.02, 0.1],
        [0.01, 0.01, 0.02, 0.02, 0.02, 0.02, 0.3, 0.25, 0.25, 0.1],
    ]
)


def newspaper(rng, n_documents):
    """Documents of one topic each, of different lengths; the shortest are too short to count."""
    which = rng.choice(3, n_documents, p=[0.5, 0.3, 0.2])
    lengths = rng.poisson(12, n_documents)
    return csr_array(np.array([rng.multinomial(n, TOPICS[k]) for n, k in zip(lengths, which, strict=True)]))


def topics():
    rng = np.random.default_rng(0)
    held = {name: documents(newspaper(rng, 4000), feature_names=WORDS) for name in ("lyon", "oslo", "lima")}
    # Replay makes the example repeatable, and its result says that it protects nobody; leave it out in earnest.
    federation = Federation(in_process(held, noise=Replay(1)), protocol=Cape(n_colluding=1))
    model = TopicModel(3, epsilon=2.0, delta=1e-6).fit(federation)
    for weight, words in zip(model.weights_, model.top_words(3), strict=True):
        print(f"{weight:.0%}", ", ".join(f"{word} {share:.2f}" for word, share in words))
    print(model.guarantee_)


def mixture():
    rng = np.random.default_rng(1)
    means = np.array([[0.8, 0.1, 0.0], [-0.2, 0.7, 0.3]])
    held = {}
    for name in ("lyon", "oslo", "lima"):
        which = rng.choice(2, 4000, p=[0.7, 0.3])
        held[name] = rows(means[which] + 0.15 * rng.normal(size=(4000, 3)), bound=1.5)
    federation = Federation(in_process(held, noise=Replay(1)), protocol=Cape(n_colluding=1))
    # The variance of the measurement is public: it is in the instrument's data sheet, not in the records.
    model = MixtureModel(2, epsilon=2.0, delta=1e-6, noise_variance=0.15**2).fit(federation)
    print(model.means_.round(2), model.weights_.round(2))


if __name__ == "__main__":
    topics()
    mixture()
