// What the policy does: episodes before and after, and training, while one watches.

import { curves, histogram } from "./charts.js";
import { html } from "./elements.js";

/** @typedef {import("./types.js").Played} Played */
/** @typedef {import("./types.js").Trained} Trained */
/** @typedef {import("./types.js").Names} Names */

/** @type {Record<string, "now" | "then">} */
const STYLES = { "with rules": "now", "without rules": "then" };

export class Behaviour {
  /**
   * @param {HTMLElement} place
   * @param {(request: Record<string, unknown>) => void} send
   * @param {() => void} change of what is drawn on the map
   */
  constructor(place, send, change) {
    this.send = send;
    this.change = change;
    /** @type {Played | null} */
    this.played = null;
    /** @type {Map<string, Trained>} */
    this.trained = new Map();
    /** @type {Names | null} */
    this.names = null;
    this.episodes = html("input", { type: "number", min: 1, max: 500, value: 20, "aria-label": "Episodes to play" });
    this.greedy = html("input", { type: "checkbox" });
    this.film = html("input", { type: "checkbox", checked: true });
    this.trails = html("input", { type: "checkbox", checked: true });
    this.trails.addEventListener("change", change);
    this.training = html("input", { type: "number", min: 1, max: 100000, value: 50, "aria-label": "Episodes to train" });
    const button = (/** @type {string} */ id, /** @type {string} */ label, /** @type {() => void} */ act) => {
      const made = html("button", { type: "button", id }, label);
      made.addEventListener("click", act);
      return made;
    };
    this.stopButton = button("stop", "Stop", () => send({ kind: "stop" }));
    this.pauseButton = button("pause", "Pause", () => send({ kind: this.isPaused() ? "go_on" : "pause" }));
    this.forgetButton = button("forget", "Forget training", () => this.forget());
    this.beside = html("select", { "aria-label": "Run to compare with" });
    this.beside.addEventListener("change", () => send({ kind: "compare", run: this.beside.value }));
    this.besideRow = html("label", { class: "field", hidden: true }, "Beside", this.beside);
    this.compared = "";
    this.playing = html("div");
    this.time = html("div");
    this.learning = html("div");
    this.choice = html("select", { "aria-label": "What to see over time" });
    this.choice.addEventListener("change", () => this.drawTime());
    place.append(html("div", { class: "behaviour" },
      html("div", { class: "row" }, html("h2", {}, "Play"), this.episodes, "episodes",
        html("label", { class: "field" }, this.greedy, "likeliest"), html("label", { class: "field" }, this.film, "film"),
        button("play", "Play", () => this.play())),
      html("div", { class: "key" }, html("span", { class: "now" }, html("i"), "as held"), html("span", {}, html("i"), "before"),
        html("label", { class: "field" }, this.trails, "on the map")),
      this.playing, this.time,
      html("div", { class: "row" }, html("h2", {}, "Train"), this.training, "episodes",
        button("train", "Train", () => this.train(false)), button("train-free", "Without rules", () => this.train(true)),
        this.pauseButton, this.stopButton, this.forgetButton),
      this.besideRow, this.learning));
    this.controls();
  }

  /** @param {Names} names */
  named(names) {
    this.names = names;
    const options = names.observations.map((name, i) => new Option(name, `states ${i}`));
    const actions = names.ranges ? names.actions : names.branches.length ? names.branches : ["action"];
    options.push(...actions.map((name, i) => new Option(name, `actions ${i}`)));
    this.choice.replaceChildren(...options);
    this.choice.value = `states ${Math.min(2, names.observations.length - 1)}`;
  }

  play() {
    this.send({ kind: "play", episodes: Number(this.episodes.value), deterministic: this.greedy.checked, frames: this.film.checked });
    this.playing.replaceChildren(html("p", { class: "words" }, "Playing…"));
    this.busy = true;
    this.controls();
  }

  /** @param {boolean} free */
  train(free) {
    this.send({ kind: "train", episodes: Number(this.training.value), free });
    this.learning.replaceChildren(html("p", { class: "words" }, "Starting…"));
    this.busy = true;
    this.controls();
  }

