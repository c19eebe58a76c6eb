// Reads the controls.

const byId = (id) => document.getElementById(id);
const LARGEST = 1e9;

class Unreadable extends Refused {
  constructor(id, message) {
    super(message);
    this.id = id;
  }
}

function whole(id, name, least = 1) {
  const text = byId(id).value.trim().replaceAll(/[ _]/g, "");
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < least || value > LARGEST) {
    throw new Unreadable(id, `${name} must be a whole number of at least ${least}; got ${text || "an empty field"}.`);
  }
  return value;
}

function positive(id, name) {
  const text = byId(id).value.trim();
  const value = Number(text);
  if (text === "" || !(value > 0 && Number.isFinite(value))) {
    throw new Unreadable(id, `${name} must be a positive number; got ${text || "an empty field"}.`);
  }
  return value;
}

function zeroOrMore(id, name) {
  return Number(byId(id).value.trim() || "x") === 0 ? 0 : positive(id, name);
}

function numbers(id, name) {
  const parts = byId(id).value.split(/[,;\s]+/).filter((part) => part !== "");
  const values = parts.map(Number);
  if (!parts.length || values.some((value) => !Number.isFinite(value))) {
    throw new Unreadable(id, `${name} must be numbers separated by commas; got ${byId(id).value.trim() || "an empty field"}.`);
  }
  return values;
}

function readSizes() {
  const records = numbers("records", "records per site");
  if (records.some((value) => !Number.isInteger(value) || value < 1 || value > LARGEST)) {
    throw new Unreadable("records", `records per site must be whole numbers of at least 1; got ${byId("records").value}.`);
  }
  if (records.length > 1) {
    byId("sites").value = records.length;
    return records;
  }
  const sites = whole("sites", "sites");
  if (sites > 10000) throw new Unreadable("sites", `sites must be at most 10000; got ${sites}.`);
  return Array(sites).fill(records[0]);
}

const OPTION_READERS = { whole, positive, number: zeroOrMore };

function readOptions(analysis) {
  const read = {};
  const { options, asked } = CONSTANTS.analyses[analysis];
  for (const [name, usual] of Object.entries(options)) {
    const id = `option-${name}`;
    if (typeof usual === "boolean") read[name] = byId(id).checked;
    else if (usual === null && byId(id).value.trim() === "") read[name] = null;
    else {
      const { kind, title, least } = asked[name];
      read[name] = OPTION_READERS[kind](id, title.toLowerCase(), least);
    }
  }
  return read;
}

function readProtocol() {
  const name = byId("protocol").value;
  const { n_colluding, minimum_sites, cancelling_ratio } = PROTOCOLS[name].parameters;
  const count = (id, { title, least }) => whole(id, title.toLowerCase(), least);
  const minimum = !minimum_sites || byId("minimum").value.trim() === "" ? null : count("minimum", minimum_sites);
  const colluding = n_colluding ? count("colluding", n_colluding) : 0;
  return { name, colluding, minimum, ratio: cancelling_ratio ? cancelling_ratio.default : null };
}

// Widths and bounds of three or more views: one number for all, or one for each.
function readManyViews() {
  const [widths, bounds] = [numbers("features", "features per view"), numbers("bound", "bound per view")];
  if (widths.some((value) => !Number.isInteger(value) || value < 1 || value > LARGEST)) {
    throw new Unreadable("features", `features per view must be whole numbers of at least 1; got ${byId("features").value}.`);
  }
  if (widths.length > CONSTANTS.most_views) {
    throw new Unreadable("features", `views must be at most ${CONSTANTS.most_views}; got ${widths.length}.`);
  }
  const count = widths.length > 1 ? widths.length : Math.max(bounds.length, 3);
  if (![1, count].includes(bounds.length) || bounds.some((value) => !(value > 0))) {
    throw new Unreadable("bound", `bound per view must be one positive number, or one for each of ${count} views; ` +
      `got ${byId("bound").value}.`);
  }
  const each = (given) => given.length > 1 ? given : Array(count).fill(given[0]);
  return { widths: each(widths), bounds: each(bounds) };
}

function readShape(analysis) {
  const { kind, many_views } = CONSTANTS.analyses[analysis];
  if (many_views) return readManyViews();
  const views = kind === "views";
  return {
    widths: views ? [whole("features", "features of X"), whole("features-y", "features of Y")]
      : [whole("features", "features")],
    bounds: ["documents", "table"].includes(kind) ? [1] : views ? [positive("bound", "bound of X"), positive("bound-y", "bound of Y")]
      : [positive("bound", "bound")],
  };
}

function readStudy() {
  const analysis = byId("analysis").value;
  return {
    analysis,
    ...readShape(analysis),
    sizes: readSizes(),
    protocol: readProtocol(),
    epsilon: positive("epsilon", "epsilon"),
    delta: positive("delta", "delta"),
    options: readOptions(analysis),
  };
}

function readDeclared(study) {
  const usual = { shape: "power", decay: 1, energy: 0.5, values: [], explained: 0.5 };
  if (!describedAs(study).spectral) return usual;
  const shape = byId("shape").value;
  const explained = describedAs(study).explained ? positive("explained", "explained variance") : usual.explained;
  if (shape === "own") return { ...usual, values: numbers("values", "eigenvalues"), explained };
  const decay = shape === "flat" ? usual.decay : positive("decay", "decay");
  return { shape, decay, energy: positive("energy", "mean squared norm"), values: [], explained };
}
