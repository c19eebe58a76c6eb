// Runs the generated schedules: which releases a study makes, in order.

const sum = (list) => list.reduce((total, value) => total + value, 0);

function refuseStudy(text, values) {
  throw new Refused(text.replace(/\{(\w+)\}/g, (_, name) => values[name]));
}

function requireWhole(name, value, least, most) {
  if (value < least || value > most) {
    throw new Refused(`${name} must be a whole number from ${least} to ${most} here; got ${value}.`);
  }
}

function optionalWhole(name, value, least, most) {
  if (value !== null && (value < least || value > most)) {
    throw new Refused(`${name} must be None or a whole number from ${least} to ${most}; got ${value}.`);
  }
}

function checkDimensions({ widths, bounds }) {
  const [least, most] = CONSTANTS.bounds;
  if (widths.some((entry) => entry < 1) || bounds.some((entry) => !(entry >= least && entry <= most))) {
    const [columns, lengths] = [widths, bounds].map((all) => all.map((one) => general(one, 6)).join(" and "));
    throw new Refused(`features must be positive, and bound between ${general(least, 6)} and ` +
      `${general(most, 6)}; got features ${columns} and bound ${lengths}.`);
  }
}

// Public numbers of a study, as schedules and measures read them.
function publicNumbers(study) {
  return {
    ...study.options, n_features: sum(study.widths), first: study.widths[0], narrowest: Math.min(...study.widths),
    widest: Math.max(...study.widths), n_views: study.widths.length,
    bound: Math.hypot(...study.bounds), n_records: sum(study.sizes), n_participants: study.sizes.length,
    get mu() { return muOf(study.epsilon, study.delta); },
    get total_mu() { return this.mu / Math.hypot(...calibrate(study.protocol, study.sizes.map(() => 1), 1).own); },
  };
}

// Shares do not depend on noise: a first pass counts releases; the second plans those whose noise later ones use.
function releasesOf(study) {
  checkDimensions(study);
  const total = sum(study.sizes);
  const p = publicNumbers(study);
  const pass = (noise) => {
    const steps = SCHEDULES[study.analysis](p);
    const found = [];
    for (let step = steps.next(); !step.done; step = steps.next(step.value.feeds ? noise(step.value) : undefined)) {
      found.push(step.value);
    }
    return found;
  };
  const first = pass(() => 1);
  if (!first.some((release) => release.feeds)) return first;
  const count = sum(first.map((release) => release.times));
  return pass((release) => Math.hypot(...planRelease(study, release, count).own) / total);
}
