// Expected errors under a declared spectrum, by name: the functions of planning.measures and planning.kept_energy.

const packedSize = (n) => n * (n + 1) / 2;
const packedTensorSize = (n) => n * (n + 1) * (n + 2) / 6;
const fourthSize = (n) => n * (n + 1) * (n + 2) * (n + 3) / 24;

function spectrumOf(declared, size) {
  if (declared.values.length) return ownSpectrum(declared.values, size);
  if (!(declared.energy > 0 && declared.energy <= 1)) {
    throw new Refused(`energy must be above 0 and at most 1; got ${pyNumber(declared.energy)}.`);
  }
  const largest = declared.shape === "geometric" ? 1 : 10;
  if (declared.shape !== "flat" && !(declared.decay > 0 && declared.decay <= largest)) {
    throw new Refused(`decay must be above 0 and at most ${largest} here; got ${pyNumber(declared.decay)}.`);
  }
  const raw = Array.from({ length: size }, (_, index) =>
    declared.shape === "power" ? (index + 1) ** -declared.decay :
      declared.shape === "geometric" ? declared.decay ** index : 1);
  const total = sum(raw);
  return raw.map((value) => value * (declared.energy / total));
}

function ownSpectrum(values, size) {
  const total = sum(values);
  const ordered = values.every((value, index) => value >= 0 && (index === 0 || value <= values[index - 1]));
  if (values.length > size || !ordered || !(total > 0 && total <= 1 + 1e-9)) {
    throw new Refused(`eigenvalues must be at most ${size} nonnegative numbers in descending order that add up to at ` +
      `most 1 (the squared bound); got ${values.length} numbers. Check their order and sum.`);
  }
  return [...values, ...Array(size - values.length).fill(0)];
}

const noiseNorm = (scale, size) => scale * Math.sqrt(2 * size);

// Large-matrix formula, derived in planning/kept_energy.py.
function keptEnergy(spectrum, components, scale) {
  const best = sum(spectrum.slice(0, components));
  if (scale === 0 || components === spectrum.length || best <= 0) return 1;
  const groups = grouped(spectrum, Math.max(48, components + 16));
  const variance = scale ** 2 / 2;
  const u = edge(groups, variance, components, Math.sqrt(variance * spectrum.length));
  const least = components * sum(spectrum) / spectrum.length / best;
  return Math.min(1, Math.max(least, energy(groups, variance, u, height(groups, variance, u)) / best));
}

function grouped(spectrum, single) {
  const values = spectrum.slice(0, single);
  const counts = values.map(() => 1);
  for (let start = single; start < spectrum.length;) {
    const block = spectrum.slice(start, start + Math.ceil(start * 0.15));
    values.push(sum(block) / block.length);
    counts.push(block.length);
    start += block.length;
  }
  return { values: Float64Array.from(values), counts: Float64Array.from(counts) };
}

function edge(groups, variance, wanted, reach) {
  let low = Math.min(...groups.values) - 2 * reach;
  let high = Math.max(...groups.values) + 2 * reach;
  for (let step = 0; step < 100; step++) {
    const u = (low + high) / 2;
    if (u === low || u === high) break;
    if (numberAbove(groups, variance, u, height(groups, variance, u)) >= wanted - 1e-12) low = u; else high = u;
  }
  return low;
}

// Newton's steps from below, which never pass the root; 0 in a gap.
function height({ values, counts }, variance, u) {
  let square = 0;
  for (let j = 0; j < values.length; j++) square = Math.max(square, counts[j] * variance - (u - values[j]) ** 2);
  for (let round = 0; round < 100; round++) {
    let total = 0;
    let slope = 0;
    for (let j = 0; j < values.length; j++) {
      const distance = u - values[j];
      const length = Math.max(distance * distance + square, 1e-300);
      const term = counts[j] * variance / length;
      total += term;
      slope += term / length;
    }
    const step = (total - 1) / slope;
    if (total <= 1 || square + step === square) break;
    square += step;
  }
  return Math.sqrt(square);
}

// Real and imaginary part of m(w), the sum of angles, and that of angles times values.
function sums({ values, counts }, u, v) {
  let real = 0;
  let imaginary = 0;
  let angles = 0;
  let own = 0;
  for (let j = 0; j < values.length; j++) {
    const distance = u - values[j];
    const length = Math.max(distance * distance + v * v, 1e-300);
    const angle = counts[j] * Math.atan2(v, distance);
    real += counts[j] * distance / length;
    imaginary -= counts[j] * v / length;
    angles += angle;
    own += angle * values[j];
  }
  return { real, imaginary, angles, own };
}

function numberAbove(groups, variance, u, v) {
  const { real, imaginary, angles } = sums(groups, u, v);
  return (angles + variance * real * imaginary) / Math.PI;
}

function energy(groups, variance, u, v) {
  const { real, imaginary, own } = sums(groups, u, v);
  const straight = (u * 2 * real * imaginary + v * (real * real - imaginary * imaginary)) / 2 - sum([...groups.counts]) * imaginary;
  return (own + variance * straight - variance / 2 * pairsSum(groups, u, v)) / Math.PI;
}

