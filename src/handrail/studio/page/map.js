// The policy over a plane: colours on a canvas, axes, level lines, and proven cells in SVG.

import { contour } from "./contour.js";
import { diverging, kind, middle, proven } from "./colours.js";
import { html, svg } from "./elements.js";
import { Scale, brief } from "./scale.js";

/** @typedef {import("./types.js").Map} PolicyMap */
/** @typedef {import("./types.js").View} View */
/** @typedef {import("./types.js").Names} Names */
/** @typedef {import("./types.js").Cell} Cell */
/** @typedef {{what: "output" | "likeliest" | "change", action: number}} Layer */

const MARGIN = { left: 58, right: 66, top: 14, bottom: 42 };

/** What is shown of a policy: numbers on a grid, and how they become colours. */
export class Field {
  /**
   * @param {PolicyMap} map
   * @param {PolicyMap | null} before
   * @param {Names} names
   * @param {Layer} layer
   */
  constructor(map, before, names, layer) {
    this.map = map;
    this.layer = layer;
    this.names = names;
    const values = numbers(map);
    const size = map.columns * map.rows;
    this.values = new Float64Array(size);
    this.kinds = new Uint8Array(size);
    if (layer.what === "likeliest") {
      for (let i = 0; i < size; i += 1) {
        for (let action = 0; action < map.outputs; action += 1) {
          const value = values[action * size + i];
          if (action === 0 || value > this.values[i]) [this.values[i], this.kinds[i]] = [value, action];
        }
      }
    } else {
      const first = Math.min(layer.action, map.outputs - 1) * size;
      this.values.set(values.subarray(first, first + size));
      if (layer.what === "change" && before) {
        const old = numbers(before);
        for (let i = 0; i < size; i += 1) this.values[i] -= old[first + i];
      }
    }
    const [low, high] = this.limits();
    this.low = low;
    this.high = high;
  }

  /** @returns {[number, number]} the numbers of the two ends of the colours */
  limits() {
    if (this.layer.what === "change") {
      let most = 1e-9;
      for (const value of this.values) most = Math.max(most, Math.abs(value));
      return [-most, most];
    }
    const range = this.names.ranges?.[this.layer.action];
    return this.noise() ?? range ?? [0, 1];
  }

  /** @returns {import("./types.js").Pair | undefined} between which a standard deviation lies, if one is shown */
  noise() {
    return this.names.noises[this.layer.action - this.names.actions.length];
  }

  /**
   * The colour of a part of the way from the lowest number to the highest; noise has one side only.
   * @param {number} share
   * @param {import("./colours.js").Colour} centre
   */
  colour(share, centre) {
    const oneSided = this.layer.what === "output" && this.noise();
    return diverging(oneSided ? 0.5 + share / 2 : share, centre);
  }

  /** The level of the line that tells one side from the other; null where there is none. */
  level() {
    if (this.noise()) return null;
    if (this.layer.what === "output") return this.names.ranges ? 0 : this.names.actions.length === 2 ? 0.5 : null;
    return null;
  }

  /** @returns {HTMLCanvasElement} one pixel for each state, the top row first */
  picture() {
    const { columns, rows } = this.map;
    const canvas = html("canvas", { width: columns, height: rows });
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const image = context.createImageData(columns, rows);
    const centre = middle();
    for (let j = 0; j < rows; j += 1) {
      for (let i = 0; i < columns; i += 1) {
        const at = j * columns + i;
        const share = (this.values[at] - this.low) / (this.high - this.low);
        const colour = this.layer.what === "likeliest" ? kind(this.kinds[at], 2 * this.values[at] - 1, centre) : this.colour(share, centre);
        image.data.set([...colour, 255], 4 * ((rows - 1 - j) * columns + i));
      }
    }
    context.putImageData(image, 0, 0);
    return canvas;
  }
}

/**
 * What each of a policy's maps shows, in words: of all actions, then of their noise where that varies.
 * @param {Names} names
 */
export function outputNames(names) {
  const what = names.ranges ? "mean" : "probability of";
  return [...names.actions.map((name) => `${what} ${name}`), ...names.noises.map((_, i) => `standard deviation of ${names.actions[i]}`)];
}

/**
 * @param {Names} names
 * @param {number} output
 */
export function changeName(names, output) {
  return `change of ${names.actions[output] ?? outputNames(names)[output]}`;
}

