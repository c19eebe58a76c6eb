// Answers, and the page around them.

// Words ---------------------------------------------------------------------------------------------------------------

const grouping = (value) => value.toLocaleString("en-GB");
const isPercent = (unit) => unit !== "ratio";

function figure(value, digits = 3) {
  if (value !== 0 && Math.abs(value) < 1e-4) return general(value, digits).replace(/e-0?(\d+)/, " × 10⁻$1")
    .replace(/⁻(\d+)/, (_, power) => "⁻" + [...power].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join(""));
  return general(value, digits);
}

function shown(error, unit) {
  if (error === null) return "no plan";
  if (!Number.isFinite(error)) return "everything";
  return isPercent(unit) ? `${figure(100 * error)}%` : figure(error);
}

function scenarioTitle(key, study) {
  const largest = new Set(study.sizes).size > 1;
  return { pooled: "Pooled data", chosen: PROTOCOLS[study.protocol.name].title, conventional: "Conventional (independent noise)",
    alone: largest ? "The largest site alone" : "One site alone" }[key];
}

// What a noise scale is compared with.
function yardstick(study) {
  const bound = Math.hypot(...study.bounds);
  const { yardstick: words } = describedAs(study);
  const sizes = {
    "of the bound": () => bound, "of the squared bound": () => bound ** 2, "of the clip": () => study.options.clip,
    "of the largest entry": () => 1, "of its largest length": () => releasesOf(study)[0].statistic.radius,
  };
  return { size: sizes[words](), words };
}

function pairsInto(target, pairs) {
  target.replaceChildren(...pairs.map(([name, value]) => {
    const group = document.createElement("div");
    const term = document.createElement("dt");
    const detail = document.createElement("dd");
    term.textContent = name;
    detail.textContent = value;
    group.append(term, detail);
    return group;
  }));
}

function tableInto(target, header, rows, caption) {
  const cell = (text, name, scope) => {
    const made = document.createElement(name);
    if (scope) made.scope = scope;
    made.textContent = text;
    return made;
  };
  const row = (texts, first, rest) => {
    const made = document.createElement("tr");
    made.append(...texts.map((text, index) => index ? cell(text, ...rest) : cell(text, ...first)));
    return made;
  };
  const head = document.createElement("thead");
  const body = document.createElement("tbody");
  head.append(row(header, ["th", "col"], ["th", "col"]));
  body.append(...rows.map((texts) => row(texts, ["th", "row"], ["td"])));
  const title = document.createElement("caption");
  title.textContent = caption;
  target.replaceChildren(title, head, body);
}

// Answers -------------------------------------------------------------------------------------------------------------

function showAnswer(state) {
  const { study, plan, measure, errors, unit } = state;
  const first = plan.releases[0];
  const { size, words } = yardstick(study);
  const what = document.createElement("span");
  what.className = "what";
  const bounded = plan.releases.some((release) => release.known === "at most");
  what.textContent = `${sentenceCase(measure.title)}${bounded ? "; at most" : ""}. ` +
    `Expect a result that is ${expectedWord(errors.chosen)}.`;
  byId("answer").replaceChildren(strong(shown(errors.chosen, unit)), what, rest(state));
  const several = plan.n_releases > 1;
  const pairs = [
    [several ? "Noise on the first release" : "Noise on the result", `${shown(first.aggregate_scale / size, "share")} ${words}`],
    ["Against pooled data", `${figure(first.noise_ratio)} ×`],
    ["Parameter μ", roundUp(plan.mu, 5)],
    ["Releases", String(plan.n_releases)],
    ["Sent by each site", `${figure(megabytes(study, plan))} MB`],
  ];
  if (plan.settings.minimum < study.sizes.length) {
    pairs.splice(1, 0, [`Noise if only ${plan.settings.minimum} finish`,
      `${shown(first.aggregate_scale_at_minimum / size, "share")} ${words}`]);
  }
  pairsInto(byId("figures"), pairs);
}

function strong(text) {
  const made = document.createElement("strong");
  made.textContent = text;
  return made;
}

