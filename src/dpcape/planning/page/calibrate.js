// From releases to their noise and the guarantee: the functions of protocols and privacy.calibration.

function checkColluding(colluding, sites) {
  if (colluding > sites - 1) {
    throw new Refused(`n_colluding must be at most ${sites - 1} with ${sites} sites; got ${colluding}. ` +
      "At least one site must be honest.");
  }
}

function checkMinimum(minimum, sites, least, why) {
  if (minimum === null) return sites;
  if (minimum < least || minimum > sites) {
    throw new Refused(
      `minimum_sites must be between ${least} and ${sites} here; got ${minimum}.${why ? " " + why : ""}`);
  }
  return minimum;
}

// Protocol parameters checked for so many sites; the words are those of protocols/.
function settingsOf(protocol, sites) {
  const { name, colluding, minimum } = protocol;
  const { python, parameters, refused, least_sites, too_few } = PROTOCOLS[name];
  if (minimum !== null && "minimum_sites" in refused) {
    throw new Refused(`minimum_sites must be left out for ${name}: ${refused.minimum_sites}.`);
  }
  if (sites < least_sites) {
    throw new Refused(`${python} must have at least ${least_sites} sites; got ${sites}. ${too_few}`);
  }
  // Without a number of colluding sites all others may collude; without a least number all sites must finish.
  if (!("n_colluding" in parameters)) {
    return { colluding: sites - 1, minimum: checkMinimum(minimum, sites, 1, ""), honest: 1 };
  }
  checkColluding(colluding, sites);
  if (!("minimum_sites" in parameters)) return { colluding, minimum: sites, honest: sites - colluding };
  // With both, survivors sign what is opened: the rules of a secure sum.
  if (colluding > sites - 2) {
    throw new Refused(`n_colluding must be at most ${sites - 2} for ${python} with ${sites} sites; got ${colluding}. ` +
      "If all other sites may collude, use Independent(): it needs no more noise.");
  }
  const why = "With fewer, two different survivor sets could be signed (2 x minimum_sites must exceed sites + n_colluding).";
  const least = checkMinimum(minimum, sites, Math.max(least_sites, Math.floor((sites + colluding) / 2) + 1), why);
  return { colluding, minimum: least, honest: least - colluding };
}

// Own and shared scales up to a common factor, and how exposed a site then is to the worst coalition.
function scheme(protocol, sites, demands) {
  const { closed_form, equal_demands } = PROTOCOLS[protocol.name];
  const [shared, exposure] = closed_form(sites, settingsOf(protocol, sites).honest, protocol.ratio);
  const own = equal_demands ? demands.map(() => 1) : demands;
  return { own, shared: own.map((scale) => shared * scale), exposures: own.map((scale) => exposure / scale) };
}

function calibrate(protocol, sensitivities, mu) {
  const demands = sensitivities.map((value) => value / mu);
  const { own, shared, exposures } = scheme(protocol, sensitivities.length, demands);
  const factor = Math.max(...exposures.map((exposure, site) => exposure * demands[site])) * (1 + 1e-12);
  return {
    own: own.map((value) => value * factor),
    shared: shared.map((value) => value * factor),
    mus: exposures.map((exposure, site) => sensitivities[site] * exposure / factor),
  };
}

function epsilonGap(steps, sites, coordinates) {
  const rows = (sites + 2) * coordinates;
  const eigenvalue = (3 - Math.sqrt(5)) / 2 * steps ** 2;
  const norm = Math.sqrt(rows) * (1 + 0.5 / Math.sqrt(eigenvalue)) + Math.sqrt(2 * CONSTANTS.tail_exponent);
  const decay = Math.exp(-0.5 * (Math.PI * steps) ** 2);
  const ripple = 2 * decay / (1 - decay);
  return (rows + norm ** 2) / (24 * eigenvalue) + rows * (Math.log1p(ripple) - Math.log1p(-ripple));
}

function deltaTail(draws, epsilon) {
  const cut = Math.log(Math.max(draws, 1)) + Math.log(2) - CONSTANTS.cutoff ** 2 / 2;
  const exponents = [epsilon - CONSTANTS.tail_exponent, cut, epsilon + cut];
  return Math.min(1, sum(exponents.map((exponent) => Math.exp(Math.min(exponent, 0)))));
}

