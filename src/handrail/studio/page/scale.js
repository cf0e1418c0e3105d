// Numbers and pixels: scales, ticks, and numbers as a hand can mean them.

/** A line of numbers on a line of pixels. */
export class Scale {
  /**
   * @param {number} low
   * @param {number} high
   * @param {number} from pixel of the lowest number
   * @param {number} to pixel of the highest number
   */
  constructor(low, high, from, to) {
    this.low = low;
    this.high = high;
    this.from = from;
    this.to = to;
  }

  /** @param {number} value */
  pixel(value) {
    return this.from + ((value - this.low) / (this.high - this.low)) * (this.to - this.from);
  }

  /** @param {number} pixel */
  value(pixel) {
    return this.low + ((pixel - this.from) / (this.to - this.from)) * (this.high - this.low);
  }

  /** @param {number} count about how many */
  ticks(count) {
    return ticks(this.low, this.high, count);
  }
}

/**
 * Round numbers from low to high.
 * @param {number} low
 * @param {number} high
 * @param {number} count about how many
 */
export function ticks(low, high, count) {
  const rough = (high - low) / Math.max(count, 1);
  if (!(rough > 0) || !Number.isFinite(rough)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough) ?? 10 * power;
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + 1e-9 * step; n += 1) {
    found.push(Number((n * step).toPrecision(12)));
  }
  return found;
}

/**
 * A number that a hand can mean: a thousandth of what is shown is the finest.
 * @param {number} value
 * @param {number} extent of what is shown
 */
export function rounded(value, extent) {
  const digits = Math.min(12, Math.max(0, Math.ceil(-Math.log10(extent / 1000))));
  return Number(value.toFixed(digits)) + 0;
}

/**
 * Few digits, for reading at a glance.
 * @param {number} value
 */
export function brief(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-3) return value.toExponential(1);
  return String(Number(value.toPrecision(3)));
}
