// Where constraints hold: drawn on the map, taken by a handle, moved, and drawn anew.

import { svg } from "./elements.js";
import { brief, rounded } from "./scale.js";

/** @typedef {import("./types.js").Shape} Shape */
/** @typedef {import("./types.js").Handle} Handle */
/** @typedef {import("./types.js").Pair} Pair */
/** @typedef {import("./types.js").Verdict} Verdict */
/** @typedef {{path: (string | number)[], value: number | string}[]} Values */
/** @typedef {"select" | "point" | "box" | "ball" | "polygon" | "line"} Tool */

/** What the layer asks of the page around it.
 * @typedef {object} Hands
 * @property {(values: Values, gesture: number, resting: boolean) => void} edit
 * @property {(tool: Tool, points: Pair[], radius: number | null) => void} add
 * @property {(path: (string | number)[], index: number, item: number[]) => void} insert
 * @property {(path: (string | number)[], index: number) => void} remove
 * @property {(entry: number | null) => void} choose
 * @property {(dx: number, dy: number, done: boolean) => void} pan
 */

const CLICK = 4; // pixels that a hand may tremble

export class ShapeLayer {
  /**
   * @param {import("./map.js").MapView} map
   * @param {Hands} hands
   */
  constructor(map, hands) {
    this.map = map;
    this.hands = hands;
    /** @type {Shape[]} */
    this.shapes = [];
    /** @type {Verdict[]} */
    this.verdicts = [];
    /** @type {number[]} */
    this.clash = [];
    /** @type {number[]} */
    this.clashState = [];
    /** @type {number | null} */
    this.chosen = null;
    /** @type {Tool} */
    this.tool = "select";
    /** @type {Drag | null} */
    this.drag = null;
    this.gesture = Date.now() % 1e9;
    /** @type {Pair[]} */
    this.corners = [];
    map.root.addEventListener("pointerdown", (event) => this.press(event));
    map.root.addEventListener("pointermove", (event) => this.move(event));
    map.root.addEventListener("pointerup", (event) => this.release(event));
    map.root.addEventListener("pointercancel", () => this.cancel());
    map.root.addEventListener("dblclick", (event) => this.twice(event));
    map.root.addEventListener("keydown", (event) => this.key(event));
  }

  /** @param {Tool} tool */
  take(tool) {
    this.tool = tool;
    this.corners = [];
    this.map.root.classList.toggle("drawing", tool !== "select");
    this.draw();
  }

  get width() {
    return Math.abs(this.map.x.high - this.map.x.low);
  }

  get height() {
    return Math.abs(this.map.y.high - this.map.y.low);
  }

  // ---- drawing

  draw() {
    const { map } = this;
    if (!map.view) return;
    const bodies = [];
    const grips = [];
    for (const [index, shape] of this.shapes.entries()) {
      const shown = this.drag?.index === index ? this.drag.shape : shape;
      bodies.push(...(shape.kind === "point" ? [this.spot(shown, index)] : this.body(shown, index)));
      if (shape.entry === this.chosen && shape.kind !== "point" && this.tool === "select") {
        grips.push(...this.grips(shown, index));
      }
    }
    bodies.push(...this.levels(), ...this.clashMark(), ...this.rubber());
    const focused = map.root.contains(document.activeElement) ? document.activeElement?.closest("[data-shape]") : null;
    map.layers.shapes.replaceChildren(...bodies);
    map.handles.replaceChildren(...grips);
    if (focused) this.focus(focused);
  }

  /** @param {Element} former which had the focus, and is drawn anew: keys go on where they were, or on the map */
  focus(former) {
    const isSame = (/** @type {Element} */ one) => ["data-shape", "data-handle"].every((key) => one.getAttribute(key) === former.getAttribute(key));
    const found = [...this.map.root.querySelectorAll("[data-shape][tabindex]")].find(isSame) ?? this.map.root;
    /** @type {SVGElement} */ (found).focus({ preventScroll: true });
  }