/** @param {PolicyMap} map */
function numbers(map) {
  const bytes = Uint8Array.from(atob(map.values), (letter) => letter.charCodeAt(0));
  return new Float64Array(bytes.buffer);
}

export class MapView {
  /** @param {HTMLElement} place */
  constructor(place) {
    this.place = place;
    this.canvas = html("canvas");
    this.canvas.setAttribute("aria-hidden", "true");
    this.root = svg("svg", { role: "application", "aria-label": "Map of the policy", tabindex: 0 });
    const clip = svg("clipPath", { id: "plot" });
    this.clip = svg("rect");
    clip.append(this.clip);
    this.inside = svg("g", { "clip-path": "url(#plot)" });
    this.layers = {
      cells: svg("g"),
      contours: svg("g"),
      paths: svg("g"),
      shapes: svg("g"),
      cross: svg("g"),
    };
    this.inside.append(...Object.values(this.layers));
    this.frame = svg("g", { class: "axis" });
    this.handles = svg("g");
    this.root.append(svg("defs", {}, clip), this.frame, this.inside, this.handles);
    place.append(this.canvas, this.root);
    /** @type {View | null} */
    this.view = null;
    /** @type {Field | null} */
    this.field = null;
    /** @type {HTMLCanvasElement | null} */
    this.image = null;
    this.x = new Scale(0, 1, 0, 1);
    this.y = new Scale(0, 1, 1, 0);
    /** @type {() => void} */
    this.onResize = () => {};
    new ResizeObserver(() => this.onResize()).observe(place);
  }

  /** @param {View} view */
  look(view) {
    this.view = view;
    const { clientWidth: width, clientHeight: height } = this.place;
    this.x = new Scale(...view.across_range, MARGIN.left, Math.max(width - MARGIN.right, MARGIN.left + 40));
    this.y = new Scale(...view.up_range, Math.max(height - MARGIN.bottom, MARGIN.top + 40), MARGIN.top);
  }

  /** @param {Field | null} field */
  show(field) {
    this.field = field;
    this.image = field?.picture() ?? null;
  }

  /** @param {string[]} names of the observations */
  draw(names) {
    if (!this.view) return;
    this.paint();
    this.drawAxes(names);
    this.drawContours();
  }

  paint() {
    const { clientWidth: width, clientHeight: height } = this.place;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    const context = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
    context.scale(ratio, ratio);
    if (!this.field || !this.image || !this.view) return;
    const { view } = this.field.map;
    if (view.across !== this.view.across || view.up !== this.view.up) return;
    context.save();
    context.beginPath();
    context.rect(this.x.from, this.y.to, this.x.to - this.x.from, this.y.from - this.y.to);
    context.clip();
    const { columns, rows } = this.field.map;
    const [a, b] = view.across_range;
    const [c, d] = view.up_range;
    const across = (b - a) / (columns - 1) / 2;
    const up = (d - c) / (rows - 1) / 2;
    const left = this.x.pixel(a - across);
    const top = this.y.pixel(d + up);
    context.imageSmoothingQuality = "high";
    context.drawImage(this.image, left, top, this.x.pixel(b + across) - left, this.y.pixel(c - up) - top);
    context.restore();
  }

  /** @param {string[]} names */
  drawAxes(names) {
    const { x, y, view } = this;
    if (!view) return;
    const box = { x: x.from, y: y.to, width: x.to - x.from, height: y.from - y.to };
    for (const [name, value] of Object.entries(box)) this.clip.setAttribute(name, String(value));
    /** @type {SVGElement[]} */
    const parts = [svg("rect", { class: "frame", ...box })];
    for (const value of x.ticks(box.width / 90)) {
      const at = x.pixel(value);
      parts.push(svg("line", { x1: at, x2: at, y1: y.from, y2: y.from + 4 }));
      parts.push(svg("text", { x: at, y: y.from + 16, "text-anchor": "middle" }, brief(value)));
    }
    for (const value of y.ticks(box.height / 60)) {
      const at = y.pixel(value);
      parts.push(svg("line", { x1: x.from - 4, x2: x.from, y1: at, y2: at }));
      parts.push(svg("text", { x: x.from - 7, y: at + 4, "text-anchor": "end" }, brief(value)));
    }
    const middleX = (x.from + x.to) / 2;
    const middleY = (y.from + y.to) / 2;
    parts.push(svg("text", { class: "label", x: middleX, y: y.from + 33, "text-anchor": "middle" }, names[view.across]));
    parts.push(svg("text", { class: "label", x: 14, y: middleY, "text-anchor": "middle", transform: `rotate(-90 14 ${middleY})` }, names[view.up]));
    this.frame.replaceChildren(...parts, ...this.legend());
  }

