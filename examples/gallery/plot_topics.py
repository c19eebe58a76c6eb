"""
Topics of three newspapers
==========================

Documents that three newspapers cannot pool; two releases give the topics.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpcape import Cape, Federation, Replay, TopicModel, documents, in_process

WORDS = ["goal", "team", "match", "vote", "party", "law", "price", "bank", "trade", "year"]
TOPICS = np.array(
    [
        [0.3, 0.3, 0.2, 0.02, 0.02, 0.01, 0.02, 0.01, 0.02, 0.1],
        [0.01, 0.02, 0.02, 0.3, 0.3, 0.2, 0.01, 0.02, 0.02, 0.1],
        [0.01, 0.01, 0.02, 0.02, 0.02, 0.02, 0.3, 0.25, 0.25, 0.1],
    ]
)
rng = np.random.default_rng(0)


def newspaper(n_documents):
    which = rng.choice(3, n_documents, p=[0.5, 0.3, 0.2])
    lengths = rng.poisson(12, n_documents)
    return np.array([rng.multinomial(length, TOPICS[k]) for length, k in zip(lengths, which, strict=True)])


held = {name: documents(newspaper(4000), feature_names=WORDS) for name in ("lima", "lyon", "oslo")}
federation = Federation(in_process(held, noise=Replay(1)), protocol=Cape(n_colluding=1))
model = TopicModel(3, epsilon=2.0, delta=1e-6).fit(federation)

# %%
# Found topics beside the truth.

fig, axes = plt.subplots(1, 2, figsize=(7.2, 3.2), sharey=True)
for ax, title, values in zip(axes, ("truth", "found, epsilon 2"), (TOPICS, model.topics_), strict=True):
    image = ax.imshow(values.T, cmap="viridis", vmin=0, vmax=0.35, aspect="auto")
    ax.set_title(title)
    ax.set_xticks(range(3), ["1", "2", "3"])
    ax.set_xlabel("topic")
axes[0].set_yticks(range(len(WORDS)), WORDS)
fig.colorbar(image, ax=axes, label="probability")
plt.show()

# %%
# Weights of the topics, and what they are made of.

for weight, words in zip(model.weights_, model.top_words(3), strict=True):
    print(f"{weight:.0%}", ", ".join(word for word, _ in words))
