// What the policy does under the cursor: numbers of the policy that the map shows, or none.

import { svg } from "./elements.js";
import { rounded } from "./scale.js";

/** @typedef {import("./types.js").Names} Names */
/** @typedef {import("./types.js").Probed} Probed */

const BETWEEN = 50; // milliseconds between two questions

export class Cursor {
  /**
   * @param {import("./map.js").MapView} map
   * @param {HTMLElement} place of the numbers
   * @param {(state: number[]) => void} ask
   */
  constructor(map, place, ask) {
    this.map = map;
    this.place = place;
    this.ask = ask;
    /** @type {number[] | null} */
    this.state = null;
    /** @type {Probed | null} */
    this.probed = null;
    this.asked = 0;
    this.timer = 0;
    map.root.addEventListener("pointermove", (event) => this.follow(event));
    map.root.addEventListener("pointerleave", () => this.leave());
  }

  /** @param {PointerEvent} event */
  follow(event) {
    const { view } = this.map;
    if (!view) return;
    clearTimeout(this.timer);
    const early = this.asked + BETWEEN - performance.now();
    if (early > 0) {
      this.timer = setTimeout(() => this.follow(event), early); // where the hand comes to rest is always asked
      return;
    }
    this.asked = performance.now();
    const [left, right] = view.across_range;
    const [bottom, top] = view.up_range;
    const point = this.map.point(event);
    const [x, y] = [rounded(point[0], right - left), rounded(point[1], top - bottom)];
    if (x < left || x > right || y < bottom || y > top) {
      this.leave();
      return;
    }
    this.cross(point);
    this.state = [...view.at];
    this.state[view.across] = x;
    this.state[view.up] = y;
    this.ask(this.state);
  }

  leave() {
    clearTimeout(this.timer);
    this.state = null;
    this.map.layers.cross.replaceChildren();
  }

  /** @param {import("./types.js").Pair} point */
  cross([across, up]) {
    const { x, y, layers } = this.map;
    const [a, b] = [x.pixel(across), y.pixel(up)];
    layers.cross.replaceChildren(svg("path", { class: "cross", fill: "none", d: `M${a} ${y.to}V${y.from}M${x.from} ${b}H${x.to}` }));
  }

  /** Another policy is shown: what was read of the last one is not its own. */
  askAgain() {
    if (this.state) this.ask(this.state);
  }

  /**
   * Whether what was read is of the policy and the plane that the map shows.
   * @param {Probed} probed
   * @param {import("./types.js").View} view
   * @param {Names} names
   * @param {number} revision
   */
  isShown(probed, view, names, revision) {
    const there = probed.state.every((value, i) => i === view.across || i === view.up || value === view.at[i]);
    return there && probed.revision === revision && probed.outputs.length === names.actions.length + names.noises.length && probed.state.length === view.at.length;
  }

  /**
   * @param {Names} names
   * @param {number} revision of the policy that the map shows
   */
  draw(names, revision) {
    const { probed, map } = this;
    if (!probed || !map.view || !this.isShown(probed, map.view, names, revision)) {
      this.place.textContent = this.state ? "…" : "";
      this.place.title = "";
      return;
    }
    const what = names.actions.map((name) => (names.ranges ? `mean ${name}` : `P(${name})`));
    what.push(...names.noises.map((_, i) => `std ${names.actions[i]}`));
    const lines = probed.outputs.slice(0, 4).map((value, i) => `${what[i]} = ${value}`);
    const at = [map.view.across, map.view.up].map((i) => `${names.observations[i]} = ${probed.state[i]}`);
    const all = names.observations.map((name, i) => `${name} = ${probed.state[i]}`);
    this.place.textContent = [`at ${at.join(", ")}`, ...lines].join("\n");
    this.place.title = `at ${all.join(", ")}\nbefore: ${probed.before.join(", ")}`;
  }
}
