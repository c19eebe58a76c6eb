// What each analysis releases, from public numbers: dpcape.planning.analyses, .moment_releases and .ica_releases.

const packedSize = (n) => n * (n + 1) / 2;
const packedTensorSize = (n) => n * (n + 1) * (n + 2) / 6;
const fourthSize = (n) => n * (n + 1) * (n + 2) * (n + 3) / 24;
const sum = (list) => list.reduce((total, value) => total + value, 0);
const UNIT_ROUNDOFF = 2 ** -53;

// size, diameter, radius, and how far floating point may be off, as each statistic in dpcape.statistics proves.
function statistic(name, { size, diameter, radius, depth, factor = 1, block = CONSTANTS.block_rows }) {
  const rounding = (n) => factor * 2 * (block + Math.ceil(n / block) + 4 * (depth + 64)) * UNIT_ROUNDOFF * n * radius;
  return { name, size, diameter, radius, rounding, sensitivity: (n) => diameter + 2 * rounding(n) };
}

// Subjects are added one after the other.
function ofSubjects(name, { size, radius, diameter = 2 * radius, more = 0, factor = 1 }) {
  const rounding = (n) => 2 * (n + more + 64) * UNIT_ROUNDOFF * n * radius * factor;
  return { name, size, diameter, radius, rounding, sensitivity: (n) => diameter + 2 * rounding(n) };
}

const release = (entry, share = 1, times = 1, known = "exact") => ({ statistic: entry, share, times, known });

const moment = (width, bound) => statistic("second_moment",
  { size: packedSize(width), diameter: Math.SQRT2 * bound ** 2, radius: bound ** 2, depth: width });

const centred = (width, bound) => statistic("centred_moments", {
  size: width + packedSize(width), diameter: (0.25 + 2) / Math.SQRT2 * bound ** 2,
  radius: Math.sqrt(1.25) * bound ** 2, depth: width,
});

function regression(width, bound, intercept) {
  const b = intercept ? bound / 2 : 0;
  const reach = Math.hypot(bound, bound * Math.sqrt(0.5));
  return statistic("regression_moment", {
    size: packedSize(width + 1 + (intercept ? 1 : 0)), diameter: Math.SQRT2 * (reach ** 2 + b ** 2),
    radius: reach ** 2 + b ** 2, depth: width,
  });
}

function requireWhole(name, value, least, most) {
  if (value < least || value > most) {
    throw new Refused(`${name} must be a whole number from ${least} to ${most} here; got ${value}.`);
  }
}

// Topics and mixtures -------------------------------------------------------------------------------------------------

function momentShare(width, components) {
  requireWhole("n_components", components, 1, width);
  const each = width / components;
  return each < 4 ? 0.45 : each < 20 ? 0.6 : 0.75;
}

function optionalWhole(name, value, least, most) {
  if (value !== null && (value < least || value > most)) {
    throw new Refused(`${name} must be None or a whole number from ${least} to ${most}; got ${value}.`);
  }
}

// Clip radii of pairs and triples, for a document of so many different words.
const pairClip = (length) => length === null ? 1 : 1 / Math.sqrt(length * (length - 1));
const tripleClip = (length) => length === null ? 1 : 1 / Math.sqrt(length * (length - 1) * (length - 2));

function ofWords(name, vocabulary, size, clip) {
  const radius = Math.min(clip, 1);
  return statistic(name, { size, diameter: Math.SQRT2 * radius, radius, depth: vocabulary, factor: 10 });
}

function whitenedWords(vocabulary, components) {
  const size = packedTensorSize(components);
  const block = Math.max(1, Math.min(CONSTANTS.block_rows, Math.floor(2 ** 22 / size)));
  return statistic("whitened_word_triples", { size, diameter: 2, radius: 1, depth: vocabulary + size / 4, block });
}

