// A rehearsal in Python that belongs to a plan.

const pyValue = (value) => typeof value === "string" ? `"${value}"` : value === true ? "True" : value === false ? "False"
  : String(value);

function protocolCall(protocol) {
  const given = protocolParameters(protocol).map(([name, value]) => `${name}=${pyValue(value)}`);
  return `${PROTOCOLS[protocol.name].python}(${given.join(", ")})`;
}

function analysisCall(study) {
  const { python } = CONSTANTS.analyses[study.analysis];
  const given = parametersOf(study).map(([name, value]) => `${name}=${pyValue(value)}`);
  if (groupLevels(study).length) given.push('by=["group"]');
  given.push(...contrastParameters(study).map(([name, value]) => `${name}=${value}`));
  if (study.options.n_basis) given.push(`basis=np.eye(${study.widths[0]}, ${study.options.n_basis})`);
  const bases = [study.options.n_x_basis, study.options.n_y_basis];
  if (bases.some((few) => few)) {
    given.push(`basis=(${bases.map((few, view) => few ? `np.eye(${study.widths[view]}, ${few})` : "None").join(", ")})`);
  }
  return `${python}(${[...given, `epsilon=${study.epsilon}`, `delta=${study.delta}`].join(", ")})`;
}

// One line that simulates records; users replace it by their own simulation.
function madeUp(study) {
  const { kind, unit } = CONSTANTS.analyses[study.analysis];
  const [width, bound] = [study.widths[0], study.bounds[0]];
  const spread = general(0.5 * bound / Math.sqrt(width), 3);
  const rows = (shape) => `${spread} * source.laplace(size=${shape})`;
  const table = rows(`(n, ${width})`);
  const classes = study.options.n_classes || 2;
  if (kind === "documents") return `documents(source.multinomial(60, np.full(${width}, 1 / ${width}), size=n))`;
  if (kind === "table") return madeUpTable(study);
  if (kind === "views") return madeUpViews(study);
  const { labels } = describedAs(study);
  if (labels === "counts") return `labelled(${table}, source.integers(11, size=n), bound=${bound}, response=(0, 10))`;
  if (labels === "response") return `labelled(${table}, source.uniform(size=n), bound=${bound}, response=(0, 1))`;
  if (kind === "labelled") return `labelled(${table}, source.integers(${classes}, size=n), bound=${bound}, classes=range(${classes}))`;
  if (kind === "rows") return `rows(${table}, bound=${bound})`;
  const series = unit === "record" ? `[${table}]` : `[${rows(`(${study.options.n_timepoints}, ${width})`)} for _ in range(n)]`;
  const longest = unit === "subject" ? `, rows_per_subject=${study.options.n_timepoints}, n_features=${width}` : "";
  return `subjects(${series}, bound=${bound}, unit="${unit}"${longest})`;
}

function madeUpViews(study) {
  const tables = study.widths.map((width, view) =>
    `${general(0.5 * study.bounds[view] / Math.sqrt(width), 3)} * source.laplace(size=(n, ${width}))`);
  return `views(${tables.join(", ")}, bounds=(${study.bounds.join(", ")}))`;
}

function madeUpTable(study) {
  if (describedAs(study).labels === "events") return madeUpTimes(study);
  const names = `f"x{number}" for number in range(1, ${study.widths[0] + 1})`;
  const name = names.split(" ")[0];
  const rest = names.slice(name.length + 1);
  const groups = groupLevels(study);
  const more = [...(groups.length ? [["group", groups]] : []), ...contrastColumns(study)];
  const values = more.map(([column, levels]) => `, "${column}": ` +
    (levels.length ? `source.choice(np.array([${levels.join(", ")}], dtype=object), n)` : "source.uniform(size=n)")).join("");
  const columns = more.map(([column, levels]) => `, "${column}": ` +
    (levels.length ? `[${levels.join(", ")}]` : "(0, 1)")).join("");
  return `table({**{${name}: source.uniform(size=n) ${rest}}${values}}, ` +
    `columns={**{${name}: (0, 1) ${rest}}${columns}})`;
}

function madeUpTimes(study) {
  const levels = groupLevels(study).join(", ");
  const values = levels ? `, "group": source.choice(np.array([${levels}], dtype=object), n)` : "";
  const columns = levels ? `, "group": [${levels}]` : "";
  const numbers = contrastColumns(study).map(([name]) => name);
  const drawn = numbers.map((name) => `, "${name}": source.uniform(size=n)`).join("");
  const ranges = numbers.map((name) => `, "${name}": (0, 1)`).join("");
  return `table({"days": source.uniform(0, 1000, size=n), "died": source.integers(2, size=n)${values}${drawn}}, ` +
    `columns={"survival": {"time": "days", "event": "died", "range": [0, 1000]}${columns}${ranges}})`;
}

function sizesText(sizes) {
  const equal = sizes.every((size) => size === sizes[0]);
  const numbers = equal ? `[${sizes[0]}] * ${sizes.length}` : `[${sizes.join(", ")}]`;
  return `sizes = {f"site-{number}": size for number, size in enumerate(${numbers}, start=1)}`;
}

function rehearsal(study) {
  const { kind, python } = CONSTANTS.analyses[study.analysis];
  const names = [PROTOCOLS[study.protocol.name].python, "Federation", python, "in_process", kind];
  return [
    "import numpy as np",
    "",
    `from dpcape import ${names.join(", ")}`,
    "",
    "source = np.random.default_rng(0)",
    "",
    "",
    "def simulated(n):",
    "    # Your own simulation goes here; never the records themselves.",
    `    return ${madeUp(study)}`,
    "",
    "",
    sizesText(study.sizes),
    "sites = in_process({name: simulated(size) for name, size in sizes.items()})",
    `federation = Federation(sites, protocol=${protocolCall(study.protocol)})`,
    `analysis = ${analysisCall(study)}`,
    "print(federation.plan(analysis))  # the noise of each release",
    "model = analysis.fit(federation)  # compare it with what you simulated",
    "",
  ].join("\n");
}