function rest({ study, errors, unit }) {
  const sites = study.sizes.length;
  const others = ["pooled", "conventional", "alone"].filter((key) => key !== "conventional" || study.protocol.name !== INDEPENDENT)
    .map((key) => `${scenarioTitle(key, study).toLowerCase().replace(/ \(.*/, "")} ${shown(errors[key], unit)}`);
  return ` ${PROTOCOLS[study.protocol.name].title}, ${grouping(sum(study.sizes))} ${countedUnits(study.analysis)} at ${sites} ` +
    `site${sites > 1 ? "s" : ""}, epsilon ${roundUp(study.epsilon)}. Under the same guarantee: ${others.join(", ")}.`;
}

// The units a site counts.
function countedUnits(analysis) {
  const { kind, unit } = CONSTANTS.analyses[analysis];
  return unit === "subject" ? "subjects" : kind === "subjects" ? "time points" : kind === "documents" ? "documents" : "records";
}

function megabytes(study, plan) {
  const entries = sum(plan.releases.map((release) => release.times * release.entries));
  return 8e-6 * entries * PROTOCOLS[study.protocol.name].vectors;
}

function epsilonRange(epsilon) {
  return { low: Math.min(0.1, epsilon / 2), high: Math.max(10, epsilon * 2) };
}

function showErrors(state) {
  const { study, measure, unit, measured } = state;
  const range = epsilonRange(study.epsilon);
  const epsilons = Array.from({ length: 33 }, (_, index) => range.low * (range.high / range.low) ** (index / 32));
  const curves = Object.entries(state.scenarios).map(([key, scenario]) =>
    [key, epsilons.map((epsilon) => [epsilon, errorAt(scenario, measured, epsilon)])]);
  byId("error-title").textContent = measure.is_error ? "Expected error" : "Noise";
  byId("error-lead").textContent = `${sentenceCase(measure.title)}, against epsilon. Lower is better.`;
  showLegend(state);
  drawErrors(state, curves, range);
  const some = epsilons.map((_, index) => index).filter((index) => index % 4 === 0);
  tableInto(byId("error-table"), ["Epsilon", ...curves.map(([key]) => scenarioTitle(key, study))],
    some.map((index) => [general(epsilons[index], 3), ...curves.map(([, points]) => shown(points[index][1], unit))]),
    sentenceCase(measure.title));
}

const sentenceCase = (text) => text[0].toUpperCase() + text.slice(1);

function showLegend({ study, errors, unit }) {
  byId("legend").replaceChildren(...Object.keys(errors).map((key) => {
    const item = document.createElement("li");
    const swatch = element("svg", { viewBox: "0 0 34 10", "aria-hidden": "true" },
      element("path", { d: "M1 5H33", class: `line ${key}` }));
    item.append(swatch, `${scenarioTitle(key, study).replace(/ \(.*/, "")} `, strong(shown(errors[key], unit)));
    return item;
  }));
}

function drawErrors({ study, errors, unit, measure }, curves, range) {
  const usable = (value) => value !== null && Number.isFinite(value) && value > 0;
  const values = curves.flatMap(([, points]) => points.map(([, value]) => value)).filter(usable);
  if (!values.length) {
    byId("error-chart").textContent = "There is nothing to draw for these numbers.";
    return;
  }
  const ceiling = unit === "share" ? 1 : Infinity;
  const high = Math.min(ceiling, Math.max(...values)) * 1.15;
  const low = Math.max(Math.min(...values) / 1.3, high * 1e-7);
  chart(byId("error-chart"), {
    label: `${sentenceCase(measure.title)} over epsilon. ` + Object.keys(errors).map((key) =>
      `${scenarioTitle(key, study)}: ${shown(errors[key], unit)} at epsilon ${general(study.epsilon, 4)}`).join("; ") + ".",
    x: { ...range, log: true, label: "epsilon (left: more private; right: less noise)" },
    y: { low, high: Math.max(high, low * 2), log: true, format: (value) => isPercent(unit) ? `${general(100 * value, 3)}%` : general(value, 3) },
    rules: [{ x: study.epsilon, kind: "now", label: `epsilon ${general(study.epsilon, 3)}` }],
    lines: curves.map(([key, points]) => ({ kind: key, points: points.filter(([, value]) => usable(value)) })),
    marks: Object.entries(errors).filter(([, value]) => usable(value) && value >= low)
      .map(([key, value]) => ({ x: study.epsilon, y: value, kind: key })),
  });
}