function gapOf(size, noise, step) {
  const finest = Math.min(...noise.own, ...noise.shared.filter((value) => value > 0));
  return epsilonGap(finest / step, noise.own.length, size);
}

function rangeNeeded(study, entry, noise) {
  const totals = sum(study.sizes.map((n) => n * entry.radius + entry.rounding(n)));
  return totals + CONSTANTS.cutoff * (sum(noise.own) + 2 * sum(noise.shared));
}

function fits(needed, noise, step, slack) {
  const largest = Math.max(...noise.own, ...noise.shared);
  return needed / step < slack * 2 ** 62 && largest / step <= slack * CONSTANTS.largest_scale / 2;
}

function doesNotFit(entry, needed, noise) {
  return new Refused(
    `The release '${entry.name}' must fit into 64-bit integers on a grid of at least 2^24 steps per own_scale; got ` +
    `sums of up to ${general(needed, 3)} under noise of ${general(Math.min(...noise.own), 3)} to ` +
    `${general(Math.max(...noise.own), 3)}. Change epsilon or delta, make fewer releases, ` +
    "use fewer records, or make the sites' sizes more equal.");
}

function gridStep(study, entry, noise, shares) {
  const smallest = Math.floor(Math.log2(Math.min(...noise.own)));
  const allowed = epsilonReserve(study.epsilon) / shares;
  const needed = rangeNeeded(study, entry, noise);
  const exponents = [];
  for (let exponent = 30; exponent <= 44; exponent++) exponents.push(exponent);
  for (let exponent = 29; exponent >= 24; exponent--) exponents.push(exponent);
  for (const exponent of exponents) {
    const step = 2 ** (smallest - exponent);
    if (fits(needed, noise, step, 1) && gapOf(entry.size, noise, step) <= allowed) return step;
  }
  throw doesNotFit(entry, needed, noise);
}

// The noise of one release: study = {sizes, protocol, epsilon, delta}, shares = number of all releases.
function planRelease(study, release, shares) {
  const entry = release.statistic;
  const mu = targetMu(study.epsilon, study.delta) * Math.sqrt(release.share);
  const exact = study.sizes.map((n) => entry.sensitivity(n));
  const step = gridStep(study, entry, calibrate(study.protocol, exact, mu), shares);
  const sensitivities = exact.map((value) => value + step * Math.sqrt(entry.size));
  const noise = calibrate(study.protocol, sensitivities, mu);
  const needed = rangeNeeded(study, entry, noise);
  if (!fits(needed, noise, step, 2)) throw doesNotFit(entry, needed, noise);
  const draws = (noise.shared.some((value) => value > 0) ? 2 : 1) * study.sizes.length * entry.size;
  const tail = deltaTail(draws, study.epsilon);
  if (tail > tailReserve(study.delta) / shares) {
    throw new Refused("epsilon and delta must leave room for the cut-off of integer noise; got epsilon " +
      `${general(study.epsilon, 6)} and delta ${general(study.delta, 6)} over ${shares} release(s). ` +
      "Ask for a smaller epsilon or a larger delta.");
  }
  return { ...noise, sensitivities, step };
}

function checkStudy(study) {
  if (!(study.epsilon > 0 && Number.isFinite(study.epsilon))) {
    throw new Refused(`epsilon must be a positive finite number; got ${pyNumber(study.epsilon)}.`);
  }
  requireDelta(study.delta);
  if (!study.sizes.length || study.sizes.some((n) => n < 1)) {
    throw new Refused("Every site must have at least one record; got a site without records. Leave it out.");
  }
}

// Everything the command `plan` prints, and the guarantee.
function checkSize({ statistic: { name, size } }) {
  if (size > CONSTANTS.most_numbers) {
    const [most, got] = [CONSTANTS.most_numbers, size].map((count) => count.toLocaleString("en-US"));
    throw new Refused(`a release must hold at most ${most} numbers to fit into a message; got ${got} for '${name}'. ` +
      CONSTANTS.fewer_numbers);
  }
}

