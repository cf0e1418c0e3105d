// The page: what the server says becomes what is seen, what hands do becomes what is asked.

import { Behaviour } from "./behaviour.js";
import { Editor } from "./editor.js";
import { byId, html, svg } from "./elements.js";
import { Field, MapView } from "./map.js";
import { Rules } from "./rules.js";
import { rounded } from "./scale.js";
import { ShapeLayer } from "./shapes.js";
import { Channel } from "./socket.js";

/** @typedef {import("./types.js").Answer} Answer */
/** @typedef {import("./types.js").View} View */
/** @typedef {import("./map.js").Layer} Layer */
/** @typedef {import("./shapes.js").Tool} Tool */

const TOOLS = /** @type {[Tool, string, string][]} */ ([
  ["select", "Select", "v"],
  ["point", "Point", "p"],
  ["box", "Box", "b"],
  ["ball", "Ball", "c"],
  ["polygon", "Polygon", "g"],
  ["line", "Line", "l"],
]);

class Page {
  constructor() {
    /** @type {import("./types.js").Document | null} */
    this.document = null;
    /** @type {import("./types.js").Drawing | null} */
    this.drawing = null;
    /** @type {import("./types.js").Held | null} */
    this.held = null;
    /** @type {import("./types.js").ProofSeen | null} */
    this.proof = null;
    /** @type {import("./types.js").Map | null} */
    this.before = null;
    /** @type {Layer} */
    this.layer = { what: "output", action: 0 };
    /** @type {View | null} */
    this.view = null;
    /** @type {View | null} */
    this.home = null;
    /** @type {number | null} */
    this.chosen = null;
    this.panning = false;
    this.lookTimer = 0;
    this.map = new MapView(byId("map"));
    this.map.onResize = () => this.redraw();
    this.shapes = new ShapeLayer(this.map, {
      edit: (values, gesture, resting) => this.send({ kind: "edit", values, gesture, resting }),
      add: (shape, points, radius) => {
        this.send({ kind: "add", shape, points, radius, action: this.layer.action });
        this.take("select");
      },
      insert: (path, index, item) => this.send({ kind: "insert", path, index, item }),
      remove: (path, index) => this.send({ kind: "remove", path, index }),
      choose: (entry) => this.choose(entry),
      pan: (dx, dy, done) => this.pan(dx, dy, done),
    });
    this.rules = new Rules(byId("cards"), {
      write: (path, value, gesture, resting) => this.send({ kind: "edit", values: [{ path, value }], gesture, resting }),
      remove: (entry) => this.send({ kind: "remove", path: ["constraints"], index: entry }),
      choose: (entry) => this.choose(entry),
      visit: (entry) => this.visit(entry),
    });
    this.editor = new Editor(byId("panel-file"), (text, gesture) => this.send({ kind: "text", text, gesture }));
    this.behaviour = new Behaviour(byId("panel-behaviour"), (request) => this.send(request), () => this.redraw());
    this.channel = new Channel((answer) => this.hear(answer), (connected) => this.connected(connected));
    this.buttons();
    this.pointer();
  }

  /** @param {Record<string, unknown>} request */
  send(request) {
    this.channel.send(request);
  }

  // ---- what the server says

  /** @param {Answer} answer */
  hear(answer) {
    switch (answer.kind) {
      case "document":
        this.document = answer;
        if (answer.author !== "editor" || !this.editor.isTyped) this.editor.show(answer.text);
        this.header();
        this.state();
        break;
      case "drawing":
        this.hearDrawing(answer);
        break;
      case "held":
        this.hearHeld(answer);
        break;
      case "proof":
        this.proof = answer;
        this.redraw();
        this.state();
        break;
      case "probed":
        this.hearProbed(answer);
        break;
      case "played":
        this.behaviour.hearPlayed(answer);
        break;
      case "trained":
        this.behaviour.hearTrained(answer);
        break;
      case "notice":
        this.hearNotice(answer);
        break;
    }
  }

