// The plane that is looked at: which observations, which part of them, and where the others are.

import { html } from "./elements.js";
import { rounded } from "./scale.js";

/** @typedef {import("./types.js").View} View */
/** @typedef {import("./types.js").Drawing} Drawing */
/** @typedef {import("./types.js").Pair} Pair */

const REST = 250; // milliseconds after which a hand rests

export class PlaneControl {
  /**
   * @param {HTMLElement} place of the choices and sliders
   * @param {(view: View, resting: boolean) => void} show
   */
  constructor(place, show) {
    this.place = place;
    this.show = show;
    /** @type {View | null} */
    this.view = null;
    /** @type {View | null} */
    this.home = null;
    /** @type {Drawing | null} */
    this.drawing = null;
    this.moving = false;
    this.timer = 0;
  }

  /** @param {Drawing} drawing whose plane is the one that is looked at, unless a hand moves it */
  hear(drawing) {
    const first = !this.drawing;
    this.drawing = drawing;
    if (!this.moving || !this.view) this.view = drawing.view;
    if (first) this.home = drawing.view;
  }

  /**
   * @param {View} view
   * @param {boolean} [resting]
   */
  look(view, resting = false) {
    this.view = view;
    this.moving = !resting;
    clearTimeout(this.timer);
    if (!resting) this.timer = setTimeout(() => this.look(/** @type {View} */ (this.view), true), REST);
    this.show(view, resting);
  }

  /** As the file wants it. */
  whole() {
    if (this.home) this.look(this.home, true);
    this.draw();
  }

  /** @param {number[]} middle of a shape, whose plane is to be shown */
  visit(middle) {
    if (!this.view) return;
    this.look({ ...this.view, at: middle.map((value) => rounded(value, 1)) }, true);
    this.draw();
  }

  /**
   * @param {"across" | "up"} axis
   * @param {number} index
   */
  turn(axis, index) {
    const { view } = this;
    if (!view) return;
    const other = axis === "across" ? "up" : "across";
    const reach = this.reach(index);
    const at = [...view.at];
    if (index === view[other]) {
      this.look({ ...view, across: view.up, up: view.across, across_range: view.up_range, up_range: view.across_range }, true);
    } else {
      const range = view[axis === "across" ? "across_range" : "up_range"];
      at[view[axis]] = rounded((range[0] + range[1]) / 2, range[1] - range[0]);
      this.look({ ...view, at, [axis]: index, [axis === "across" ? "across_range" : "up_range"]: reach }, true);
    }
    this.draw();
  }

  /**
   * @param {number} dx
   * @param {number} dy
   * @param {boolean} done
   */
  pan(dx, dy, done) {
    const { view } = this;
    if (!view) return;
    const [a, b] = view.across_range;
    const [c, d] = view.up_range;
    this.look({ ...view, across_range: [a + dx, b + dx], up_range: [c + dy, d + dy] }, done);
  }

  /**
   * @param {number} factor
   * @param {Pair} [around]
   */
  zoom(factor, around) {
    const { view } = this;
    if (!view) return;
    const [x, y] = around ?? [(view.across_range[0] + view.across_range[1]) / 2, (view.up_range[0] + view.up_range[1]) / 2];
    const nearer = (/** @type {Pair} */ [a, b], /** @type {number} */ at) => /** @type {Pair} */ ([at + (a - at) * factor, at + (b - at) * factor]);
    this.look({ ...view, across_range: nearer(view.across_range, x), up_range: nearer(view.up_range, y) });
  }

  /**
   * How far an observation is worth going: as far as rules speak of it, and a little more.
   * @param {number} index
   * @returns {Pair}
   */
  reach(index) {
    const values = (this.drawing?.shapes ?? []).map((one) => one.middle[index]).filter((one) => one !== undefined);
    const at = this.view?.at[index] ?? 0;
    const most = Math.max(1, ...values.map(Math.abs), Math.abs(at)) * 1.5;
    return [-most, most];
  }

  draw() {
    const names = this.drawing?.names;
    const { view } = this;
    if (!names || !view) return;
    const choice = (/** @type {"across" | "up"} */ axis, /** @type {string} */ label) => {
      const select = html("select", { "aria-label": label }, ...names.observations.map((name, i) => new Option(name, String(i), false, i === view[axis])));
      select.addEventListener("change", () => this.turn(axis, Number(select.value)));
      return select;
    };
    const sliders = names.observations.flatMap((name, i) => (i === view.across || i === view.up ? [] : [this.slider(name, i, view)]));
    const axes = html("div", { class: "axes-choice" }, "Across", choice("across", "Observation across"), "up", choice("up", "Observation up"));
    this.place.replaceChildren(axes, ...sliders);
  }

  /**
   * @param {string} name
   * @param {number} index of the observation
   * @param {View} view
   */
  slider(name, index, view) {
    const reach = this.reach(index);
    const range = html("input", { type: "range", min: reach[0], max: reach[1], step: "any", value: view.at[index], "aria-label": `Value of ${name}` });
    const shown = html("output", {}, String(rounded(view.at[index], reach[1] - reach[0])));
    range.addEventListener("input", () => {
      const at = [...(this.view ?? view).at];
      at[index] = rounded(Number(range.value), reach[1] - reach[0]);
      shown.textContent = String(at[index]);
      this.look({ ...(this.view ?? view), at });
    });
    return html("label", {}, name, shown, range);
  }
}
