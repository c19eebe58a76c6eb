// The study file that belongs to a plan.

function decimal(value) {
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return value.toFixed(1);
  return Math.abs(value) < 1e-3 ? value.toExponential() : String(value);
}

function siteNames(count) {
  const digits = String(count).length;
  return Array.from({ length: count }, (_, index) => `site-${String(index + 1).padStart(digits, "0")}`);
}

function tomlValue(value) {
  return typeof value === "string" ? `"${value}"` : String(value);
}

// Names and values as the analysis takes them.
function parametersOf(study) {
  const { asked, fixed } = CONSTANTS.analyses[study.analysis];
  const given = Object.entries(study.options).filter(([name]) => !asked[name].is_fact);
  // What is left out has no value in TOML.
  return [...given, ...Object.entries(fixed)].filter(([, value]) => value !== null);
}

// Refused until it is filled in: a study without its basis would be another one.
function basisLines(study) {
  const { n_basis: one, n_x_basis: first, n_y_basis: second } = study.options;
  if (one) return [`basis = []  # your public basis: ${study.widths[0]} lists of ${one} numbers`];
  if (!first && !second) {
    const { maps } = CONSTANTS.analyses[study.analysis].fixed;
    return maps ? ["basis = []  # your public basis: maps are of what it leaves out"] : [];
  }
  const words = [first, second].map((few, view) => few ? `${study.widths[view]} lists of ${few} numbers` : "none");
  return [`basis = []  # your public bases of the two views: [${words.join("; ")}]`];
}

function parameterLines(study) {
  const { asked } = CONSTANTS.analyses[study.analysis];
  const given = parametersOf(study).map(([name, value]) =>
    `${name} = ${["positive", "number"].includes(asked[name]?.kind) ? decimal(value) : tomlValue(value)}`);
  if (groupLevels(study).length) given.push("by = [\"group\"]");
  given.push(...contrastParameters(study).map(([name, value]) => `${name} = ${value}`));
  return [...given, ...basisLines(study)];
}

// Parameters of the protocol that are not what they are if left out.
function protocolParameters({ name, colluding, minimum, ratio }) {
  // The page plans with masks between all sites; the noise does not depend on n_neighbours.
  const values = { n_colluding: colluding, minimum_sites: minimum, cancelling_ratio: ratio, n_neighbours: null };
  return Object.values(PROTOCOLS[name].parameters).map((parameter) => [parameter.name, values[parameter.name], parameter])
    .filter(([, value, parameter]) => value !== parameter.default);
}

function protocolLines(study) {
  const given = protocolParameters(study.protocol).map(([name, value, { kind }]) =>
    `${name} = ${kind === "number" ? decimal(value) : value}`);
  return [`kind = "${study.protocol.name}"`, ...given];
}

const FEATURES_NOTE = "  # or columns = [\"...\", ...], by name";

function labelLines(study) {
  const { labels } = describedAs(study);
  if (labels === "counts") {
    return ["target = \"y\"  # the column of the counts", "response = [0.0, 10.0]  # their public range, from 0"];
  }
  if (labels === "response") {
    return ["target = \"y\"  # the column of the response", "response = [0.0, 1.0]  # its public range"];
  }
  const names = Array.from({ length: study.options.n_classes || 2 }, (_, index) => `"class-${index + 1}"`);
  return ["target = \"y\"  # the column of the labels", `classes = [${names.join(", ")}]  # the public labels`];
}

// The levels of a column that makes so many groups: missing values are one of them.
const groupLevels = (study) =>
  Array.from({ length: (study.options.n_groups || 1) - 1 }, (_, index) => `"level-${index + 1}"`);

// Columns of hazard ratios, all numbers.
const hazardColumns = (study) =>
  Array.from({ length: study.options.n_covariates || 0 }, (_, index) => [`x${index + 1}`, []]);

// Columns of the design of a contrast, beside the outcomes: names, levels or none for numbers.
function contrastColumns(study) {
  const { n_sites: sites, n_covariates: covariates } = study.options;
  if (sites === undefined) return hazardColumns(study);
  const site = ["site", siteNames(sites).map((name) => `"${name}"`)];
  if (covariates === undefined) return [site];
  const numbers = Array.from({ length: covariates }, (_, index) => [`covariate-${index + 1}`, []]);
  return [["group", ["\"control\"", "\"case\""]], ...numbers, site];
}