  legend() {
    const { field } = this;
    if (!field) return [];
    const left = this.x.to + 12;
    const top = this.y.to + 4;
    const height = Math.min(150, this.y.from - this.y.to - 8);
    const group = svg("g", { class: "legend" });
    const centre = middle();
    if (field.layer.what === "likeliest") {
      field.names.actions.slice(0, 6).forEach((name, index) => {
        const [r, g, b] = kind(index, 0.9, centre);
        group.append(svg("rect", { x: left, y: top + index * 18, width: 10, height: 10, fill: `rgb(${r},${g},${b})` }));
        group.append(svg("text", { x: left + 14, y: top + 9 + index * 18 }, name.slice(0, 7)));
      });
      return [group];
    }
    const steps = 30;
    for (let k = 0; k < steps; k += 1) {
      const [r, g, b] = field.colour(1 - (k + 0.5) / steps, centre);
      group.append(svg("rect", { x: left, y: top + (k * height) / steps, width: 10, height: height / steps + 0.6, fill: `rgb(${r},${g},${b})` }));
    }
    const scale = new Scale(field.low, field.high, top + height, top);
    for (const value of [field.low, (field.low + field.high) / 2, field.high]) {
      group.append(svg("text", { x: left + 14, y: scale.pixel(value) + 4 }, brief(value)));
    }
    return [group];
  }

  drawContours() {
    const { field, x, y } = this;
    const level = field?.level();
    const same = field && this.view && field.map.view.across === this.view.across && field.map.view.up === this.view.up;
    if (!field || level === null || level === undefined || !same) {
      this.layers.contours.replaceChildren();
      return;
    }
    const { columns, rows, view } = field.map;
    const place = (/** @type {import("./types.js").Pair} */ [i, j]) => {
      const across = view.across_range[0] + (i / (columns - 1)) * (view.across_range[1] - view.across_range[0]);
      const up = view.up_range[0] + (j / (rows - 1)) * (view.up_range[1] - view.up_range[0]);
      return `${x.pixel(across).toFixed(1)} ${y.pixel(up).toFixed(1)}`;
    };
    const lines = contour(field.values, columns, rows, level);
    const d = lines.map(([a, b]) => `M${place(a)}L${place(b)}`).join("");
    this.layers.contours.replaceChildren(svg("path", { class: "contour", d }));
  }

  /** @param {Cell[]} cells */
  drawCells(cells) {
    const ordered = [...cells].sort((one, other) => other.margin - one.margin);
    this.layers.cells.replaceChildren(
      ...ordered.map((cell) => svg("path", { class: "cell", d: this.outline(cell.outline), fill: proven(cell.margin) })),
    );
  }

  /** @param {import("./types.js").Trail[]} trails of which the first of each kind is projected onto the plane, a dot at its start */
  drawTrails(trails) {
    const { view } = this;
    if (!view) return;
    this.layers.paths.replaceChildren(...trails.slice(0, 2).flatMap((trail) => {
      const points = trail.states.map((state) => /** @type {import("./types.js").Pair} */ ([state[view.across], state[view.up]]));
      const side = trail.before ? "before" : "";
      const start = { cx: this.x.pixel(points[0][0]), cy: this.y.pixel(points[0][1]), r: 2.5 };
      return [svg("path", { class: `path ${side}`, d: this.outline(points) }), svg("circle", { class: `start ${side}`, ...start })];
    }));
  }

  /** @param {import("./types.js").Pair[]} points */
  outline(points) {
    return points.map(([a, b], i) => `${i ? "L" : "M"}${this.x.pixel(a).toFixed(2)} ${this.y.pixel(b).toFixed(2)}`).join("");
  }

  /**
   * Where a pointer is, in the numbers of the plane.
   * @param {PointerEvent | WheelEvent | MouseEvent} event
   * @returns {import("./types.js").Pair}
   */
  point(event) {
    const box = this.place.getBoundingClientRect();
    return [this.x.value(event.clientX - box.left), this.y.value(event.clientY - box.top)];
  }
}