  /** @param {import("./types.js").Drawing} drawing */
  hearDrawing(drawing) {
    this.editor.complain(drawing.error, drawing.line);
    if (drawing.error) {
      this.wrong = true;
      this.state();
      return;
    }
    this.wrong = false;
    const first = !this.drawing;
    const renamed = JSON.stringify(this.drawing?.names) !== JSON.stringify(drawing.names);
    this.drawing = drawing;
    if (!this.panning || !this.view) this.view = drawing.view;
    if (first) this.home = drawing.view;
    if (renamed) this.named();
    this.shapes.shapes = drawing.shapes;
    if (drawing.revision >= (this.document?.revision ?? 0)) this.shapes.settle();
    if (this.chosen !== null && this.chosen >= drawing.cards.length) this.chosen = null;
    if (this.waiting && drawing.cards.length > this.waiting) this.choose(drawing.cards.length - 1);
    this.waiting = 0;
    this.redraw();
  }

  /** @param {import("./types.js").Held} held */
  hearHeld(held) {
    this.held = held;
    this.before = held.before ?? this.before;
    if (this.proof && this.proof.revision !== held.revision) this.proof = null;
    this.redraw();
    this.state();
    if (this.hovered) this.send({ kind: "probe", state: this.hovered });
  }

  /** @param {import("./types.js").Probed} probed */
  hearProbed(probed) {
    const names = this.drawing?.names;
    if (!names) return;
    const what = names.ranges ? "mean" : "P";
    const lines = probed.outputs.map((value, i) => `${names.ranges ? `${what} ${names.actions[i]}` : `P(${names.actions[i]})`} = ${value}`);
    byId("probe").textContent = lines.slice(0, 4).join("\n");
    byId("probe").title = `before: ${probed.before.join(", ")}`;
  }

  /** @param {import("./types.js").Note} notice */
  hearNotice(notice) {
    if (notice.what === "kept") this.offer(notice.text);
    else if (notice.what === "python") this.copy(notice.text);
    else if (notice.what === "refused" && notice.text.includes("Save anyway")) this.ask(notice.text, "Save anyway", "save_anyway");
    else {
      if (notice.what === "failed") this.behaviour.ended();
      this.toast(notice.text, notice.what === "failed" || notice.what === "refused");
    }
  }

  /** @param {boolean} connected */
  connected(connected) {
    this.online = connected;
    this.state();
  }

  // ---- what is seen

  header() {
    const { document: doc } = this;
    if (!doc) return;
    byId("file").textContent = doc.file;
    byId("file").title = doc.file;
    byId("unsaved").hidden = doc.saved;
    byId("undo").toggleAttribute("disabled", !doc.can_undo);
    byId("redo").toggleAttribute("disabled", !doc.can_redo);
    document.title = `${doc.saved ? "" : "• "}${doc.file} – Handrail studio`;
  }

  state() {
    const place = byId("state");
    const { held } = this;
    const parts = [];
    let bad = false;
    if (!this.online) parts.push(html("b", {}, "Not connected."), " The studio has ended, or is not reached.");
    else if (this.wrong) parts.push(html("b", {}, "The text is not valid."), " The last good answer is shown.");
    else if (!held) parts.push(html("span", { class: "busy" }, "Starting…"));
    else if (!held.satisfied) parts.push(html("b", {}, held.conflict.length ? "Conflict." : "Not held."), ` ${held.conflict_words || held.words}. The policy before is shown.`);
    else parts.push(html("b", {}, this.proof ? this.proof.words : "Every rule holds."), ` ${held.influence ? `Elsewhere ${held.influence}.` : held.words}`);
    if (this.isBehind()) parts.unshift(html("span", { class: "busy", title: "An answer to the newest text is on its way" }, "● "));
    bad = !this.online || Boolean(this.wrong) || Boolean(held && !held.satisfied);
    place.classList.toggle("bad", bad);
    place.replaceChildren(...parts);
    place.title = place.textContent ?? "";
    place.dataset.revision = String(held?.revision ?? -1);
    place.dataset.proof = String(this.proof?.revision ?? -1);
    this.patience();
  }

  /** Somebody who waits for long may not want to wait any longer. */
  patience() {
    clearTimeout(this.patienceTimer);
    byId("interrupt").hidden = true;
    if (this.isBehind() || (this.online && !this.held)) {
      this.patienceTimer = setTimeout(() => (byId("interrupt").hidden = false), 8000);
    }
  }

