// Exact (epsilon, delta) of a Gaussian release: the functions of privacy.gaussian, .terms and .ledger.
"use strict";

const SAFETY = 1e-12;

class Refused extends Error {}

function ratio(x, top, bottom) {
  const value = (list) => list.reduce((sum, entry) => sum * x + entry, 0);
  return value(top) / value(bottom);
}

// exp(x^2) erfc(x) for x >= 0; W. J. Cody, Rational Chebyshev approximations for the error function, 1969.
function erfcx(x) {
  if (x < 0.46875) {
    const square = x * x;
    const erf = x * ratio(square,
      [1.85777706184603153e-1, 3.16112374387056560, 1.13864154151050156e2, 3.77485237685302021e2, 3.20937758913846947e3],
      [1, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3]);
    return Math.exp(square) * (1 - erf);
  }
  if (x <= 4) {
    return ratio(x,
      [2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594, 6.61191906371416295e1,
        2.98635138197400131e2, 8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3,
        1.23033935479799725e3],
      [1, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3,
        3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3]);
  }
  const inverse = 1 / (x * x);
  const tail = inverse * ratio(inverse,
    [1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1,
      1.60837851487422766e-2, 6.58749161529837803e-4],
    [1, 2.56852019228982242, 1.87295284992346725, 5.27905102951428412e-1, 6.05183413124413191e-2,
      2.33520497626869185e-3]);
  return (1 / Math.sqrt(Math.PI) - tail) / x;
}

// Phi(-x) for x <= 0 in the first, log Phi(-x) for x >= 0 in the second.
const upperHalf = (x) => 1 - 0.5 * erfcx(-x / Math.SQRT2) * Math.exp(-x * x / 2);
const logLowerTail = (x) => Math.log(0.5 * erfcx(x / Math.SQRT2)) - x * x / 2;
const millsRatio = (x) => Math.sqrt(Math.PI / 2) * erfcx(x / Math.SQRT2);

function deltaOf(epsilon, mu) {
  if (mu === 0 || epsilon === Infinity) return 0;
  if (mu === Infinity) return 1;
  const x = epsilon / mu - mu / 2;
  if (x > 0) {
    const density = Math.exp(-x * x / 2) / Math.sqrt(2 * Math.PI);
    return density * (millsRatio(x) - millsRatio(x + mu));
  }
  return Math.max(0, upperHalf(x) - Math.exp(epsilon + logLowerTail(x + mu)));
}

function bisect(holds, low, high) {
  for (let step = 0; step < 200; step++) {
    const middle = (low + high) / 2;
    if (middle === low || middle === high) break;
    if (holds(middle)) high = middle; else low = middle;
  }
  return high;
}

function requireDelta(delta) {
  if (!(delta > 0 && delta < 1)) throw new Refused(`delta must be strictly between 0 and 1; got ${pyNumber(delta)}. Write for example 1e-6.`);
}

function epsilonOf(delta, mu) {
  requireDelta(delta);
  if (mu === Infinity) return Infinity;
  if (deltaOf(0, mu) <= delta) return 0;
  const upper = mu * mu / 2 + mu * Math.sqrt(2 * Math.log(1 / delta));
  return bisect((epsilon) => deltaOf(epsilon, mu) <= delta, 0, upper * (1 + 1e-9)) * (1 + SAFETY);
}

// All releases of a study ask for the same mu.
const foundMus = new Map();

function muOf(epsilon, delta) {
  requireDelta(delta);
  const key = `${epsilon} ${delta}`;
  if (foundMus.has(key)) return foundMus.get(key);
  let upper = 1;
  while (deltaOf(epsilon, upper) <= delta) upper *= 2;
  const mu = -bisect((negative) => deltaOf(epsilon, -negative) <= delta, -upper, 0) * (1 - SAFETY);
  if (foundMus.size > 500) foundMus.clear();
  foundMus.set(key, mu);
  return mu;
}

const compose = (mus) => Math.sqrt(mus.reduce((sum, mu) => sum + mu * mu, 0));

// What is kept back for integer noise; the numbers come from Python with the page.
const epsilonReserve = (epsilon) => Math.min(CONSTANTS.gap_share * epsilon, CONSTANTS.largest_gap);
const tailReserve = (delta) => CONSTANTS.tail_share * delta;
const targetMu = (epsilon, delta) => muOf(epsilon - epsilonReserve(epsilon), delta * (1 - CONSTANTS.delta_reserve));

function printedEpsilon(delta, mu, gap, tail) {
  const ideal = (delta - tail) * Math.exp(-gap);
  return ideal > 0 ? epsilonOf(ideal, mu) + gap : Infinity;
}

// What a site's ledger shows after so many equal studies, at the ledger's own delta.
function spentEpsilon(studies, epsilon, delta, ledgerDelta) {
  if (studies === 0) return 0;
  const mu = targetMu(epsilon, delta) * Math.sqrt(studies);
  const tail = tailReserve(delta);
  const spent = printedEpsilon(ledgerDelta, mu, studies * epsilonReserve(epsilon), studies * tail);
  return spent <= CONSTANTS.tail_exponent - 1 + Math.log(tail) ? spent : Infinity;
}

// Numbers as Python writes them.
function pyNumber(value) {
  if (Number.isInteger(value) && Math.abs(value) < 1e16) return value.toFixed(1);
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
  const [digits, power] = value.toExponential().split("e");
  if (Number(power) >= -4 && Number(power) < 16) return String(value);
  return `${digits}e${power[0]}${power.slice(1).padStart(2, "0")}`;
}

// Like "%.{digits}g".
function general(value, digits) {
  if (!Number.isFinite(value)) return pyNumber(value);
  if (value === 0) return "0";
  const [mantissa, power] = value.toExponential(digits - 1).split("e");
  const exponent = Number(power);
  if (exponent >= -4 && exponent < digits) return String(Number(value.toPrecision(digits)));
  return `${Number(mantissa)}e${power[0]}${power.slice(1).padStart(2, "0")}`;
}

// Rounded up, so that a printed epsilon is never too small.
function roundUp(value, digits = 4) {
  if (!Number.isFinite(value) || value === 0) return general(value, 6);
  const unit = 10 ** (Math.floor(Math.log10(Math.abs(value))) - digits + 1);
  return general(Math.ceil(value / unit * (1 - 1e-13)) * unit, digits);
}