  /** @param {Shape} shape */
  classes(shape) {
    const verdict = this.verdicts.find((one) => one.entry === shape.entry);
    return [
      shape.meets ? "" : "away",
      verdict?.status ?? "",
      this.clash.includes(shape.entry) ? "clash" : "",
      shape.entry === this.chosen ? "chosen" : "",
    ].join(" ");
  }

  /**
   * @param {Shape} shape
   * @param {number} index
   */
  body(shape, index) {
    const line = shape.kind === "curve" ? "line" : "";
    const d = shape.outlines.map((outline) => this.map.outline(outline)).join("");
    const label = `Constraint ${shape.entry + 1}, ${shape.kind}${shape.meets ? "" : ", not in this plane"}`;
    const common = { "data-shape": index, tabindex: 0, role: "button", "aria-label": label };
    const reach = line ? [svg("path", { class: "reach", d, "data-shape": index, "aria-hidden": "true" })] : []; // a hand is wider than a line
    return [svg("path", { class: `halo ${line}`, d }), svg("path", { class: `shape ${line} ${this.classes(shape)}`, d, ...common }), ...reach];
  }

  /**
   * @param {Shape} shape
   * @param {number} index
   */
  spot(shape, index) {
    const [x, y] = shape.outlines[0][0];
    return svg("circle", {
      class: `spot ${this.classes(shape)}`,
      cx: this.map.x.pixel(x),
      cy: this.map.y.pixel(y),
      r: shape.meets ? 6 : 4.5,
      "data-shape": index,
      "data-handle": shape.handles.length ? 0 : "",
      tabindex: 0,
      role: "button",
      "aria-label": `Constraint ${shape.entry + 1}, state${shape.meets ? "" : " in another plane"}`,
    });
  }

  /**
   * @param {Shape} shape
   * @param {number} index
   */
  grips(shape, index) {
    return shape.handles.flatMap((handle, number) => {
      if (handle.role === "move") return [];
      const at = { cx: this.map.x.pixel(handle.x), cy: this.map.y.pixel(handle.y), r: handle.role === "edge" ? 4 : 5.5 };
      return [svg("circle", { class: `handle ${handle.role}`, ...at, "data-shape": index, "data-handle": number, tabindex: 0, role: "button", "aria-label": `${handle.role} of constraint ${shape.entry + 1}` })];
    });
  }

  levels() {
    return this.shapes.flatMap((shape) =>
      shape.levels.flatMap(({ value, side, line }) => {
        const [x, y] = line[Math.floor(line.length / 2)];
        const text = `${side === "lower" ? "≥" : "≤"} ${brief(value)}`;
        return [
          svg("path", { class: `level ${side}`, d: this.map.outline(line) }),
          svg("text", { class: "level-text", x: this.map.x.pixel(x) + 3, y: this.map.y.pixel(y) - 3 }, text),
        ];
      }),
    );
  }

  clashMark() {
    const { view } = this.map;
    if (!view || this.clashState.length !== view.at.length) return [];
    const x = this.map.x.pixel(this.clashState[view.across]);
    const y = this.map.y.pixel(this.clashState[view.up]);
    return [svg("path", { class: "clash-mark", d: `M${x - 7} ${y - 7}L${x + 7} ${y + 7}M${x - 7} ${y + 7}L${x + 7} ${y - 7}` })];
  }

  rubber() {
    const [first, last] = [this.corners[0], this.corners.at(-1)];
    if (!first || !last) return [];
    const { map } = this;
    if (this.tool === "ball") {
      const radius = this.radius(first, last);
      const rx = Math.abs(map.x.pixel(first[0] + radius) - map.x.pixel(first[0]));
      const ry = Math.abs(map.y.pixel(first[1] + radius) - map.y.pixel(first[1]));
      return [svg("ellipse", { class: "rubber", cx: map.x.pixel(first[0]), cy: map.y.pixel(first[1]), rx, ry })];
    }
    if (this.tool === "box") {
      return [svg("path", { class: "rubber", d: `${map.outline([first, [last[0], first[1]], last, [first[0], last[1]]])}Z` })];
    }
    return [
      svg("path", { class: "rubber", d: map.outline(this.corners) }),
      ...this.corners.map(([x, y]) => svg("circle", { class: "handle", cx: map.x.pixel(x), cy: map.y.pixel(y), r: 3.5 })),
    ];
  }