function pairsSum({ values, counts }, u, v) {
  let pairs = 0;
  for (let j = 0; j < values.length; j++) {
    pairs += counts[j] ** 2 * v / Math.max((u - values[j]) ** 2 + v * v, 1e-300);
    for (let k = 0; k < j; k++) {
      const product = (u - values[j]) * (u - values[k]) + v * v;
      const gap = values[j] - values[k];
      const rate = gap === 0 ? v / Math.max(product, 1e-300) : Math.atan2(v * gap, product) / gap;
      pairs += 2 * counts[j] * counts[k] * rate;
    }
  }
  return pairs;
}

// The squared factors with which directions are whitened.
function flooredShares(spectrum, scale) {
  const floor = 1.5 * noiseNorm(scale, spectrum.length);
  return spectrum.map((value) => 1 / Math.max(value, floor));
}

// The same in a basis: directions that noise hides are left out, and count as much as where they were last seen.
function sharesSeen(spectrum, scale, components) {
  const norm = 1.5 * noiseNorm(1, spectrum.length);
  const rest = spectrum.slice(components).map((value) => Math.max(value, 1e-300));
  return [...flooredShares(spectrum.slice(0, components), scale),
    ...rest.map((value) => Math.min(1, value / norm / scale) ** 2 / value)];
}

function correlationOfNoise(study, declared) {
  // Each view is divided by its bound, or by its radius, before the last release of moments.
  const { fixed } = describedAs(study);
  const bases = [study.options.n_x_basis, study.options.n_y_basis];
  const views = study.widths.map((width, view) => ({ spectrum: spectrumOf(declared, bases[view] || width), wide: bases[view] }));
  return (scales) => {
    // Maps follow the moments.
    const scale = scales[scales.length - (fixed.maps && scales.length > (fixed.center ? 3 : 1) ? 2 : 1)];
    const parts = views.map(({ spectrum, wide }) => {
      const shares = wide ? sharesSeen(spectrum, scale, study.options.n_components) : flooredShares(spectrum, scale);
      return { spread: Math.sqrt(sum(shares)), top: Math.sqrt(Math.max(...shares)) };
    });
    const others = (view) => Math.hypot(...parts.filter((_, other) => other !== view).map(({ spread }) => spread));
    const reached = parts.map(({ top }, view) => top * others(view));
    return scale / Math.SQRT2 * 2 * sum(reached) / (parts.length * (parts.length - 1));
  };
}

function varianceLost(study, declared) {
  if (!(declared.explained > 0 && declared.explained < 1)) {
    throw new Refused(`explained must be strictly between 0 and 1; got ${pyNumber(declared.explained)}. Try 0.5.`);
  }
  const { labels, fixed } = describedAs(study);
  const classes = labels === "classes";
  const variance = declared.explained * (classes ? 1 : 1 / 3);
  const predicts = fixed.purpose === "prediction";
  const { averaged, residual_units: residualUnits, logistic_units: logisticUnits } = CONSTANTS;
  const rounds = predicts ? study.options.n_iter : 0;
  if (rounds) {
    const coefficients = study.widths[0] + (study.options.fit_intercept ? 1 : 0);
    const kept = Math.max(1, roundHalfEven(averaged * rounds));
    return (scales) => {
      const noise = scales[scales.length - 1] * Math.sqrt(coefficients / kept);
      const limits = classes ? logisticUnits : residualUnits;
      const unit = Math.min(Math.max(limits.noise / Math.max(noise, 1e-300), limits.smallest), limits.largest);
      return Math.min(1, (unit * noise) ** 2 / variance);
    };
  }
  const scores = classes && !predicts;
  return (scales) => {
    const scaled = fixed.scale === "private" && scales.length > (scores ? 4 : 3);
    const bound = scaled ? 1 : study.bounds[0];
    const spectrum = spectrumOf(declared, study.widths[0]).map((value) => value * bound ** 2);
    const prior = variance / sum(spectrum);
    const scale = scores ? scales[scales.length - 1] : scales[scaled ? 3 : 0];
    const cross = scores ? 128 / (1.25 * bound ** 2) : 1 / (bound * Math.sqrt(0.5)) ** 2;
    const noise = scale ** 2 / 2 * (cross + (scores ? 16 : 1) * prior * spectrum.length);
    return sum(spectrum.map((value) => value * prior * noise / (prior * value ** 2 + noise))) / variance;
  };
}

function roundHalfEven(value) {
  const low = Math.floor(value);
  const rest = value - low;
  return rest > 0.5 || (rest === 0.5 && low % 2 === 1) ? low + 1 : low;
}

function checkComponents(components, largest) {
  if (components > largest) {
    throw new Refused(`n_components must be a whole number from 1 to ${largest} for an expected error; got ${components}.`);
  }
}