function topicReleases(vocabulary, { n_components, n_words, document_length }, whole) {
  optionalWhole("n_words", n_words, 1, vocabulary);
  optionalWhole("document_length", document_length, 3, 1e6);
  const width = n_words === null ? vocabulary : n_words;
  const share = momentShare(width, n_components);
  // How many words of a document are left is known when the words are found; radii are largest for the fewest.
  const bounded = n_words !== null && document_length !== null && document_length !== 3;
  const [length, known] = bounded ? [3, "at most"] : [document_length, "exact"];
  if (whole && packedTensorSize(width) > CONSTANTS.largest_tensor) {
    throw new Refused(
      `a third moment released whole must have at most ${CONSTANTS.largest_tensor} entries; got ` +
      `${packedTensorSize(width)} for ${width} words. Use design='whitened', or fewer words.`);
  }
  const left = n_words === null ? 1 : 1 - CONSTANTS.word_share;
  const triples = whole ? ofWords("word_triples", vocabulary, packedTensorSize(width), tripleClip(length))
    : whitenedWords(vocabulary, n_components);
  const found = [
    release(ofWords("word_pairs", vocabulary, packedSize(width), pairClip(length)), left * share, 1, known),
    release(triples, left * (1 - share), 1, whole ? known : "relative"),
  ];
  if (n_words === null) return found;
  const clip = document_length === null ? 1 : document_length ** -0.5;
  return [release(ofWords("word_shares", vocabulary, vocabulary, clip), CONSTANTS.word_share), ...found];
}

// The largest length of x x x - v 3 Sym(x I) over |x| <= bound (statistics.third_moments).
function longestThird(bound, width, variance) {
  const linear = 3 * width * variance ** 2 + 6 * variance ** 2;
  const spread = 4 * variance ** 2 - linear / 3;
  const inner = spread < 0 ? [] : [2 * variance - Math.sqrt(spread), 2 * variance + Math.sqrt(spread)];
  const lengths = [bound ** 2, ...inner.map((root) => Math.min(Math.max(root, 0), bound ** 2))];
  return Math.sqrt(Math.max(0, ...lengths.map((q) => q ** 3 - 6 * variance * q ** 2 + linear * q)));
}

function wholeThird(width, bound, variance) {
  const radius = longestThird(bound, width, variance);
  const factor = (bound ** 3 + variance * Math.sqrt(3 * (width + 2)) * bound) / radius;
  return statistic("third_moment", { size: packedTensorSize(width), diameter: 2 * radius, radius, depth: width, factor });
}

function whitenedThird(width, components) {
  const radius = 1 + 1e-9;
  return statistic("whitened_third_moment",
    { size: packedTensorSize(components), diameter: 2 * radius, radius, depth: width, factor: (2 + radius) / radius });
}

function mixtureReleases(width, bound, { n_components, noise_variance }, whole) {
  const share = momentShare(width, n_components);
  const third = whole ? wholeThird(width, bound, noise_variance) : whitenedThird(width, n_components);
  return [release(moment(width, bound), share), release(third, 1 - share, 1, whole ? "exact" : "relative")];
}

// Joint ICA -----------------------------------------------------------------------------------------------------------

function checkSeries(study, subjects) {
  const { n_components: n, n_basis, n_timepoints, n_iter } = study.options;
  const width = sum(study.widths);
  const total = sum(study.sizes);
  requireWhole("n_components", n, 2, width);
  if (n_basis !== null) requireWhole("n_basis", n_basis, n, width);
  if (n_timepoints !== undefined) requireWhole("n_timepoints", n_timepoints, n + 1, 1e9);
  if (n_iter !== undefined) requireWhole("n_iter", n_iter, 1, 1e6);
  if (subjects && total < 2) {
    throw new Refused("subjects must be at least two to hide one among others; got one. Use more subjects.");
  }
  if (!subjects && total <= n) {
    throw new Refused(`time points must be more than the ${n} components; got ${total}. Ask for fewer components.`);
  }
  return { n, width, columns: n_basis === null ? width : n_basis };
}

const reducedMoment = (width, columns, clip) => statistic("reduced_second_moment",
  { size: packedSize(columns), diameter: Math.SQRT2 * clip ** 2, radius: clip ** 2, depth: width });

