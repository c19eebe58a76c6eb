// Line pictures as SVG. Colours come from the style sheet, so that both colour schemes and print work.

const SVG = "http://www.w3.org/2000/svg";

function element(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Round numbers for an axis: 1, 2 and 5 times powers of ten if they are few, else powers of ten.
function logTicks(low, high) {
  const ticks = (factors) => {
    const found = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
      for (const factor of factors) {
        const value = factor * 10 ** power;
        if (value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9)) found.push(value);
      }
    }
    return found;
  };
  const fine = ticks([1, 2, 5]);
  if (fine.length <= 8) return fine;
  const coarse = ticks([1]);
  const every = Math.ceil(coarse.length / 7);
  return coarse.filter((_, index) => index % every === 0);
}

function linearTicks(high) {
  const raw = high / 5;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((value) => value >= raw);
  return Array.from({ length: Math.floor(high / step + 1e-9) + 1 }, (_, index) => index * step);
}

// options: {x: {low, high, log, label, ticks}, y: {low, high, log, format, label}, lines: [{points, kind}],
//           marks: [{x, y, kind}], rules: [{x | y, kind, label}], label}
function chart(target, options) {
  const width = Math.max(300, Math.min(760, target.clientWidth || 640));
  const height = width < 480 ? 300 : 340;
  const box = { left: 66, right: 14, top: 14, bottom: 46 };
  const along = (axis, from, to) => (value) => {
    const place = axis.log ? Math.log(value / axis.low) / Math.log(axis.high / axis.low)
      : (value - axis.low) / (axis.high - axis.low);
    return from + (to - from) * place;
  };
  const x = along(options.x, box.left, width - box.right);
  const y = along(options.y, height - box.bottom, box.top);
  const drawn = element("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": options.label });
  drawn.append(...axes(options, { x, y, width, height, box }));
  const clip = element("clipPath", { id: `${target.id}-clip` }, element("rect",
    { x: box.left, y: box.top - 4, width: width - box.left - box.right, height: height - box.top - box.bottom + 8 }));
  drawn.append(clip);
  for (const rule of options.rules || []) drawn.append(...ruleOf(rule, { x, y, width, height, box }));
  for (const line of options.lines) {
    const path = line.points.map(([at, value], index) => `${index ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`);
    drawn.append(element("path", { d: path.join(""), class: `line ${line.kind}`, "clip-path": `url(#${target.id}-clip)` }));
  }
  for (const mark of options.marks || []) {
    drawn.append(element("circle", { cx: x(mark.x), cy: y(mark.y), r: mark.small ? 3 : 5, class: `mark ${mark.kind}` }));
  }
  target.replaceChildren(drawn);
}

function axes(options, { x, y, width, height, box }) {
  const parts = [];
  const xs = options.x.ticks || logTicks(options.x.low, options.x.high);
  for (const tick of xs) {
    parts.push(element("line", { x1: x(tick), x2: x(tick), y1: box.top, y2: height - box.bottom, class: "grid" }));
    parts.push(element("text", { x: x(tick), y: height - box.bottom + 18, class: "tick", "text-anchor": "middle" },
      general(tick, 3)));
  }
  const ys = options.y.log ? logTicks(options.y.low, options.y.high) : linearTicks(options.y.high);
  for (const tick of ys) {
    parts.push(element("line", { x1: box.left, x2: width - box.right, y1: y(tick), y2: y(tick), class: "grid" }));
    parts.push(element("text", { x: box.left - 8, y: y(tick) + 4, class: "tick", "text-anchor": "end" },
      options.y.format(tick)));
  }
  parts.push(element("text", { x: (box.left + width - box.right) / 2, y: height - 6, class: "axis", "text-anchor": "middle" },
    options.x.label));
  return parts;
}

function ruleOf(rule, { x, y, width, height, box }) {
  const at = rule.x === undefined
    ? { x1: box.left, x2: width - box.right, y1: y(rule.y), y2: y(rule.y) }
    : { x1: x(rule.x), x2: x(rule.x), y1: box.top, y2: height - box.bottom };
  const parts = [element("line", { ...at, class: `rule ${rule.kind}` })];
  if (rule.label) {
    const near = rule.x === undefined ? { x: box.left + 6, y: y(rule.y) - 6, "text-anchor": "start" }
      : x(rule.x) > width - 120 ? { x: x(rule.x) - 6, y: box.top + 12, "text-anchor": "end" }
        : { x: x(rule.x) + 6, y: box.top + 12, "text-anchor": "start" };
    parts.push(element("text", { ...near, class: "label" }, rule.label));
  }
  return parts;
}