  forget() {
    this.send({ kind: "forget_trained" });
    this.trained.delete("with rules");
    this.drawLearning();
  }

  /** @param {Played} played */
  hearPlayed(played) {
    this.played = played;
    this.busy = !played.done;
    const scores = histogram(`Score: ${played.words || `${played.scores.length} of ${played.wanted} episodes`}`, played.scores, played.scores_before, this.names?.pass_mark ?? null);
    const parts = /** @type {(HTMLElement | SVGElement)[]} */ ([scores]);
    if (played.film) parts.push(html("img", { class: "film", alt: "The first episode", src: `data:image/gif;base64,${played.film}` }));
    this.playing.replaceChildren(...parts);
    this.drawTime();
    this.controls();
    this.change();
  }

  /** @param {Trained} trained */
  hearTrained(trained) {
    this.trained.set(trained.label, trained);
    this.busy = trained.status === "running" || trained.status === "paused";
    this.drawLearning();
    this.controls();
  }

  /** @param {import("./types.js").RunsSeen} seen */
  hearRuns({ runs, compared }) {
    this.compared = compared;
    this.besideRow.hidden = !runs.length;
    this.beside.replaceChildren(new Option("no run", ""), ...runs.map((run) => new Option(run, run)));
    this.beside.value = compared;
    this.drawLearning();
  }

  isPaused() {
    return [...this.trained.values()].some((one) => one.status === "paused");
  }

  /** The process of the environment has ended. */
  ended() {
    this.busy = false;
    this.controls();
  }

  controls() {
    const running = [...this.trained.values()].some((one) => one.status === "running" || one.status === "paused");
    this.stopButton.disabled = !this.busy;
    this.pauseButton.disabled = !(this.busy && running);
    this.pauseButton.textContent = this.isPaused() ? "Go on" : "Pause";
    this.forgetButton.disabled = Boolean(this.busy) || !this.trained.has("with rules");
  }

  drawTime() {
    const { played } = this;
    if (!played?.trails.length) return;
    const [what, index] = this.choice.value.split(" ");
    const series = played.trails.filter((_, i) => i < 2).map((trail) => ({
      label: trail.before ? "before" : "as held",
      style: /** @type {"now" | "then"} */ (trail.before ? "then" : "now"),
      values: (what === "states" ? trail.states : trail.actions).map((one) => one[Number(index)]),
    }));
    const name = this.choice.selectedOptions[0]?.text ?? "";
    this.time.replaceChildren(html("label", { class: "field" }, "Over time", this.choice), curves(`${name}, first episode`, series));
  }

  drawLearning() {
    const chosen = `run ${this.compared}`;
    const all = [...this.trained.values()].filter((one) => !one.label.startsWith("run ") || one.label === chosen);
    if (!all.length) {
      this.learning.replaceChildren();
      return;
    }
    const end = Math.max(0, ...all.map((one) => one.wanted));
    const series = (/** @type {"scores" | "violations" | "influences"} */ key) => all.map((one) => ({ label: one.label, style: STYLES[one.label] ?? "run", values: one[key] }));
    const lines = all.map((one) => html("li", {}, html("i", { class: STYLES[one.label] ?? "run" }), this.progress(one)));
    this.learning.replaceChildren(
      html("ul", { class: "trainings", role: "status" }, ...lines),
      curves("Score (mean of 10)", series("scores"), { mark: this.names?.pass_mark ?? null, smooth: 10, end }),
      curves("Violation (positive means broken)", series("violations"), { end }),
      curves("Influence elsewhere", series("influences"), { end }),
    );
  }

  /** @param {Trained} one */
  progress(one) {
    if (one.label.startsWith("run ")) return `${one.label}: ${one.scores.length} episodes`;
    const where = one.folder ? `, kept in ${one.folder}` : "";
    return `${one.label}: ${one.scores.length} of ${one.wanted}, ${one.status}${where}`;
  }

  busy = false;
}