  /**
   * @param {Pair} centre
   * @param {Pair} edge
   */
  radius(centre, edge) {
    return Math.hypot(edge[0] - centre[0], edge[1] - centre[1]);
  }

  // ---- the hand

  /** @param {PointerEvent} event */
  press(event) {
    if (event.button !== 0 || !this.map.view) return;
    const point = this.map.point(event);
    this.map.root.setPointerCapture(event.pointerId);
    if (this.tool !== "select") {
      if (this.tool === "polygon") return;
      this.corners = [this.snapped(point)];
      return;
    }
    const target = /** @type {Element} */ (event.target);
    const shape = target.closest("[data-shape]");
    if (!shape) {
      this.drag = new Drag(-1, null, null, point, event);
      return;
    }
    const index = Number(shape.getAttribute("data-shape"));
    const given = shape.getAttribute("data-handle");
    const chosen = this.shapes[index];
    const handle = given ? chosen.handles[Number(given)] : chosen.handles.find((one) => one.role === "move");
    this.gesture += 1;
    this.drag = new Drag(index, chosen, handle ?? null, point, event);
    this.drag.grip = given;
    this.hands.choose(chosen.entry);
  }

  /** @param {PointerEvent} event */
  move(event) {
    const point = this.map.point(event);
    if (this.tool !== "select") {
      if (!this.corners.length) return;
      if (this.tool === "polygon") this.corners[this.corners.length - 1] = this.snapped(point);
      else this.corners[1] = this.snapped(point);
      this.draw();
      return;
    }
    const { drag } = this;
    if (!drag) return;
    drag.moved ||= Math.hypot(event.clientX - drag.clientX, event.clientY - drag.clientY) > CLICK;
    if (!drag.moved) return;
    if (drag.index < 0) {
      this.hands.pan(drag.from[0] - point[0], drag.from[1] - point[1], false);
      return;
    }
    if (!drag.handle) return;
    drag.follow(point, this.width, this.height);
    this.hands.edit(drag.values, this.gesture, false);
    this.draw();
  }

  /** @param {PointerEvent} event */
  release(event) {
    const point = this.map.point(event);
    if (this.tool !== "select") {
      this.finish(point);
      return;
    }
    const { drag } = this;
    if (!drag) return;
    if (drag.index < 0) {
      this.drag = null;
      if (drag.moved) this.hands.pan(0, 0, true);
      else this.hands.choose(null);
      return;
    }
    if (drag.moved && drag.handle) {
      this.hands.edit(drag.values, this.gesture, true);
      drag.released = true; // shown until the server has drawn it
    } else {
      this.drag = null;
    }
  }

  /** @param {Pair} point where a shape that is being drawn ends */
  finish(point) {
    const last = this.snapped(point);
    if (this.tool === "polygon") {
      if (!this.corners.length) this.corners = [last, last];
      else if (this.corners.length > 3 && this.near(last, this.corners[0])) this.close();
      else this.corners.push(last);
      this.draw();
      return;
    }
    const [first] = this.corners;
    this.corners = [];
    if (!first) return;
    const tool = this.tool;
    const extent = Math.hypot((last[0] - first[0]) / this.width, (last[1] - first[1]) / this.height);
    if (tool !== "point" && extent < 0.01) {
      this.draw();
      return;
    }
    const radius = tool === "ball" ? rounded(this.radius(first, last), Math.min(this.width, this.height)) : null;
    this.hands.add(tool, tool === "point" || tool === "ball" ? [first] : [first, last], radius);
  }

