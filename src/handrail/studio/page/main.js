// The page: what the server says becomes what is seen, what hands do becomes what is asked.

import { Behaviour } from "./behaviour.js";
import { Cursor } from "./cursor.js";
import { Editor } from "./editor.js";
import { byId, html } from "./elements.js";
import { Exports } from "./exports.js";
import { changeName, Field, MapView, outputNames } from "./map.js";
import { copy, question, toast } from "./notices.js";
import { PlaneControl } from "./plane.js";
import { Rules } from "./rules.js";
import { ShapeLayer } from "./shapes.js";
import { Channel } from "./socket.js";

/** @typedef {import("./types.js").Answer} Answer */
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
    /** @type {Layer} */
    this.layer = { what: "output", action: 0 };
    /** @type {number | null} */
    this.chosen = null;
    /** @type {number | null} a rule that was just drawn */
    this.added = null;
    this.map = new MapView(byId("map"));
    this.map.onResize = () => this.redraw();
    this.plane = new PlaneControl(byId("sliders"), (view, resting) => {
      this.send({ kind: "look", view, resting });
      this.redraw();
      this.state();
    });
    this.cursor = new Cursor(this.map, byId("probe"), (state) => this.send({ kind: "probe", state }));
    this.shapes = new ShapeLayer(this.map, {
      edit: (values, gesture, resting) => this.change({ kind: "edit", values, gesture, resting }),
      add: (shape, points, radius) => {
        this.change({ kind: "add", shape, points, radius, action: this.layer.action });
        this.take("select");
      },
      insert: (path, index, item) => this.change({ kind: "insert", path, index, item }),
      remove: (path, index) => this.change({ kind: "remove", path, index }),
      choose: (entry) => this.choose(entry),
      pan: (dx, dy, done) => this.plane.pan(dx, dy, done),
    });
    this.rules = new Rules(byId("cards"), {
      write: (path, value, gesture, resting) => this.change({ kind: "edit", values: [{ path, value }], gesture, resting }),
      remove: (entry) => this.change({ kind: "remove", path: ["constraints"], index: entry }),
      choose: (entry) => this.choose(entry),
      visit: (entry) => this.visit(entry),
    });
    this.editor = new Editor(byId("panel-file"), (text, gesture) => this.change({ kind: "text", text, gesture }));
    this.behaviour = new Behaviour(byId("panel-behaviour"), (request) => this.send(request), () => this.redraw());
    this.exports = new Exports((format, prove) => this.write({ kind: "export", format, prove }));
    this.channel = new Channel((answer) => this.hear(answer), (connected) => this.connected(connected));
    this.buttons();
  }

  /** @param {Record<string, unknown>} request */
  send(request) {
    this.channel.send(request);
  }

  /**
   * The text is to be another: each such request makes one revision, which is on its way from now on.
   * @param {Record<string, unknown>} request
   */
  change(request) {
    if (this.online) this.awaited = Math.max(this.awaited, this.document?.revision ?? 0) + 1;
    this.send(request);
  }

  /** What was on its way does not come: what is drawn is all there is. */
  giveUp() {
    this.awaited = 0;
    this.shapes.settle();
    this.redraw();
  }

  /**
   * A file is to be written; if somebody else has written it, the page asks again.
   * @param {Record<string, unknown>} request
   */
  write(request) {
    this.wanted = request;
    this.send(request);
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
        this.cursor.probed = answer;
        this.drawCursor();
        break;
      case "played":
        this.behaviour.hearPlayed(answer);
        break;
      case "trained":
        this.behaviour.hearTrained(answer);
        break;
      case "runs":
        this.behaviour.hearRuns(answer);
        break;
      case "notice":
        this.hearNotice(answer);
        break;
    }
  }

  /** @param {import("./types.js").Drawing} drawing */
  hearDrawing(drawing) {
    const isOfBefore = this.wrong && drawing.revision < this.wrongRevision; // the last good text, from elsewhere
    if (!isOfBefore) {
      this.editor.complain(drawing.error, drawing.line);
      this.wrong = Boolean(drawing.error);
      this.wrongRevision = drawing.revision;
    }
    if (drawing.error) {
      this.state();
      return;
    }
    const renamed = !isSame(this.drawing?.names, drawing.names);
    this.drawing = drawing;
    this.plane.hear(drawing);
    if (renamed) this.named();
    this.shapes.shapes = drawing.shapes;
    if (drawing.revision >= Math.max(this.awaited, this.document?.revision ?? 0)) this.shapes.settle();
    if (this.chosen !== null && this.chosen >= drawing.cards.length) this.chosen = null;
    if (this.waiting && drawing.cards.length > this.waiting) {
      this.choose(drawing.cards.length - 1);
      this.added = this.chosen;
    }
    this.waiting = 0;
    this.redraw();
    this.state();
  }

  /** @param {import("./types.js").Held} held */
  hearHeld(held) {
    this.held = held;
    if (this.proof && this.proof.revision !== held.revision) this.proof = null;
    this.redraw();
    if (this.added !== null) this.rules.reveal(this.added); // its card has become longer
    this.state();
    this.cursor.askAgain();
  }

  drawCursor() {
    if (this.drawing?.names) this.cursor.draw(this.drawing.names, this.held?.revision ?? -1);
  }

  /** @param {import("./types.js").Note} notice */
  hearNotice(notice) {
    const order = (/** @type {string} */ kind) => () => this.send({ kind });
    if (notice.what === "kept") question(`There is unsaved work of ${notice.text.replace("T", ", ")}.`, [["Restore", order("restore")], ["Discard", order("discard")]]);
    else if (notice.what === "python") copy(notice.text);
    else if (notice.what === "taken") question(notice.text, [["Replace it", () => this.send({ ...this.wanted, anyway: true })], ["Leave it", () => {}]], true);
    else if (notice.what === "exported") question(notice.text, [["Close", () => {}]]);
    else {
      if (notice.what === "failed") this.behaviour.ended();
      if (notice.what === "refused") this.giveUp();
      toast(notice.text, notice.what === "failed" || notice.what === "refused");
    }
  }

  /** @param {boolean} connected */
  connected(connected) {
    this.online = connected;
    this.giveUp();
    this.state();
  }

  // ---- what is seen

  header() {
    const { document: doc } = this;
    if (!doc) return;
    byId("file").textContent = doc.file;
    byId("file").title = doc.file;
    byId("unsaved").hidden = doc.saved;
    this.exports.show(doc.exports);
    byId("undo").toggleAttribute("disabled", !doc.can_undo);
    byId("redo").toggleAttribute("disabled", !doc.can_redo);
    document.title = `${doc.saved ? "" : "• "}${doc.file} – Handrail studio`;
  }

  state() {
    const place = byId("state");
    const { held } = this;
    const parts = [];
    if (!this.online) parts.push(html("b", {}, "Not connected."), " The studio has ended, or is not reached.");
    else if (this.wrong) parts.push(html("b", {}, "The text is not valid."), " The last good answer is shown.");
    else if (!held) parts.push(html("span", { class: "busy" }, "Starting…"));
    else parts.push(...this.answer(held));
    if (this.isBehind()) parts.unshift(html("span", { class: "busy", title: "An answer to the newest text is on its way" }, "● "));
    const broken = this.verdicts().some((one) => one.status === "violated");
    place.classList.toggle("bad", !this.online || this.wrong || broken || held?.satisfied === false);
    place.replaceChildren(...parts);
    byId("hold_proven").hidden = !(held?.satisfied && this.proof?.verdicts.some((one) => one.status !== "proven"));
    place.title = place.textContent ?? "";
    place.dataset.revision = String(held?.revision ?? -1);
    place.dataset.proof = String(this.proof?.revision ?? -1);
    this.patience();
  }

  /**
   * The last complete answer, in words; of a policy that breaks a rule nothing better is said.
   * @param {import("./types.js").Held} held
   */
  answer(held) {
    if (!held.satisfied) {
      const why = (held.conflict_words || held.words).replace(/\.$/, "");
      return [html("b", {}, held.conflict.length ? "Conflict." : "Not held."), ` ${why}. The policy before is shown.`];
    }
    const broken = this.verdicts().filter((one) => one.status === "violated").length;
    const rest = ` ${held.influence ? `Elsewhere ${held.influence}.` : held.words}`;
    if (broken) return [html("b", {}, `${broken} of ${held.verdicts.length} violated.`), rest];
    return [html("b", {}, this.proof ? `${this.proof.words}.` : "Every rule holds where it was tried."), rest];
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
    const { held, document: doc } = this;
    if (!this.online || this.wrong || !doc || !held) return false;
    return held.revision < doc.revision || !isSame(held.map?.view, this.plane.view);
  }

  named() {
    const names = this.drawing?.names;
    if (!names) return;
    const select = /** @type {HTMLSelectElement} */ (byId("layer"));
    const outputs = outputNames(names);
    const options = outputs.map((name, i) => new Option(name, `output ${i}`));
    if (!names.ranges && !names.branches.length) options.push(new Option("likeliest action", "likeliest 0"));
    options.push(...outputs.map((_, i) => new Option(changeName(names, i), `change ${i}`)));
    select.replaceChildren(...options);
    this.layer = { what: "output", action: names.shown_action };
    select.value = `output ${names.shown_action}`;
    this.behaviour.named(names);
    this.plane.draw();
  }

  redraw() {
    const { drawing, held, proof } = this;
    const { view } = this.plane;
    const names = drawing?.names;
    if (!drawing || !names || !view) return;
    this.map.look(view);
    const look = `${JSON.stringify(this.layer)} ${document.documentElement.dataset.theme}`;
    if (held?.map && (held.map !== this.painted.map || look !== this.painted.look)) {
      this.map.show(new Field(held.map, held.before, names, this.layer));
      this.painted = { map: held.map, look };
    }
    this.map.draw(names.observations);
    const verdicts = this.verdicts();
    const current = proof && proof.revision === held?.revision && proof.revision === drawing.revision && /** @type {HTMLInputElement} */ (byId("cells")).checked;
    this.map.drawCells(current ? proof.cells : []);
    Object.assign(this.shapes, { verdicts, clash: held?.conflict ?? [], clashState: held?.conflict_state ?? [], chosen: this.chosen });
    this.shapes.draw();
    this.map.drawTrails(this.behaviour.trails.checked ? (this.behaviour.played?.trails ?? []) : []);
    this.rules.draw(drawing.cards, verdicts, this.chosen, held?.conflict ?? [], held?.conflict_words ?? "");
    this.drawCursor();
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
    this.added = null;
    const card = this.drawing?.cards.find((one) => one.entry === entry);
    this.editor.point(card?.line ?? 0);
    this.redraw();
    if (entry !== null) this.rules.reveal(entry);
  }

  /** @param {number} entry whose plane is to be shown */
  visit(entry) {
    const shape = this.drawing?.shapes.find((one) => one.entry === entry);
    if (shape) this.plane.visit(shape.middle);
  }

  /** @param {Tool} tool */
  take(tool) {
    if (tool === "select") this.waiting = this.drawing?.cards.length ?? 0;
    this.shapes.take(tool);
    for (const button of byId("tools").children) button.setAttribute("aria-checked", String(button.id === `tool-${tool}`));
  }

  buttons() {
    const tools = TOOLS.map(([tool, label, key]) => {
      const button = html("button", { id: `tool-${tool}`, type: "button", role: "radio", "aria-checked": String(tool === "select"), title: `${label} (${key.toUpperCase()})` }, label);
      button.addEventListener("click", () => this.take(tool));
      return button;
    });
    byId("tools").append(...tools);
    for (const order of ["undo", "redo"]) byId(order).addEventListener("click", () => this.change({ kind: order }));
    for (const order of ["python", "interrupt", "hold_proven"]) byId(order).addEventListener("click", () => this.send({ kind: order }));
    byId("save").addEventListener("click", () => this.write({ kind: "save" }));
    byId("layer").addEventListener("change", (event) => {
      const [what, action] = /** @type {HTMLSelectElement} */ (event.target).value.split(" ");
      this.layer = { what: /** @type {Layer["what"]} */ (what), action: Number(action) };
      this.redraw();
    });
    byId("cells").addEventListener("change", () => this.redraw());
    byId("closer").addEventListener("click", () => this.plane.zoom(1 / 1.4));
    byId("farther").addEventListener("click", () => this.plane.zoom(1.4));
    byId("whole").addEventListener("click", () => this.plane.whole());
    this.map.root.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.plane.zoom(event.deltaY > 0 ? 1.15 : 1 / 1.15, this.map.point(event));
    }, { passive: false });
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
      this.change({ kind: event.shiftKey ? "redo" : "undo" });
    } else if (command && key === "y") {
      event.preventDefault();
      this.change({ kind: "redo" });
    } else if (command && key === "s") {
      event.preventDefault();
      this.write({ kind: "save" });
    } else if (!command && !event.altKey && !(event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement || event.target instanceof HTMLSelectElement)) {
      const tool = TOOLS.find((one) => one[2] === key);
      if (tool) this.take(tool[0]);
    }
  }

  /** @type {Record<string, unknown>} */
  wanted = {};
  online = false;
  wrong = false;
  wrongRevision = 0;
  awaited = 0;
  waiting = 0;
  /** @type {{map: import("./types.js").Map | null, look: string}} */
  painted = { map: null, look: "" };
  patienceTimer = 0;
}

/**
 * @param {unknown} one
 * @param {unknown} other
 */
function isSame(one, other) {
  return JSON.stringify(one) === JSON.stringify(other);
}

Reflect.set(window, "studio", new Page());
