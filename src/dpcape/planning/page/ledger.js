// What the ledger would show after several such studies.

function showLedger({ study }) {
  const studies = whole("studies", "studies");
  if (studies > 1000) throw new Unreadable("studies", `studies must be at most 1000; got ${studies}.`);
  const ceiling = positive("ceiling", "ceiling");
  const delta = byId("ledger-delta").value.trim() === "" ? study.delta : positive("ledger-delta", "delta of the ceiling");
  const spent = (count) => spentEpsilon(count, study.epsilon, study.delta, delta);
  const fitting = studiesWithin(spent, ceiling);
  byId("ledger").replaceChildren(`After ${studies} such stud${studies > 1 ? "ies" : "y"} the ledger of each site shows epsilon `,
    strong(roundUp(spent(studies))), ` at delta ${roundUp(delta, 6)}. ` +
    (fitting === 0 ? `Not one fits under a ceiling of ${general(ceiling, 4)}.`
      : `A ceiling of ${general(ceiling, 4)} lets ${fitting >= 1000 ? "1000 or more" : fitting} through; the next is refused before data is read.`));
  drawLedger({ study, studies, ceiling, spent });
}

// Charges grow with every study, so the last one that fits is found by halving.
function studiesWithin(spent, ceiling) {
  let low = 0;
  let high = 1000;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (spent(middle) <= ceiling) low = middle; else high = middle - 1;
  }
  return low;
}

function drawLedger({ study, studies, ceiling, spent }) {
  const last = Math.max(8, Math.min(studies + 2, 1000));
  const every = Math.ceil(last / 40);
  const counts = Array.from({ length: last + 1 }, (_, index) => index).filter((count) => count % every === 0 || count === studies);
  const points = counts.map((count) => [count, spent(count)]).filter(([, value]) => Number.isFinite(value));
  const high = Math.max(ceiling, points[points.length - 1][1]) * 1.15;
  chart(byId("ledger-chart"), {
    label: `Epsilon in the ledger over the number of studies: ${roundUp(spent(studies))} after ${studies}; ceiling ${general(ceiling, 4)}.`,
    x: { low: 0, high: last, log: false, label: "studies", ticks: linearTicks(last).filter(Number.isInteger) },
    y: { low: 0, high, log: false, format: (value) => general(value, 3) },
    rules: [{ y: ceiling, kind: "ceiling", label: "ceiling" }],
    lines: [{ kind: "plain", points: [[0, 0], [last, last * study.epsilon]] }, { kind: "chosen", points }],
    marks: points.filter(([count]) => count > 0 && last <= 60).map(([x, y]) => ({ x, y, kind: "chosen", small: x !== studies })),
  });
}
