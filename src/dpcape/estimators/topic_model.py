"""Single-topic model of documents from private moments (capeAGN: dissertation, algorithm 5.1, section 5.1.1)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse, sparray, spmatrix
from scipy.special import logsumexp

from dpcape.analyses.description import Analysis
from dpcape.analyses.moment_shares import LARGEST_FULL
from dpcape.analyses.topic_model import TOPIC_MODEL, pair_clip, share_clip, triple_clip
from dpcape.charts import Topics
from dpcape.core.arrays import FloatArray, IntArray
from dpcape.core.errors import InvalidParameter
from dpcape.core.statistic import AnyStatistic
from dpcape.estimators.estimator import effective_share
from dpcape.estimators.fitted import require_fitted
from dpcape.estimators.moment_decomposition import (
    Decomposition,
    decompose,
    strength_section,
    warn_if_drowned,
)
from dpcape.estimators.new_rows import check_names, finite_counts, finite_rows, names_of
from dpcape.estimators.reported import grid
from dpcape.estimators.scores import ScoringEstimator
from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation
from dpcape.postprocessing.eigen import inverted, noise_norm
from dpcape.postprocessing.tensor_power import (
    Coordinates,
    Whitening,
    bounded_coordinates,
    onto_simplex,
    tensor_noise_norm,
    whiten,
)
from dpcape.postprocessing.verdicts import numbered, of_parts
from dpcape.results import Estimates, Result, Section
from dpcape.statistics.packing import packed_tensor_size
from dpcape.statistics.word_moments import whitened_word_triples, word_pairs, word_shares, word_triples
from dpcape.tables import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes


WordCounts: TypeAlias = ArrayLike | sparray | spmatrix
"""Word counts, one row per document: an array, or a sparse array or matrix."""
# A document's tensor is clipped at this multiple of its expected norm for a document of the stated length.
_CLIP_FACTOR = 1.7
# Share of the uniform distribution mixed into topics before likelihoods are computed, because an estimated zero need
# not be zero.
_SMOOTHING = 0.01

# Probability with which noise alone may exceed the level that directions are compared with.
_FAILURE = 0.02
_FEWEST_WORDS = 3
_SHOWN_WORDS, _SHOWN_TOPICS = 8, 10


class TopicModel(ScoringEstimator):
    """Single-topic model of the documents of all sites.

    The expected pairs and triples of words in a document are sums over topics of powers of the topics' word
    probabilities. The tensor power method decomposes these sums. All words of a document of at least three words are
    used.

    Parameters
    ----------
    n_components : int
        Number of topics.
    epsilon : float or mapping
        Privacy parameter epsilon of the whole fit: one number for all sites, or one per site.
    delta : float or mapping
        Privacy parameter delta, for all sites or per site; far below one over the number of records.
    n_words : int or None
        Number of most frequent words to keep, found in a release of their own; the other words get probability zero.
        None keeps the whole vocabulary.
    document_length : int or None
        Public guess of the number of different words in a document. Shorter or more repetitive documents are scaled
        down, in exchange for far less noise. A wrong guess costs accuracy, never privacy. None scales nothing.
    design : str
        "full" releases the third moment of words, "whitened" that of word coordinates along the private second moment;
        "auto" chooses the one with less noise, judging from the earlier releases.
    second_moment_share : float or "auto"
        Share of mu^2 (after finding words) for the second moment; the papers use half.

    Attributes
    ----------
    topics_ : array of shape (n_components, n_features)
        Word probabilities, one topic per row; largest weight first.
    weights_ : array of shape (n_components,)
        Topic weights, which add up to one: shares of the documents, or of the scaled documents.
    strengths_ : array of shape (n_components,)
        Eigenvalues of the whitened third moment, in the order of ``topics_``.
    noise_level_ : float
        Strength that noise alone would have.
    eigenvalues_ : array of shape (n_components,)
        Eigenvalues of the released second moment.
    words_ : array of int
        Positions of the words that were kept.
    design_ : str
        Design that was used, "full" or "whitened".

    Privacy
    -------
    Two releases, three with ``n_words``: word shares, pairs, triples (diameters sqrt(2) r, r the public
    clip, 1 unless ``document_length`` is given), or triples in coordinates (diameter 2 r); proofs in
    ``statistics.word_moments``. One document is protected; a person with k documents is protected
    with k times the mu.

    Edge cases
    ----------
    =======================================  ====================================================
    document of fewer than three words       contributes zero; still counted in N
    fewer than three of the kept words       the same
    more topics than words                   refused before any charge
    indefinite or rank-deficient moment      floored at the noise, with a UtilityWarning
    negative or fractional counts            refused by ``documents``
    vocabulary of thousands                  whitened: no array of size D x D x D is formed
    =======================================  ====================================================

    References
    ----------
    H. Imtiaz, dissertation 2020, chapter 5; A. Anandkumar et al., *Tensor decompositions for learning latent
    variable models*, 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcape import Federation, Independent, Replay, TopicModel, documents, in_process
    >>> rng = np.random.default_rng(0)
    >>> truth = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]])
    >>> counts = np.vstack([rng.multinomial(9, topic, size=5000) for topic in truth])
    >>> fed = Federation(in_process({"lyon": documents(counts)}, noise=Replay(1)), protocol=Independent())
    >>> sorted(TopicModel(2, epsilon=5.0, delta=1e-6).fit(fed).topics_[:, 2].round(1).tolist())
    [0.1, 0.8]
    """

    analysis: ClassVar[Analysis | None] = TOPIC_MODEL
    _score, _per_score = "topic", "weights_"
    _builder: ClassVar[str] = "documents(counts)"
    _fitted: ClassVar[tuple[str, ...]] = (
        "topics_",
        "weights_",
        "strengths_",
        "noise_level_",
        "eigenvalues_",
        "words_",
        "design_",
    )

    def __init__(
        self,
        n_components: int,
        *,
        epsilon: float | Mapping[str, float],
        delta: float | Mapping[str, float],
        n_words: int | None = None,
        document_length: int | None = None,
        design: str = "auto",
        second_moment_share: float | str = "auto",
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.n_words = n_words
        self.document_length = document_length
        self.design = design
        self.second_moment_share = second_moment_share

    def _fit(self, federation: Federation, private: Allowance) -> None:
        self.words_, length = self._chosen_words(federation, private)
        moment = private.mean(word_pairs(federation.facts, clip=pair_clip(length), words=self.words_))
        whitening = whiten(moment, self.n_components, scale=private.releases[-1].scale)
        self.design_, statistic, coordinates = self._third(federation, moment, whitening, length)
        decomposition = decompose(private.mean(statistic), coordinates, scale=private.releases[-1].scale)
        warn_if_drowned(whitening, decomposition)
        self.eigenvalues_, self.noise_level_ = whitening.eigenvalues, decomposition.noise_level
        self._set_topics(decomposition, federation.n_features)
        pairs = private.releases[-2]
        sampling = pair_sampling_norm(moment, length, effective_share(federation, pairs.survivors))
        floor = noise_norm(pairs.scale, self.words_.size, _FAILURE) + sampling
        names = numbered("topic", self.n_components)
        self.verdicts_ = of_parts(names, self.strengths_, self.noise_level_, eigenvalues=self.eigenvalues_, floor=floor)

    def _chosen_words(self, federation: Federation, private: Allowance) -> tuple[IntArray, int | None]:
        """Return the words to keep, and a guess of how many of them a document contains."""
        length = self.document_length
        if self.n_words is None:
            return np.arange(federation.n_features, dtype=np.int64), length
        shares = private.mean(word_shares(federation.facts, clip=share_clip(length)))
        words = np.sort(np.argsort(-shares, kind="stable")[: self.n_words]).astype(np.int64)
        if length is None:
            return words, None
        positive = np.maximum(shares, 0.0)
        share_kept = float(positive[words].sum() / max(positive.sum(), 1e-300))
        return words, max(3, round(length * share_kept))

    def _third(
        self, federation: Federation, moment: FloatArray, whitening: Whitening, length: int | None
    ) -> tuple[str, AnyStatistic, Coordinates]:
        """Return the design, its statistic and its coordinates; "auto" chooses the less noisy one."""
        n_words = self.words_.size
        bounded = bounded_coordinates(whitening)
        few = whitened_word_triples(
            federation.facts, bounded.forward, clip=_coordinate_clip(bounded, moment, length), words=self.words_
        )
        too_large = packed_tensor_size(n_words) > LARGEST_FULL
        if self.design == "whitened" or (self.design == "auto" and too_large):
            return "whitened", few, bounded
        full = word_triples(federation.facts, clip=triple_clip(length), words=self.words_)
        plain = Coordinates(np.eye(n_words), whitening.forward, whitening.backward)
        noise_full = tensor_noise_norm(full.diameter, whitening.forward)
        if self.design == "full" or noise_full <= tensor_noise_norm(few.diameter, bounded.inner):
            return "full", full, plain
        return "whitened", few, bounded

    def _set_topics(self, decomposition: Decomposition, n_features: int) -> None:
        # Rows are sqrt(w_k) a_k up to sign, and a_k adds up to one: their sums give both. Where noise cancels
        # the sum, the positive part bounds the scale.
        sums = decomposition.halves.sum(axis=1)
        upright = decomposition.halves * np.where(sums < 0, -1.0, 1.0)[:, None]
        scales = np.maximum(np.abs(sums), 0.5 * np.maximum(upright, 0.0).sum(axis=1))
        scales = np.maximum(scales, 1e-150)
        order = np.argsort(-scales, kind="stable")
        self.topics_ = np.zeros((len(scales), n_features))
        self.topics_[:, self.words_] = onto_simplex(upright / scales[:, None])[order]
        self.weights_ = (scales**2 / np.sum(scales**2))[order]
        self.strengths_ = decomposition.strengths[order]

    def transform(self, counts: WordCounts) -> FloatArray:
        """Return the probability of each topic given each document, (documents, n_components)."""
        joint = self._log_joint(self._checked_counts(counts))
        return np.exp(joint - logsumexp(joint, axis=1, keepdims=True))

    def predict(self, counts: WordCounts) -> NDArray[np.intp]:
        """Return the most probable topic of each document."""
        labels: NDArray[np.intp] = np.argmax(self._log_joint(self._checked_counts(counts)), axis=1)
        return labels

    def score(self, counts: WordCounts, y: None = None) -> float:
        """Return the log-likelihood per word. For private documents this number is not protected."""
        checked = self._checked_counts(counts)
        n_words = float(checked.sum())
        total = float(logsumexp(self._log_joint(checked), axis=1).sum())
        return total / max(n_words, 1.0)

    def _log_joint(self, counts: WordCounts) -> FloatArray:
        smooth = (1 - _SMOOTHING) * self.topics_ + _SMOOTHING / self.topics_.shape[1]
        joint: FloatArray = np.asarray(counts @ np.log(smooth).T) + np.log(np.maximum(self.weights_, 1e-300))
        return joint

    def _checked_counts(self, counts: WordCounts) -> FloatArray | csr_array:
        require_fitted(self)
        remedy = "Pass one row per document with the count of each word."
        checked = finite_counts(counts, "counts", remedy) if issparse(counts) else finite_rows(counts, "counts", remedy)
        if checked.shape[1] != self.topics_.shape[1]:
            must = f"have one column for each of the model's {self.topics_.shape[1]} words"
            raise InvalidParameter("counts", must, checked.shape[1], "Use the sites' vocabulary.")
        check_names(names_of(counts), list(getattr(self, "feature_names_in_", [])), subject="counts")
        sparse = csr_array(checked)
        if not bool((sparse.data >= 0).all()):
            raise InvalidParameter("counts", "be nonnegative", "a negative entry", "Pass the count of each word.")
        return sparse if issparse(checked) else checked

    def top_words(self, n_words: int = 10) -> list[list[tuple[str, float]]]:
        """Return the most probable words of each topic, with their probabilities."""
        require_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        result = []
        for topic in self.topics_:
            best = np.argsort(-topic, kind="stable")[:n_words]
            result.append([(str(word if names is None else names[word]), float(topic[word])) for word in best])
        return result

    def _result(self) -> Result:
        weights = Estimates(
            quantity="weight of the component",
            estimand="share of the topic among documents of at least three words"
            + (", of documents scaled down to the stated length" if self.document_length else ""),
            names=numbered("component", len(self.weights_)),
            value=self.weights_,
        )
        names, shown = self._names(self.topics_.shape[1]), self.top_words(_SHOWN_WORDS)[:_SHOWN_TOPICS]
        by_number = not hasattr(self, "feature_names_in_")
        if by_number:
            # Positions count from 0; reports number columns without names from 1.
            shown = [[(str(int(at) + 1), share) for at, share in topic] for topic in shown]
        rows = [
            [str(number), f"{100 * weight:.1f}%", ", ".join(word for word, _ in topic)]
            for number, (weight, topic) in enumerate(zip(self.weights_, shown, strict=False), start=1)
        ]
        chart = Topics(
            words=shown,
            weights=self.weights_,
            alt=f"Bars of the {_SHOWN_WORDS} most probable words of each of {len(shown)} topics.",
            caption="The most probable words of each topic; its weight is in brackets.",
        )
        estimand = "probability of the word at any place of a document on the topic"
        if self.n_words is not None:
            estimand += ", among the words that were kept; 0 for the others"
        topics = Section(
            title="Topics",
            estimates=(weights, grid("probability of the word", estimand, self.topics_, names, "topic")),
            tables=(Table(["topic", "share", f"words{', by number' if by_number else ''}"], rows, are_words=True),),
            charts=(chart,),
        )
        model = "every document is on one topic, and its words are drawn from it independently"
        return Result((topics, strength_section(self.strengths_, self.noise_level_, self.weights_)), (model,))

    def plot_topics(self, n_words: int = 8, axes: Sequence[Axes] | None = None) -> NDArray[np.object_]:
        """Draw the most probable words of each topic."""
        from dpcape.report.component_plots import top_words

        return top_words(self.top_words(n_words), self.weights_, axes)

    def plot_strengths(self, ax: Axes | None = None) -> Axes:
        """Draw the strengths of the topics and the noise level."""
        from dpcape.report.drawing import draw

        require_fitted(self)
        return draw(strength_section(self.strengths_, self.noise_level_, self.weights_).charts[0], ax)


def pair_sampling_norm(moment: FloatArray, length: int | None, record_share: float) -> float:
    """Return what sampling adds at most to an eigenvalue of the pair moment of documents without topics.

    Entry (i, j) of a document with L words has variance of about 2 p_i p_j / (L (L - 1)), where p are the shares of
    the words. The norm of a symmetric matrix of independent entries is about twice the root of its largest row sum of
    variances; half as much again covers its fluctuation. Without a public length, documents have three words at least.

    Parameters
    ----------
    moment : array of shape (V, V)
        Released pair moment.
    length : int or None
        Words per document, if public.
    record_share : float
        One over the effective number of documents.
    """
    words = max(length or _FEWEST_WORDS, _FEWEST_WORDS)
    shares = np.maximum(moment.sum(axis=1), 0.0)
    largest = float(shares.max() * shares.sum())
    return 1.5 * 2 * math.sqrt(2 * largest / (words * (words - 1)) * record_share)


def _coordinate_clip(coordinates: Coordinates, moment: FloatArray, length: int | None) -> float:
    """Return the clip radius of a document's tensor in coordinates R, from public numbers.

    A document's tensor is an average of products of three rows of R, so the cube of the largest row norm clips nothing.
    For longer documents a much smaller radius suffices: the squared norm is an average, over two choices of three
    positions, of products of inner products, where a repeated position gives |R_i|^2 and two different positions give
    R_i . R_j, on average tr(R'M2 R).
    """
    rows = np.sum(coordinates.forward**2, axis=1)
    most = math.pow(float(np.max(rows)), 1.5) * (1 + 1e-9)
    if length is None:
        return most
    shares = np.maximum(moment.sum(axis=1), 0.0)
    same = float(shares @ rows) / max(float(shares.sum()), 1e-300)
    different = float(np.sum(inverted(coordinates.inner) ** 2))
    choices = length * (length - 1) * (length - 2)
    met = np.array([0, 3 * (length**2 - 5 * length + 7), 3 * (length - 3), 1]) / choices
    met[0] = 1 - met.sum()
    powers = np.arange(4)
    expected = float(np.sum(met * same**powers * different ** (3 - powers)))
    return min(most, _CLIP_FACTOR * math.sqrt(expected)) if expected > 0 else most