const fourthClip = (n) => 0.8 * Math.sqrt(n);
const infomaxReach = (n) => Math.hypot(0.4 * n, 0.5 * Math.sqrt(n));
const subjectReach = ({ n_components, n_timepoints }) => n_components / Math.sqrt(n_timepoints);

// Unit "record": shares are those of dpcape.postprocessing.ica_budget.record_shares.
function recordSeries(study, bound, infomax) {
  const { n, width, columns } = checkSeries(study, false);
  const reduces = columns > n;
  const times = infomax ? study.options.n_iter : 1;
  const [first, white] = reduces ? [0.3, 0.1] : [0.15, 0];
  const last = infomax
    ? statistic("infomax_scores", { size: n * (n + 1), diameter: 2 * infomaxReach(n), radius: infomaxReach(n), depth: width,
      factor: 2.3 * CONSTANTS.most_condition })
    : statistic("fourth_moment", { size: fourthSize(n), diameter: Math.SQRT2 * fourthClip(n) ** 4,
      radius: fourthClip(n) ** 4, depth: width });
  const plain = study.options.n_basis === null && reduces;
  return [
    release(plain ? moment(width, bound) : reducedMoment(width, columns, bound), first),
    ...(reduces ? [release(reducedMoment(width, n, Math.sqrt(n)), white)] : []),
    release(last, (1 - first - white) / times, times),
  ];
}

// Unit "subject": shares are those of dpcape.postprocessing.ica_budget.subject_shares and subject_infomax_shares.
function subjectSeries(study, infomax) {
  const { n, columns } = checkSeries(study, true);
  const reduces = columns > n;
  const left = reduces ? 1 - 0.22 : 1;
  const strength = sum(study.sizes) * muOf(study.epsilon, study.delta) * Math.sqrt(left);
  const tensor = strength < 330 ? 0.6 : strength < 600 ? 0.5 : 0.35;
  const before = beforeRotation(study, { n, columns, reduces, left, count: infomax ? 3 + reduces + study.options.n_iter : 8 + reduces });
  if (infomax) {
    const { n_iter } = study.options;
    const scores = ofSubjects("subject_infomax", { size: n * (n + 1), radius: subjectReach(study.options) });
    return [...before, release(scores, (1 - 0.05 - 0.1) / n_iter * left, n_iter)];
  }
  return [
    ...before,
    release(ofSubjects("subject_tensor", { size: fourthSize(n), radius: 1 }), tensor * left),
    release(ofSubjects("subject_polish", { size: packedSize(n), radius: 1 }), (1 - 0.05 - 0.1 - tensor) / 4 * left, 4),
  ];
}

// Clip radii of covariances follow from the noise of the release before.
function beforeRotation(study, { n, columns, reduces, left, count }) {
  const found = reduces ? [release(ofSubjects("subject_projector", { size: packedSize(columns), radius: Math.sqrt(n),
    diameter: Math.sqrt(2 * n), more: n, factor: Math.sqrt(n) }), 0.22)] : [];
  found.push(release(ofSubjects("subject_log_covariance", { size: packedSize(n), radius: 3 }), 0.05 * left));
  for (const residual of [0.3 * 3, 0]) {
    const scale = Math.hypot(...planRelease(study, found[found.length - 1], count).own) / sum(study.sizes);
    const clip = 1.2 * Math.sqrt(n * (n + 3) / study.options.n_timepoints + scale ** 2 * n * (n + 1) / 2 + residual ** 2);
    found.push(release(ofSubjects("subject_covariance", { size: packedSize(n), radius: clip }), 0.05 * left));
  }
  return found;
}

// Poisson regression --------------------------------------------------------------------------------------------------

// The polynomial that meets exp at the Chebyshev points of [-reach, reach], degree 4 (statistics.poisson_loss).
function exponentialPolynomial(reach) {
  const points = Array.from({ length: 5 }, (_, k) => reach * Math.cos(Math.PI * (k + 0.5) / 5));
  // Newton's divided differences, then multiplied out.
  const table = points.map(Math.exp);
  for (let order = 1; order < 5; order++) {
    for (let k = 4; k >= order; k--) table[k] = (table[k] - table[k - 1]) / (points[k] - points[k - order]);
  }
  let found = [table[4]];
  for (let k = 3; k >= 0; k--) {
    const raised = [0, ...found];
    found.forEach((value, power) => { raised[power] -= points[k] * value; });
    raised[0] += table[k];
    found = raised;
  }
  return found;
}