  close() {
    const points = this.corners.slice(0, -1);
    this.corners = [];
    if (points.length >= 3) this.hands.add("polygon", points, null);
    this.draw();
  }

  /**
   * @param {Pair} one
   * @param {Pair} other
   */
  near(one, other) {
    return Math.hypot((one[0] - other[0]) / this.width, (one[1] - other[1]) / this.height) < 0.02;
  }

  /** @param {MouseEvent} event */
  twice(event) {
    if (this.tool === "polygon") {
      if (this.corners.length > 3) this.corners.pop();
      this.close();
      return;
    }
    const target = document.elementFromPoint(event.clientX, event.clientY)?.closest("[data-shape]"); // the map has caught the hand
    const shape = target && !target.hasAttribute("data-handle") && this.shapes[Number(target.getAttribute("data-shape"))];
    if (!shape || !shape.vertices) return;
    const [x, y] = this.snapped(this.map.point(event));
    const [index, distance] = this.nearestEdge(shape.outlines[0], [x, y]);
    if (distance > 0.03) return;
    const order = shape.handles.find((one) => one.role === "vertex")?.across[0].path.at(-1) === 0 ? [x, y] : [y, x];
    this.hands.insert(shape.vertices, index + 1, order);
  }

  /**
   * Its index, and how far it is, as a share of what is shown.
   * @param {Pair[]} outline
   * @param {Pair} point
   * @returns {Pair}
   */
  nearestEdge(outline, point) {
    let best = 0;
    let least = Infinity;
    for (let k = 0; k + 1 < outline.length; k += 1) {
      const [a, b] = [outline[k], outline[k + 1]];
      const [dx, dy] = [(b[0] - a[0]) / this.width, (b[1] - a[1]) / this.height];
      const [px, py] = [(point[0] - a[0]) / this.width, (point[1] - a[1]) / this.height];
      const share = Math.min(1, Math.max(0, (px * dx + py * dy) / (dx * dx + dy * dy || 1)));
      const distance = Math.hypot(px - share * dx, py - share * dy);
      if (distance < least) [best, least] = [k, distance];
    }
    return [best, least];
  }

  cancel() {
    this.drag = null;
    this.corners = [];
    this.draw();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.key === "Escape") this.cancel();
    if (event.key === "Enter" && this.tool === "polygon") this.close();
    const target = /** @type {Element} */ (event.target).closest("[data-shape]"); // or else the chosen one
    const index = target ? Number(target.getAttribute("data-shape")) : this.shapes.findIndex((one) => one.entry === this.chosen);
    const shape = this.shapes[index];
    if (!shape || this.tool !== "select") return;
    if (event.key === "Enter" || event.key === " ") {
      this.hands.choose(shape.entry);
      event.preventDefault();
      return;
    }
    const given = target?.getAttribute("data-handle") ?? null;
    const handle = given ? shape.handles[Number(given)] : shape.handles.find((one) => one.role === "move");
    if (event.key === "Delete" || event.key === "Backspace") {
      if (handle?.role === "vertex" && shape.vertices) this.hands.remove(shape.vertices, Number(handle.across[0].path.at(-2)));
      else this.hands.remove(["constraints"], shape.entry);
      event.preventDefault();
      return;
    }
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    const step = steps[/** @type {keyof typeof steps} */ (event.key)];
    if (!step || !handle) return;
    event.preventDefault();
    const size = event.shiftKey ? 0.05 : 0.005;
    const isOnItsWay = this.drag?.released && this.drag.index === index && this.drag.grip === given;
    const drag = isOnItsWay && this.drag ? this.drag : new Drag(index, shape, handle, [handle.x, handle.y], { clientX: 0, clientY: 0 });
    drag.follow([drag.to[0] + step[0] * size * this.width, drag.to[1] + step[1] * size * this.height], this.width, this.height);
    [drag.grip, drag.released, this.drag] = [given, true, drag];
    this.gesture += 1;
    this.hands.edit(drag.values, this.gesture, true);
    this.draw();
  }

  /** The server has drawn everything up to here: what the hand let go of is its own again. */
  settle() {
    if (this.drag?.released) this.drag = null;
  }

  /**
   * @param {Pair} point
   * @returns {Pair}
   */
  snapped([x, y]) {
    return [rounded(x, this.width), rounded(y, this.height)];
  }
}