function planStudy(study) {
  const settings = settingsOf(study.protocol, study.sizes.length);
  checkStudy(study);
  const releases = releasesOf(study);
  releases.forEach(checkSize);
  const shares = sum(releases.map((release) => release.times));
  const plans = releases.map((release) => planRelease(study, release, shares));
  const total = sum(study.sizes);
  const smallest = study.sizes.indexOf(Math.min(...study.sizes));
  const entries = releases.map((release, index) => entryOf(study, release, plans[index], { settings, total, smallest }));
  const mus = study.sizes.map((_, site) =>
    compose(releases.flatMap((release, index) => Array(release.times).fill(plans[index].mus[site]))));
  const epsilons = mus.map((mu) => siteEpsilon(study, mu));
  return {
    settings, releases: entries, n_releases: shares, n_records: total, mu: Math.max(...mus),
    epsilon: Math.max(...epsilons), output_only: outputOnly(study, releases, plans, settings.minimum),
  };
}

function entryOf(study, release, plan, { settings, total, smallest }) {
  const pooled = release.statistic.diameter / (muOf(study.epsilon, study.delta) * Math.sqrt(release.share) * total);
  const aggregate = Math.hypot(...plan.own) / total;
  const fewest = study.sizes.map((n, site) => [n, site]).sort((a, b) => a[0] - b[0] || a[1] - b[1])
    .slice(0, settings.minimum);
  const least = Math.hypot(...fewest.map(([, site]) => plan.own[site])) / sum(fewest.map(([n]) => n));
  return {
    statistic: release.statistic.name, times: release.times, share: release.share, mu: Math.max(...plan.mus),
    sensitivity: release.statistic.diameter / study.sizes[smallest],
    own_scale: plan.own[smallest] / study.sizes[smallest],
    shared_scale: plan.shared[smallest] / study.sizes[smallest],
    aggregate_scale: aggregate, aggregate_scale_at_minimum: least, pooled_scale: pooled,
    noise_ratio: aggregate / pooled, entries: release.statistic.size, diameter: release.statistic.diameter,
    known: release.known,
  };
}

const siteEpsilon = (study, mu) =>
  printedEpsilon(study.delta, mu, epsilonReserve(study.epsilon), tailReserve(study.delta));

// Against someone who sees only the results: own noise of the fewest sites covers them.
function outputOnly(study, releases, plans, least) {
  return Math.max(...study.sizes.map((_, site) => {
    const mus = releases.flatMap((release, index) => {
      const plan = plans[index];
      const others = plan.own.filter((_, other) => other !== site).sort((a, b) => a - b).slice(0, least - 1);
      return Array(release.times).fill(plan.sensitivities[site] / Math.hypot(plan.own[site], ...others));
    });
    return siteEpsilon(study, compose(mus));
  }));
}

function adversary(protocol) {
  const forms = PROTOCOLS[protocol.name].adversaries;
  return forms[Math.min(protocol.colluding, 2)].replace("{n}", protocol.colluding);
}

function publicOf(study) {
  const isTable = CONSTANTS.analyses[study.analysis].kind === "table";
  return isTable ? [...CONSTANTS.public, CONSTANTS.public_of_tables] : CONSTANTS.public;
}

// What a delta above 1/N means.
function largeDelta(study, unit) {
  const records = study.sizes.reduce((sum, size) => sum + size, 0);
  return study.delta * records > 1 + 1e-9 ? [`delta is above 1/N (N = ${records} ${unit}s), which was accepted: these figures ` +
    `allow that about ${roundUp(study.delta * records, 2)} whole ${unit}s are revealed`] : [];
}

// The sentence of guarantee/guarantee.py.
function sentence(study, plan) {
  const sites = study.sizes.length;
  const { unit, owner_note: note, fixed } = CONSTANTS.analyses[study.analysis];
  const assumed = [CONSTANTS.one_site_each, ...PROTOCOLS[study.protocol.name].assumptions, ...largeDelta(study, unit)];
  // A result with a part for each site shows its noisy total.
  const bySite = (fixed.adjust ? sites : study.options.n_sites) > 1 ? `${CONSTANTS.by_site}; ` : "";
  return `(${roundUp(plan.epsilon)}, ${roundUp(study.delta, 6)})-differentially private per ${unit}` +
    `${note ? ` (${note})` : ""}, when one ${unit} of one site is replaced, against ${adversary(study.protocol)}; ${plan.n_releases} ` +
    `release${plan.n_releases > 1 ? "s" : ""}, at least ${plan.settings.minimum} of ${sites} ` +
    `site${sites > 1 ? "s" : ""} finishing; public: ${publicOf(study).join(", ")}; ${bySite}exact integer noise; verified. ` +
    `Assumed: ${assumed.join("; ")}.`;
}