  /** Whether the newest text has no answer yet: what is seen is the last complete one. */
  isBehind() {
    return Boolean(this.online && !this.wrong && this.document && this.held && this.held.revision < this.document.revision);
  }

  named() {
    const names = this.drawing?.names;
    if (!names) return;
    const select = /** @type {HTMLSelectElement} */ (byId("layer"));
    const options = names.actions.map((name, i) => new Option(names.ranges ? `mean ${name}` : `probability of ${name}`, `output ${i}`));
    if (!names.ranges) options.push(new Option("likeliest action", "likeliest 0"));
    options.push(...names.actions.map((name, i) => new Option(`change of ${name}`, `change ${i}`)));
    select.replaceChildren(...options);
    this.layer = { what: "output", action: names.shown_action };
    select.value = `output ${names.shown_action}`;
    this.behaviour.named(names);
    this.sliders();
  }

  sliders() {
    const names = this.drawing?.names;
    const { view } = this;
    if (!names || !view) return;
    const choice = (/** @type {"across" | "up"} */ axis, /** @type {string} */ label) => {
      const select = html("select", { "aria-label": label }, ...names.observations.map((name, i) => new Option(name, String(i), false, i === view[axis])));
      select.addEventListener("change", () => this.turn(axis, Number(select.value)));
      return select;
    };
    /** @type {HTMLElement[]} */
    const parts = [html("div", { class: "axes-choice" }, "Across", choice("across", "Observation across"), "up", choice("up", "Observation up"))];
    names.observations.forEach((name, i) => {
      if (i === view.across || i === view.up) return;
      const reach = this.reach(i);
      const range = html("input", { type: "range", min: reach[0], max: reach[1], step: "any", value: view.at[i], "aria-label": `Value of ${name}` });
      const shown = html("output", {}, String(rounded(view.at[i], reach[1] - reach[0])));
      range.addEventListener("input", () => {
        const at = [...(this.view ?? view).at];
        at[i] = rounded(Number(range.value), reach[1] - reach[0]);
        shown.textContent = String(at[i]);
        this.look({ ...(this.view ?? view), at });
      });
      parts.push(html("label", {}, name, shown, range));
    });
    byId("sliders").replaceChildren(...parts);
  }

  /**
   * How far an observation is worth going: as far as rules speak of it, and a little more.
   * @param {number} index
   * @returns {[number, number]}
   */
  reach(index) {
    const values = (this.drawing?.shapes ?? []).map((one) => one.middle[index]).filter((one) => one !== undefined);
    const at = this.view?.at[index] ?? 0;
    const most = Math.max(1, ...values.map(Math.abs), Math.abs(at)) * 1.5;
    return [-most, most];
  }

  redraw() {
    const { drawing, view, held, proof } = this;
    const names = drawing?.names;
    if (!drawing || !names || !view) return;
    this.map.look(view);
    const key = `${held?.revision} ${held?.seconds} ${JSON.stringify(this.layer)} ${this.before?.values.length} ${document.documentElement.dataset.theme}`;
    if (held?.map && key !== this.painted) {
      this.map.show(new Field(held.map, this.before, names, this.layer));
      this.painted = key;
    }
    this.map.draw(names.observations);
    const verdicts = this.verdicts();
    const current = proof && proof.revision === held?.revision && proof.revision === drawing.revision && /** @type {HTMLInputElement} */ (byId("cells")).checked;
    this.map.drawCells(current ? proof.cells : []);
    Object.assign(this.shapes, { verdicts, clash: held?.conflict ?? [], clashState: held?.conflict_state ?? [], chosen: this.chosen });
    this.shapes.draw();
    this.map.drawTrails(this.behaviour.trails.checked ? (this.behaviour.played?.trails ?? []) : []);
    this.rules.draw(drawing.cards, verdicts, this.chosen, held?.conflict ?? [], held?.conflict_words ?? "");
  }