// Noise against the weakest component; that of a whole third moment also against an average strength.
function momentNoise(study, spectrum, { width, first }) {
  const components = study.options.n_components;
  checkComponents(components, spectrum.length);
  const kept = spectrum.slice(0, components);
  const whole = describedAs(study).fixed.design === "full";
  const weakest = kept[components - 1];
  const [one, two, three] = [1, 2, 3].map((power) => sum(kept.map((value) => value ** -power)));
  const norm = Math.sqrt((one ** 3 + 3 * one * two + 2 * three) / 6);
  return (scales) => {
    if (weakest <= 0) return Infinity;
    const second = noiseNorm(scales[first], width) / weakest;
    const third = CONSTANTS.spin * scales[first + 1] * norm / Math.sqrt(packedTensorSize(components));
    return whole ? Math.max(second, third) : second;
  };
}

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
  return { size: entries, diameter: Math.min(norm(diameters), 2 * radius), radius };
}

// The verdict to expect of a result with this expected error, or with noise of this relative size.
function expectedWord(value) {
  if (value === null) return "not determined";
  return value <= 0.1 ? "determined" : value < 0.5 ? "uncertain" : "not determined";
}

// Of measures that depend on a spectrum: from a study and what is declared to a function of the releases' scales.
const MEASURES = {
  energy_lost: (study, declared) => {
    const { fixed } = CONSTANTS.analyses[study.analysis];
    const width = study.options.n_basis || sum(study.widths);
    const bound = Math.hypot(...study.bounds);
    const spectrum = spectrumOf(declared, width);
    checkComponents(study.options.n_components, width);
    return (scales) => {
      // Maps are released after the moments; recentred rows, read after other releases, are at most 1 long.
      const last = scales.length - (fixed.maps && scales.length > (fixed.center ? 3 : 1) ? 1 : 0);
      return 1 - keptEnergy(spectrum.map((value) => value * (last === 1 ? bound ** 2 : 1)),
        study.options.n_components, scales[last - 1]);
    };
  },
  covariance_of_noise: (study, declared) => {
    const tops = study.widths.map((width) => Math.max(...spectrumOf(declared, width)));
    const size = sum(study.widths.map(Math.sqrt)) / Math.SQRT2 / Math.sqrt(tops[0] * tops[1]);
    return (scales) => scales.at(-1) * size;
  },
  correlation_of_noise: correlationOfNoise,
  variance_lost: varianceLost,
  noise_of_word_moments: (study, declared) => {
    const { n_words } = study.options;
    const words = n_words === null ? sum(study.widths) : n_words;
    return momentNoise(study, spectrumOf(declared, words), { width: words, first: n_words === null ? 0 : 1 });
  },
  noise_of_row_moments: (study, declared) => {
    const width = sum(study.widths);
    const bound = Math.hypot(...study.bounds);
    const spectrum = spectrumOf(declared, width).map((value) => value * bound ** 2 - study.options.noise_variance);
    return momentNoise(study, spectrum, { width, first: 0 });
  },
};

const describedAs = (study) => CONSTANTS.analyses[study.analysis];

// Others are generated.
function measureOf(study, declared) {
  const name = describedAs(study).measure_name;
  return name ? MEASURES[name](study, declared) : (scales) => NOISE[study.analysis](publicNumbers(study), scales);
}

// The planned study and its alternatives, with the same guarantee.
function scenariosOf(study) {
  const alone = { name: INDEPENDENT, colluding: 0, minimum: null, ratio: study.protocol.ratio };
  return {
    pooled: { ...study, protocol: alone, sizes: [sum(study.sizes)] },
    chosen: study,
    conventional: { ...study, protocol: alone },
    alone: { ...study, protocol: alone, sizes: [Math.max(...study.sizes)] },
  };
}

// The expected error at an epsilon, or null where no plan exists.
function errorAt(study, measure, epsilon) {
  try {
    const at = { ...study, epsilon };
    const releases = releasesOf(at);
    const shares = sum(releases.map((release) => release.times));
    const total = sum(at.sizes);
    return measure(releases.map((release) => Math.hypot(...planRelease(at, release, shares).own) / total));
  } catch (error) {
    if (error instanceof Refused) return null;
    throw error;
  }
}

// The smallest epsilon between 0.001 and 1000 whose expected error is at most `wanted`; null if none is.
function smallestEpsilon(study, measure, wanted) {
  const reached = (power) => {
    const error = errorAt(study, measure, 10 ** power);
    return error !== null && error <= wanted;
  };
  // Far beyond any useful epsilon plans stop existing: start from the largest that has one.
  let high = 3;
  while (high > -3 && errorAt(study, measure, 10 ** high) === null) high -= 0.25;
  if (!reached(high)) return null;
  let low = -3;
  if (reached(low)) return 10 ** low;
  for (let step = 0; step < 36; step++) {
    const middle = (low + high) / 2;
    if (reached(middle)) high = middle; else low = middle;
  }
  return 10 ** high;
}