// Parameters that name these columns, as TOML and Python write them.
function contrastParameters(study) {
  const columns = contrastColumns(study);
  if (hazardColumns(study).length && study.options.n_sites === undefined) {
    return [["columns", `[${columns.map(([name]) => `"${name}"`).join(", ")}]`]];
  }
  if (columns.length < 2) return columns.map(([name]) => [name, `"${name}"`]);
  const covariates = columns.slice(1, -1).map(([name]) => `"${name}"`);
  const outcomes = Array.from({ length: study.widths[0] }, (_, index) => `"x${index + 1}"`);
  const many = CONSTANTS.analyses[study.analysis].python === "MassUnivariate";
  return [["contrast", "\"group\""], ...(many ? [] : [["outcomes", `[${outcomes.join(", ")}]`]]),
    ...(covariates.length ? [["covariates", `[${covariates.join(", ")}]`]] : []), ["site", "\"site\""]];
}

function tableLines(study) {
  const columns = describedAs(study).labels === "events"
    ? ["survival = { time = \"days\", event = \"died\", range = [0, 1000] }  # your two columns, and the public range of time"]
    : Array.from({ length: study.widths[0] }, (_, index) => `x${index + 1} = { range = [0.0, 1.0] }`);
  const levels = groupLevels(study);
  return ["", "[data.columns]  # your columns: public ranges, or levels = [\"...\", ...]", ...columns,
    ...(levels.length ? [`group = { levels = [${levels.join(", ")}] }  # the public groups`] : []),
    ...contrastColumns(study).map(([name, words]) =>
      `${name} = ${words.length ? `{ levels = [${words.join(", ")}] }` : "{ range = [0.0, 1.0] }"}`)];
}

const viewNames = (study) =>
  study.widths.length === 2 ? ["x", "y"] : study.widths.map((_, view) => `view-${view + 1}`);

function dataLines(study) {
  const kind = CONSTANTS.analyses[study.analysis].kind;
  const lines = [`kind = "${kind}"`];
  if (kind === "table") return [...lines, ...tableLines(study)];
  if (kind === "views") {
    const names = viewNames(study);
    const named = names.length > 2 ? [`views = [${names.map((name) => `"${name}"`).join(", ")}]`] : [];
    return [...lines, ...named, `bounds = [${study.bounds.map(decimal).join(", ")}]`, ...names.flatMap((name, view) =>
      ["", `[data.${name}]`, `features = ${study.widths[view]}${view ? "" : FEATURES_NOTE}`])];
  }
  lines.push(`features = ${study.widths[0]}${FEATURES_NOTE}`);
  if (kind !== "documents") lines.push(`bound = ${decimal(study.bounds[0])}`);
  if (kind === "subjects") lines.push(`unit = "${CONSTANTS.analyses[study.analysis].unit}"`);
  if (describedAs(study).unit === "subject") {
    lines.push(`rows_per_subject = ${study.options.n_timepoints}  # the public largest number of time points of a person`);
  }
  return kind === "labelled" ? [...lines, ...labelLines(study)] : lines;
}

function studyText(study) {
  const equal = study.sizes.every((size) => size === study.sizes[0]);
  const sizes = equal ? `${study.sizes[0]} ${countedUnits(study.analysis)} at each of ${study.sizes.length} sites` :
    `${countedUnits(study.analysis)} per site: ${study.sizes.join(", ")}`;
  return [
    `# Planned with dpcape ${CONSTANTS.version}, for ${sizes}.`,
    "[study]",
    `name = "planned-${study.analysis}"`,
    `analysis = "${CONSTANTS.analyses[study.analysis].study}"`,
    ...parameterLines(study),
    `epsilon = ${decimal(study.epsilon)}`,
    `delta = ${decimal(study.delta)}`,
    "",
    "[protocol]",
    ...protocolLines(study),
    "",
    ...siteNames(study.sizes.length).map((name) => `[sites.${name}]`),
    "",
    "[data]",
    ...dataLines(study),
    "",
  ].join("\n");
}