function showWanted({ study, unit, scenarios, measured, measure }) {
  const percent = isPercent(unit);
  byId("wanted-title").textContent = `Smallest epsilon for a target ${measure.is_error ? "error" : "noise"}`;
  byId("wanted-name").textContent = `${sentenceCase(measure.title)}, at most`;
  byId("wanted-unit").textContent = percent ? "%" : "";
  const wanted = positive("wanted", `target ${measure.is_error ? "error" : "noise"}`) / (percent ? 100 : 1);
  const rows = Object.entries(scenarios).map(([key, scenario]) => {
    const epsilon = smallestEpsilon(scenario, measured, wanted);
    return [scenarioTitle(key, study), epsilon === null ? "not reached" : roundUp(epsilon, 3)];
  });
  tableInto(byId("wanted-table"), ["Method", "Smallest epsilon"], rows,
    `At delta ${roundUp(study.delta, 6)}, searched between 0.001 and 1000, rounded up.`);
}

function showGuarantee({ study, plan }) {
  const { unit, owner_note, note } = CONSTANTS.analyses[study.analysis];
  byId("sentence").textContent = sentence(study, plan);
  pairsInto(byId("guarantee"), [
    ["epsilon", `${roundUp(plan.epsilon)} at delta ${roundUp(study.delta, 6)} (mu ${roundUp(plan.mu, 5)})`],
    ["result only", `epsilon ${roundUp(plan.output_only)}, against someone who sees only the result`],
    ["protects", `one ${unit} of one site, replaced${owner_note ? `; ${owner_note}` : ""}`],
    ["against", adversary(study.protocol)],
    ["must finish", `${plan.settings.minimum} of ${study.sizes.length} sites`],
  ]);
  tableInto(byId("release-table"),
    ["Release", "Times", "Numbers", "Sensitivity", "Own scale", "Shared scale", "On the mean", "Pooled data"],
    plan.releases.map((release) => [releaseName(release), String(release.times), grouping(release.entries),
      ...["sensitivity", "own_scale", "shared_scale", "aggregate_scale", "pooled_scale"].map((name) => figure(release[name], 4))]),
    "Noise of each release");
  byId("release-note").textContent = note;
}

function releaseName({ statistic, known }) {
  const how = { exact: "", relative: ", relative", "at most": ", at most" }[known];
  return statistic.replaceAll("_", " ") + how;
}

function showRehearsal({ study, measure }) {
  byId("rehearse").hidden = measure.is_error;
  byId("snippet").value = rehearsal(study);
}

// The page ------------------------------------------------------------------------------------------------------------

function stateOf() {
  const study = readStudy();
  const plan = planStudy(study);
  const declared = readDeclared(study);
  const { measure: title, measured_in: unit, is_error } = CONSTANTS.analyses[study.analysis];
  const measured = measureOf(study, declared);
  const scenarios = scenariosOf(study);
  const errors = Object.fromEntries(Object.entries(scenarios).map(([key, scenario]) =>
    [key, errorAt(scenario, measured, study.epsilon)]));
  return { study, plan, declared, measure: { title, is_error }, unit, measured, scenarios, errors };
}

function refuse(error) {
  if (!(error instanceof Refused)) throw error;
  byId("refusal").hidden = false;
  byId("refusal").textContent = sentenceCase(error.message);
  // No number may stay that belongs to another study.
  byId("answers").hidden = true;
  if (error.id) byId(error.id).setAttribute("aria-invalid", "true");
}