function poissonLoss(width, bound) {
  const most = 2;
  const heights = exponentialPolynomial(most * bound);
  // Counts run from 0, so that the linear coefficient runs over an interval of length 2.
  const size = heights.map((value, degree) => degree === 1 ? Math.max(Math.abs(value - 2), Math.abs(value)) : Math.abs(value));
  const diameters = size.map((value, degree) => (degree % 2 ? 2 : Math.SQRT2) * value * bound ** degree);
  const weights = diameters.map((value, degree) => degree && value > 0 ? Math.sqrt(most ** degree / value) : 0);
  const norm = (list) => Math.hypot(...list.map((value, degree) => value * weights[degree]));
  const radius = norm(size.map((value, degree) => value * bound ** degree)) * (1 + 1e-9);
  const counts = [1, width, packedSize(width), packedTensorSize(width), fourthSize(width)];
  const entries = sum(counts.filter((_, degree) => weights[degree] > 0));
  if (entries > CONSTANTS.largest_loss) {
    throw new Refused(`a loss must have between 1 and ${CONSTANTS.largest_loss} coefficients; got ${entries}. ` +
      "Use fewer features or a smaller degree.");
  }
  return statistic("polynomial_coefficients",
    { size: entries, diameter: Math.min(norm(diameters), 2 * radius), radius, depth: width, factor: 6 });
}

// The releases of a study, in order.
function releasesOf(study) {
  const width = sum(study.widths);
  const bound = Math.hypot(...study.bounds);
  const options = study.options;
  const rounds = (entry) => [release(entry, 1 / options.n_iter, options.n_iter)];
  if (study.widths.some((entry) => entry < 1) || study.bounds.some((entry) => !(entry >= 1e-40 && entry <= 1e40))) {
    const [widths, bounds] = [study.widths, study.bounds].map((all) => all.map((one) => general(one, 6)).join(" and "));
    throw new Refused(
      `features and bound must be positive, a bound between 1e-40 and 1e+40; got ${widths} and bound ${bounds}.`);
  }
  switch (study.analysis) {
    case "mean":
      return [release(statistic("first_moments",
        { size: 2 * width, diameter: 2 * bound, radius: bound * Math.sqrt(1.25), depth: width }))];
    case "pca": case "cca":
      return [release(moment(width, bound))];
    case "centred-pca": case "centred-cca":
      return [release(centred(width, bound))];
    case "linear-regression": case "logistic-regression":
      return [release(regression(width, bound, options.fit_intercept))];
    case "polynomial-loss":
      return [release(poissonLoss(width, bound))];
    case "kmeans":
      return rounds(statistic("cluster_sums", {
        size: options.n_clusters * (width + 1), diameter: 2 * bound, radius: Math.SQRT2 * bound, depth: width,
      }));
    case "network-classifier": {
      const outputs = options.n_classes === 2 ? 1 : options.n_classes;
      const size = options.n_hidden * (width + 1) + outputs * (options.n_hidden + 1);
      return rounds(statistic("network_gradient",
        { size, diameter: 2 * options.clip, radius: options.clip, depth: width + options.n_hidden + outputs }));
    }
    case "topic-model": case "whitened-topic-model":
      return topicReleases(width, options, study.analysis === "topic-model");
    case "mixture-model": case "whitened-mixture-model":
      return mixtureReleases(width, bound, options, study.analysis === "mixture-model");
    case "joint-ica": case "infomax-joint-ica":
      return recordSeries(study, bound, study.analysis === "infomax-joint-ica");
    case "subject-joint-ica": case "subject-infomax-joint-ica":
      return subjectSeries(study, study.analysis === "subject-infomax-joint-ica");
    default:
      throw new Refused(`analysis must be one that can be planned; got ${study.analysis}.`);
  }
}
