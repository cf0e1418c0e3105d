// Small charts in SVG: curves, histograms, and what was observed over time.

import { svg } from "./elements.js";
import { Scale, brief } from "./scale.js";

/** @typedef {{label: string, values: (number | null)[], style: "now" | "then" | "run"}} Series */

const BOX = { width: 340, height: 118, left: 54, right: 10, top: 18, bottom: 18 };

/**
 * @param {string} title
 * @param {Series[]} series
 * @param {{mark?: number | null, smooth?: number, end?: number}} [options] a value to reach, how many values to average, the last index
 */
export function curves(title, series, { mark = null, smooth = 1, end = 0 } = {}) {
  const lines = series.map((one) => ({ ...one, values: averaged(one.values, smooth) }));
  const known = lines.flatMap((one) => one.values).filter((one) => one !== null);
  const length = Math.max(end, 2, ...lines.map((one) => one.values.length));
  const [low, high] = extent(mark === null ? known : [...known, mark]);
  const x = new Scale(0, length - 1, BOX.left, BOX.width - BOX.right);
  const y = new Scale(low, high, BOX.height - BOX.bottom, BOX.top);
  const chart = frame(title, x, y, `0 to ${length - 1}`);
  if (mark !== null) chart.append(svg("line", { class: "mark", x1: x.from, x2: x.to, y1: y.pixel(mark), y2: y.pixel(mark) }));
  for (const { values, style, label } of [...lines].reverse()) {
    let drawing = false;
    const d = values.map((value, i) => {
      if (value === null || !Number.isFinite(value)) {
        drawing = false;
        return "";
      }
      const part = `${drawing ? "L" : "M"}${x.pixel(i).toFixed(1)} ${y.pixel(value).toFixed(1)}`;
      drawing = true;
      return part;
    });
    chart.append(svg("path", { class: style, d: d.join("") }, svg("title", {}, label)));
  }
  return chart;
}

/**
 * @param {string} title
 * @param {number[]} now
 * @param {number[]} then
 * @param {number | null} mark
 */
export function histogram(title, now, then, mark) {
  const [low, high] = extent([...now, ...then, ...(mark === null ? [] : [mark])]);
  const bins = 16;
  const count = (/** @type {number[]} */ values) => {
    const found = new Array(bins).fill(0);
    for (const value of values) found[Math.min(bins - 1, Math.floor(((value - low) / (high - low)) * bins))] += 1;
    return found;
  };
  const [first, second] = [count(now), count(then)];
  const x = new Scale(low, high, BOX.left, BOX.width - BOX.right);
  const y = new Scale(0, Math.max(1, ...first, ...second), BOX.height - BOX.bottom, BOX.top);
  const chart = frame(title, x, y);
  const width = (x.to - x.from) / bins;
  for (let k = 0; k < bins; k += 1) {
    const left = x.from + k * width;
    chart.append(svg("rect", { class: "bar-then", x: left + width * 0.5, y: y.pixel(second[k]), width: width * 0.42, height: y.from - y.pixel(second[k]) }));
    chart.append(svg("rect", { class: "bar-now", x: left + width * 0.06, y: y.pixel(first[k]), width: width * 0.42, height: y.from - y.pixel(first[k]) }));
  }
  if (mark !== null) chart.append(svg("line", { class: "mark", x1: x.pixel(mark), x2: x.pixel(mark), y1: y.from, y2: y.to }));
  return chart;
}

/**
 * @param {string} title
 * @param {Scale} x
 * @param {Scale} y
 * @param {string} [words] said of the axis instead of its numbers
 */
function frame(title, x, y, words) {
  const chart = svg("svg", { class: "chart", viewBox: `0 0 ${BOX.width} ${BOX.height}`, role: "img", "aria-label": title });
  chart.append(svg("text", { class: "name", x: BOX.left, y: 11 }, title));
  for (const value of [y.low, (y.low + y.high) / 2, y.high]) {
    chart.append(svg("line", { class: "axis", x1: x.from, x2: x.to, y1: y.pixel(value), y2: y.pixel(value) }));
    chart.append(svg("text", { x: x.from - 5, y: y.pixel(value) + 3.5, "text-anchor": "end" }, brief(value)));
  }
  if (words) chart.append(svg("text", { x: x.to, y: y.from + 13, "text-anchor": "end" }, words));
  else for (const value of x.ticks(5)) chart.append(svg("text", { x: x.pixel(value), y: y.from + 13, "text-anchor": "middle" }, brief(value)));
  return chart;
}

/**
 * @param {number[]} values
 * @returns {[number, number]}
 */
function extent(values) {
  const finite = values.filter(Number.isFinite);
  if (!finite.length) return [0, 1];
  const [low, high] = [Math.min(...finite), Math.max(...finite)];
  if (low === high) return [low - (Math.abs(low) || 1) / 2, high + (Math.abs(high) || 1) / 2];
  return [low, high];
}

/**
 * @param {(number | null)[]} values
 * @param {number} count of the last ones
 */
function averaged(values, count) {
  if (count <= 1) return values;
  let sum = 0;
  return values.map((value, i) => {
    sum += value ?? 0;
    if (i >= count) sum -= values[i - count] ?? 0;
    return sum / Math.min(i + 1, count);
  });
}