  verdicts() {
    const { held, proof } = this;
    if (!held) return [];
    if (!proof || proof.revision !== held.revision || !held.satisfied) return held.verdicts;
    return held.verdicts.map((one) => {
      const better = proof.verdicts.find((other) => other.entry === one.entry);
      if (!better) return one;
      return better.status === "unknown" ? { ...one, words: `${one.words}; ${better.words}`, influence: better.influence } : { ...better, violation: better.violation ?? one.violation };
    });
  }

  // ---- what hands do

  /** @param {number | null} entry */
  choose(entry) {
    if (this.chosen === entry) return;
    this.chosen = entry;
    const card = this.drawing?.cards.find((one) => one.entry === entry);
    this.editor.point(card?.line ?? 0);
    this.redraw();
    if (entry !== null) this.rules.cards.get(entry)?.scrollIntoView({ block: "nearest" });
  }

  /** @param {number} entry whose plane is to be shown */
  visit(entry) {
    const shape = this.drawing?.shapes.find((one) => one.entry === entry);
    if (!shape || !this.view) return;
    this.look({ ...this.view, at: shape.middle.map((value) => rounded(value, 1)) }, true);
    this.sliders();
  }

  /**
   * @param {View} view
   * @param {boolean} [resting]
   */
  look(view, resting = false) {
    this.view = view;
    this.panning = !resting;
    this.send({ kind: "look", view, resting });
    clearTimeout(this.lookTimer);
    if (!resting) this.lookTimer = setTimeout(() => this.look(/** @type {View} */ (this.view), true), 250);
    this.redraw();
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
    this.sliders();
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
   * @param {import("./types.js").Pair} [around]
   */
  zoom(factor, around) {
    const { view } = this;
    if (!view) return;
    const [x, y] = around ?? [(view.across_range[0] + view.across_range[1]) / 2, (view.up_range[0] + view.up_range[1]) / 2];
    const nearer = (/** @type {import("./types.js").Pair} */ [a, b], /** @type {number} */ at) => /** @type {import("./types.js").Pair} */ ([at + (a - at) * factor, at + (b - at) * factor]);
    this.look({ ...view, across_range: nearer(view.across_range, x), up_range: nearer(view.up_range, y) });
  }

  /** @param {Tool} tool */
  take(tool) {
    if (tool === "select") this.waiting = this.drawing?.cards.length ?? 0;
    this.shapes.take(tool);
    for (const button of byId("tools").children) button.setAttribute("aria-checked", String(button.id === `tool-${tool}`));
  }

  pointer() {
    const { root } = this.map;
    root.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(event.deltaY > 0 ? 1.15 : 1 / 1.15, this.map.point(event));
    }, { passive: false });
    let last = 0;
    root.addEventListener("pointermove", (event) => {
      const { view } = this;
      if (!view || performance.now() - last < 50 || event.buttons) return;
      last = performance.now();
      const [x, y] = this.map.point(event);
      const inside = x >= view.across_range[0] && x <= view.across_range[1] && y >= view.up_range[0] && y <= view.up_range[1];
      this.cross(inside ? [x, y] : null);
      if (!inside) return;
      const state = [...view.at];
      state[view.across] = x;
      state[view.up] = y;
      this.hovered = state;
      this.send({ kind: "probe", state });
    });
    root.addEventListener("pointerleave", () => {
      this.hovered = null;
      this.cross(null);
    });
  }

  /** @param {import("./types.js").Pair | null} point */
  cross(point) {
    const { x, y, layers } = this.map;
    if (!point) {
      layers.cross.replaceChildren();
      return;
    }
    const [a, b] = [x.pixel(point[0]), y.pixel(point[1])];
    layers.cross.replaceChildren(svg("path", { class: "cross", fill: "none", d: `M${a} ${y.to}V${y.from}M${x.from} ${b}H${x.to}` }));
  }

  buttons() {
    const tools = TOOLS.map(([tool, label, key]) => {
      const button = html("button", { id: `tool-${tool}`, type: "button", role: "radio", "aria-checked": String(tool === "select"), title: `${label} (${key.toUpperCase()})` }, label);
      button.addEventListener("click", () => this.take(tool));
      return button;
    });
    byId("tools").append(...tools);
    for (const order of ["undo", "redo", "save", "python", "interrupt"]) byId(order).addEventListener("click", () => this.send({ kind: order }));
    byId("layer").addEventListener("change", (event) => {
      const [what, action] = /** @type {HTMLSelectElement} */ (event.target).value.split(" ");
      this.layer = { what: /** @type {Layer["what"]} */ (what), action: Number(action) };
      this.redraw();
    });
    byId("cells").addEventListener("change", () => this.redraw());
    byId("closer").addEventListener("click", () => this.zoom(1 / 1.4));
    byId("farther").addEventListener("click", () => this.zoom(1.4));
    byId("whole").addEventListener("click", () => {
      if (this.home) this.look(this.home, true);
      this.sliders();
    });
    byId("theme").addEventListener("click", () => this.theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
    const wanted = localStorage.getItem("theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    this.theme(wanted);
    for (const name of ["file", "behaviour"]) byId(`tab-${name}`).addEventListener("click", () => this.tab(name));
    document.addEventListener("keydown", (event) => this.shortcut(event));
  }

  /** @param {string} theme */
  theme(theme) {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem("theme", theme);
    this.redraw();
  }

  /** @param {string} chosen */
  tab(chosen) {
    for (const name of ["file", "behaviour"]) {
      byId(`tab-${name}`).setAttribute("aria-selected", String(name === chosen));
      byId(`panel-${name}`).hidden = name !== chosen;
    }
  }

  /** @param {KeyboardEvent} event */
  shortcut(event) {
    const command = event.ctrlKey || event.metaKey;
    const key = event.key.toLowerCase();
    if (command && key === "z") {
      event.preventDefault();
      this.send({ kind: event.shiftKey ? "redo" : "undo" });
    } else if (command && key === "y") {
      event.preventDefault();
      this.send({ kind: "redo" });
    } else if (command && key === "s") {
      event.preventDefault();
      this.send({ kind: "save" });
    } else if (!command && !event.altKey && !(event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement || event.target instanceof HTMLSelectElement)) {
      const tool = TOOLS.find((one) => one[2] === key);
      if (tool) this.take(tool[0]);
    }
  }

  // ---- words

  /** @param {string} when */
  offer(when) {
    const banner = byId("banner");
    const restore = html("button", { type: "button" }, "Restore");
    const discard = html("button", { type: "button" }, "Discard");
    banner.className = "banner";
    banner.replaceChildren(html("span", {}, `There is unsaved work of ${when.replace("T", ", ")}.`), restore, discard);
    banner.hidden = false;
    for (const [button, kind] of /** @type {[HTMLButtonElement, string][]} */ ([[restore, "restore"], [discard, "discard"]])) {
      button.addEventListener("click", () => {
        this.send({ kind });
        banner.hidden = true;
      });
    }
  }

  /**
   * @param {string} words
   * @param {string} label
   * @param {string} kind
   */
  ask(words, label, kind) {
    const banner = byId("banner");
    const yes = html("button", { type: "button" }, label);
    const no = html("button", { type: "button" }, "Leave it");
    banner.className = "banner bad";
    banner.replaceChildren(html("span", {}, words), yes, no);
    banner.hidden = false;
    yes.addEventListener("click", () => {
      this.send({ kind });
      banner.hidden = true;
    });
    no.addEventListener("click", () => (banner.hidden = true));
  }

  /** @param {string} text */
  async copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      this.toast("Copied as Python.");
    } catch {
      this.toast(text);
    }
  }

  /**
   * @param {string} text
   * @param {boolean} [bad]
   */
  toast(text, bad = false) {
    const place = byId("toast");
    place.textContent = text;
    place.classList.toggle("bad", bad);
    place.hidden = false;
    clearTimeout(this.toastTimer);
    this.toastTimer = setTimeout(() => (place.hidden = true), bad ? 7000 : 2500);
  }

  /** @type {number[] | null} */
  hovered = null;
  online = false;
  wrong = false;
  waiting = 0;
  painted = "";
  toastTimer = 0;
  patienceTimer = 0;
}

Reflect.set(window, "studio", new Page());