/** A shape that a hand has taken, as it will be. */
class Drag {
  /**
   * @param {number} index of the shape; -1 for the plane itself
   * @param {Shape | null} shape
   * @param {Handle | null} handle
   * @param {Pair} from
   * @param {{clientX: number, clientY: number}} event
   */
  constructor(index, shape, handle, from, event) {
    this.index = index;
    this.start = shape;
    this.shape = /** @type {Shape} */ (shape);
    this.handle = handle;
    this.from = from;
    this.to = from;
    /** @type {string | null} the number of its handle; null for the whole */
    this.grip = null;
    this.clientX = event.clientX;
    this.clientY = event.clientY;
    this.moved = false;
    this.released = false;
    /** @type {Values} */
    this.values = [];
  }

  /**
   * @param {Pair} point where the hand is now
   * @param {number} width of what is shown
   * @param {number} height of what is shown
   */
  follow(point, width, height) {
    const { start, handle } = this;
    if (!start || !handle) return;
    this.to = point;
    if (handle.role === "radius") {
      this.stretch(point, Math.min(width, height));
      return;
    }
    const dx = handle.moves_across.length ? point[0] - this.from[0] : 0;
    const dy = handle.moves_up.length ? point[1] - this.from[1] : 0;
    this.values = [
      ...handle.across.map(({ path, value }) => ({ path, value: rounded(value + dx, width) })),
      ...handle.up.map(({ path, value }) => ({ path, value: rounded(value + dy, height) })),
      ...handle.across_formulas.map((slot) => ({ path: slot.path, value: formula(slot, dx, width) })),
      ...handle.up_formulas.map((slot) => ({ path: slot.path, value: formula(slot, dy, height) })),
    ];
    const [first, ...rest] = start.outlines;
    const moved = first.map(([x, y], i) => /** @type {Pair} */ ([
      handle.moves_across.includes(i) ? x + dx : x,
      handle.moves_up.includes(i) ? y + dy : y,
    ]));
    const handles = start.handles.map((one) => (one === handle || handle.role === "move" ? { ...one, x: one.x + dx, y: one.y + dy } : one));
    this.shape = { ...start, outlines: [moved, ...rest], handles, levels: [] };
  }

  /**
   * @param {Pair} point
   * @param {number} extent
   */
  stretch(point, extent) {
    const { start, handle } = this;
    const centre = start?.handles.find((one) => one.role === "move");
    if (!start || !handle || !centre) return;
    const radius = Math.max(rounded(Math.hypot(point[0] - centre.x, point[1] - centre.y), extent), extent / 1000);
    const ratio = radius / handle.across[0].value;
    this.values = [{ path: handle.across[0].path, value: radius }];
    const outlines = start.outlines.map((outline) => outline.map(([x, y]) => /** @type {Pair} */ ([centre.x + (x - centre.x) * ratio, centre.y + (y - centre.y) * ratio])));
    const handles = start.handles.map((one) => (one === handle ? { ...one, x: centre.x + radius } : one));
    this.shape = { ...start, outlines, handles };
  }
}

/**
 * A formula after the hand has gone so far.
 * @param {import("./types.js").FormulaSlot} slot
 * @param {number} distance
 * @param {number} extent of what is shown
 */
export function formula({ words, values, shares }, distance, extent) {
  return values.reduce((text, value, i) => {
    const number = rounded(value + shares[i] * distance, extent);
    const minus = number < 0 && text.endsWith("+ ");
    return `${minus ? `${text.slice(0, -2)}- ` : text}${minus ? -number : number}${words[i + 1]}`;
  }, words[0]);
}
