// The page without a server: everything was computed before, and is here to be looked at.

import { curves } from "./charts.js";
import { save, svgText } from "./download.js";
import { byId, html } from "./elements.js";
import { changeName, Field, MapView, outputNames } from "./map.js";
import { Rules } from "./rules.js";
import { ShapeLayer } from "./shapes.js";

/** @typedef {import("./types.js").Trained} Trained */
/** @typedef {{along: number, shapes: import("./types.js").Shape[], cells: import("./types.js").Cell[], map: import("./types.js").Map, before: import("./types.js").Map}} Slice */
/** @typedef {{made: string, versions: Record<string, string>, names: import("./types.js").Names, settings: unknown, curves: Trained[], losses: (number | null)[][], cards: import("./types.js").Card[], verdicts: import("./types.js").Verdict[], proven: import("./types.js").Verdict[], proof: string, slices: Slice[]}} Data */

class Still {
  constructor() {
    /** @type {Data} */
    this.data = JSON.parse(byId("data").textContent ?? "");
    const { names } = this.data;
    /** @type {import("./map.js").Layer} */
    this.layer = { what: "output", action: names.shown_action };
    /** @type {number | null} */
    this.chosen = null;
    this.slice = this.data.slices[0];
    this.map = new MapView(byId("map"));
    this.map.onResize = () => this.draw();
    const nothing = () => {};
    this.shapes = new ShapeLayer(this.map, { edit: nothing, add: nothing, insert: nothing, remove: nothing, choose: (entry) => this.choose(entry), pan: nothing });
    this.rules = new Rules(byId("cards"), { write: nothing, remove: nothing, choose: (entry) => this.choose(entry), visit: (entry) => this.visit(entry) });
    this.theme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    byId("theme").addEventListener("click", () => this.theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
    byId("about").textContent = `${names.description || names.environment} · ${this.data.made}`;
    byId("state").textContent = this.data.proof ?? "";
    byId("settings").textContent = JSON.stringify({ versions: this.data.versions, settings: this.data.settings }, null, 2);
    byId("cells").addEventListener("change", () => this.draw());
    byId("map-svg").addEventListener("click", () => save(`${names.title}-map.svg`, svgText(this.map.root, this.map.canvas)));
    this.layers();
    this.sliders();
    this.curves();
    this.pointer();
    this.draw();
  }

  /** @param {string} theme */
  theme(theme) {
    document.documentElement.dataset.theme = theme;
    this.draw();
  }

  /** @param {number | null} entry */
  choose(entry) {
    this.chosen = entry;
    this.draw();
  }

  /** @param {number} entry that one of the planes meets */
  visit(entry) {
    const met = this.data.slices.find((slice) => slice.shapes.some((shape) => shape.entry === entry && shape.meets));
    if (met) this.show(met);
  }

  layers() {
    const { names } = this.data;
    const select = /** @type {HTMLSelectElement} */ (byId("layer"));
    const outputs = outputNames(names);
    select.append(
      ...outputs.map((name, i) => new Option(name, `output ${i}`)),
      ...(names.ranges || names.branches.length ? [] : [new Option("likeliest action", "likeliest 0")]),
      ...outputs.map((name, i) => new Option(`${name}, before`, `before ${i}`)),
      ...outputs.map((_, i) => new Option(changeName(names, i), `change ${i}`)),
    );
    select.value = `output ${names.shown_action}`;
    select.addEventListener("change", () => {
      const [kind, action] = select.value.split(" ");
      this.before = kind === "before";
      this.layer = { what: /** @type {import("./map.js").Layer["what"]} */ (this.before ? "output" : kind), action: Number(action) };
      this.draw();
    });
  }

  sliders() {
    const { names, slices } = this.data;
    const parts = names.observations.flatMap((name, index) => {
      const along = slices.filter((one) => one.along === index);
      if (!along.length) return [];
      const values = along.map((one) => one.map.view.at[index]);
      const start = slices[0].map.view.at[index];
      const nearest = values.reduce((best, value, i) => (Math.abs(value - start) < Math.abs(values[best] - start) ? i : best), 0);
      const range = html("input", { type: "range", min: 0, max: along.length - 1, step: 1, value: nearest, "aria-label": `Value of ${name}` });
      const shown = html("output", {}, String(Number(start.toPrecision(4))));
      range.addEventListener("input", () => {
        shown.textContent = String(Number(values[Number(range.value)].toPrecision(4)));
        this.show(along[Number(range.value)]);
      });
      return [html("label", {}, name, shown, range)];
    });
    byId("sliders").replaceChildren(...parts);
  }

  /** @param {Slice} slice */
  show(slice) {
    this.slice = slice;
    this.draw();
  }

  draw() {
    const { data, slice } = this;
    if (!slice) {
      byId("map").replaceChildren(html("p", { class: "empty" }, "With one observation there is no plane to show."));
      return;
    }
    this.map?.look(slice.map.view);
    if (!this.shapes) return;
    this.map.show(new Field(this.before ? slice.before : slice.map, slice.before, data.names, this.layer));
    this.map.draw(data.names.observations);
    this.map.drawCells(/** @type {HTMLInputElement} */ (byId("cells")).checked ? slice.cells : []);
    const verdicts = data.verdicts.map((one) => {
      const better = data.proven.find((other) => other.entry === one.entry && other.status !== "unknown");
      return better ? { ...better, violation: better.violation ?? one.violation } : one;
    });
    Object.assign(this.shapes, { shapes: slice.shapes, verdicts, chosen: this.chosen });
    this.shapes.draw();
    const cards = data.cards.map((card) => ({ ...card, meets: slice.shapes.some((one) => one.entry === card.entry && one.meets) }));
    this.rules.draw(cards, verdicts, this.chosen, [], "");
    for (const input of byId("cards").querySelectorAll("input")) input.readOnly = true;
    for (const part of byId("cards").querySelectorAll(".bin, .slide")) part.remove();
  }

  curves() {
    const { data } = this;
    const series = (/** @type {"scores" | "violations" | "influences"} */ key) => data.curves.map((one, i) => ({ label: one.label, values: one[key], style: /** @type {"now" | "then"} */ (i ? "then" : "now") }));
    const losses = data.losses.map((values, i) => ({ label: data.curves[i].label, values, style: /** @type {"now" | "then"} */ (i ? "then" : "now") }));
    const charts = [
      curves("Score (mean of 10)", series("scores"), { mark: data.names.pass_mark, smooth: 10 }),
      curves("Violation (positive means broken)", series("violations")),
      curves("Influence elsewhere", series("influences")),
      curves("Loss", losses),
    ];
    byId("curves").replaceChildren(...charts.flatMap((chart) => {
      const button = html("button", { type: "button", class: "quiet" }, "SVG");
      const name = chart.getAttribute("aria-label") ?? "chart";
      button.addEventListener("click", () => save(`${data.names.title}-${name.split(" ")[0].toLowerCase()}.svg`, svgText(chart)));
      return [chart, button];
    }));
  }

  pointer() {
    this.map.root.addEventListener("pointermove", (event) => {
      if (!this.slice) return;
      const { map } = this.slice;
      const [x, y] = this.map.point(event);
      const [a, b] = map.view.across_range;
      const [c, d] = map.view.up_range;
      const i = Math.round(((x - a) / (b - a)) * (map.columns - 1));
      const j = Math.round(((y - c) / (d - c)) * (map.rows - 1));
      const { field } = this.map;
      if (!field || i < 0 || j < 0 || i >= map.columns || j >= map.rows) return;
      const [state, value] = [[a + (i / (map.columns - 1)) * (b - a), c + (j / (map.rows - 1)) * (d - c)], field.values[j * map.columns + i]];
      const { observations } = this.data.names;
      byId("probe").textContent = `${observations[map.view.across]} ${state[0].toPrecision(4)}, ${observations[map.view.up]} ${state[1].toPrecision(4)}\n${value}`;
    });
  }

  before = false;
}

Reflect.set(window, "still", new Still());