function update() {
  for (const field of document.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
  for (const place of ["copied", "copied-snippet"]) byId(place).textContent = "";
  showFields();
  try {
    const state = stateOf();
    byId("refusal").hidden = true;
    byId("answers").hidden = false;
    byId("study").value = studyText(state.study);
    for (const show of [showAnswer, showErrors, showGuarantee, showWanted, showRehearsal, showLedger]) show(state);
  } catch (error) {
    refuse(error);
  }
}

// Show only the fields that apply to the chosen analysis and protocol.
function showFields() {
  const analysis = byId("analysis").value;
  const { kind, many_views: many } = CONSTANTS.analyses[analysis];
  const { n_colluding, minimum_sites } = PROTOCOLS[byId("protocol").value].parameters;
  const shape = byId("shape").value;
  const { spectral, explained } = CONSTANTS.analyses[analysis];
  const wanted = {
    one: true, views: kind === "views" && !many, bounded: !["documents", "table"].includes(kind), spectrum: spectral,
    decay: ["power", "geometric"].includes(shape), energy: shape !== "own", own: shape === "own",
    explained, colluding: Boolean(n_colluding), minimum: Boolean(minimum_sites),
  };
  for (const field of document.querySelectorAll("[data-for]")) field.hidden = !wanted[field.dataset.for];
  byId("declared").hidden = !spectral;
  byId("features-name").textContent = many ? "Features per view" : { views: "Features of X", documents: "Words", subjects: "Voxels", table: "Columns" }[kind] || "Features";
  byId("records-name").textContent = `${sentenceCase(countedUnits(analysis))} per site`;
  const bounded = kind === "subjects" ? "time point" : "record";
  byId("bound-note").textContent =
    `The bound is the maximum norm of a ${bounded}; longer ones are scaled down at the site.` +
    (many ? " One number for three views of the same kind, or one for each: 40, 20, 8." : "");
  byId("bound-name").textContent = many ? "Bound per view" : kind === "views" ? "Bound of X" : "Bound";
  byId("decay-name").textContent = shape === "geometric" ? "Factor r" : "Exponent a";
}

function showOptions() {
  const { options, asked, measured_in, unit } = CONSTANTS.analyses[byId("analysis").value];
  byId("wanted").value = isPercent(measured_in) ? "5" : "0.5";
  // There are fewer people than records; a number the user entered stays.
  const usual = { record: "6000", subject: "200" };
  if (Object.values(usual).includes(byId("records").value)) byId("records").value = usual[unit];
  byId("options").replaceChildren(...Object.entries(options).map(([name, usual]) => {
    const label = document.createElement("label");
    const input = document.createElement("input");
    input.id = `option-${name}`;
    if (typeof usual === "boolean") {
      label.className = "check";
      input.type = "checkbox";
      input.checked = usual;
      label.append(input, ` ${asked[name].title}`);
    } else {
      label.className = "field";
      input.inputMode = "decimal";
      if (usual === null) input.placeholder = asked[name].left_out; else input.value = usual;
      label.append(`${asked[name].title} `, input);
    }
    return label;
  }));
}

// Controls that are set from outside: names of controls, "options" for the analysis' own.
function setControls(values) {
  const { options = {}, ...plain } = values;
  if (plain.analysis !== undefined) byId("analysis").value = plain.analysis;
  showOptions();
  for (const [id, value] of Object.entries(plain)) byId(id).value = value;
  for (const [name, value] of Object.entries(options)) {
    const input = byId(`option-${name}`);
    if (input.type === "checkbox") input.checked = value; else input.value = value;
  }
  followEpsilon();
  update();
}

function followEpsilon() {
  const value = Number(byId("epsilon").value);
  if (!(value > 0)) return;
  byId("epsilon-slider").value = Math.log10(value);
  byId("epsilon-slider").setAttribute("aria-valuetext", `epsilon ${general(value, 3)}`);
}

let waiting = 0;
function soon() {
  cancelAnimationFrame(waiting);
  waiting = requestAnimationFrame(update);
}

async function copyText(text, said) {
  try {
    await navigator.clipboard.writeText(text.value);
    said.textContent = "Copied.";
  } catch {
    text.focus();
    text.select();
    said.textContent = "Selected: press Ctrl+C to copy.";
  }
}

byId("epsilon-slider").addEventListener("input", (event) => {
  byId("epsilon").value = general(10 ** Number(event.target.value), 3);
  followEpsilon();
});
byId("epsilon").addEventListener("input", followEpsilon);
byId("analysis").addEventListener("change", showOptions);
byId("shape").addEventListener("change", (event) => {
  const usual = { power: "1", geometric: "0.8" }[event.target.value];
  if (usual) byId("decay").value = usual;
});
byId("controls").addEventListener("submit", (event) => event.preventDefault());
byId("copy").addEventListener("click", () => copyText(byId("study"), byId("copied")));
byId("copy-snippet").addEventListener("click", () => copyText(byId("snippet"), byId("copied-snippet")));
document.addEventListener("input", soon);
document.addEventListener("change", soon);
window.addEventListener("resize", soon);
setControls({ analysis: "pca", ...START });
