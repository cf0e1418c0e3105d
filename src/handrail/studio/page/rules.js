// A card for every constraint: its name, what it requires, and what is known of it.

import { html } from "./elements.js";
import { brief } from "./scale.js";

/** @typedef {import("./types.js").Card} Card */
/** @typedef {import("./types.js").Verdict} Verdict */
/** @typedef {import("./types.js").Bound} Bound */

/** What cards ask of the page around them.
 * @typedef {object} Wishes
 * @property {(path: (string | number)[], text: string, gesture: number, resting: boolean) => void} write
 * @property {(entry: number) => void} remove
 * @property {(entry: number) => void} choose
 * @property {(entry: number) => void} visit
 */

export class Rules {
  /**
   * @param {HTMLElement} place
   * @param {Wishes} wishes
   */
  constructor(place, wishes) {
    this.place = place;
    this.wishes = wishes;
    this.gesture = (Date.now() % 1e9) + 500000000;
    /** @type {Map<number, HTMLElement>} */
    this.cards = new Map();
    this.shown = "";
  }

  /**
   * @param {Card[]} cards
   * @param {Verdict[]} verdicts
   * @param {number | null} chosen
   * @param {number[]} clash
   * @param {string} clashWords
   */
  draw(cards, verdicts, chosen, clash, clashWords) {
    const signature = JSON.stringify(cards);
    if (signature !== this.shown && !this.isHeld()) {
      this.shown = signature;
      this.cards = new Map(cards.map((card) => [card.entry, this.card(card)]));
      this.place.replaceChildren(...this.cards.values());
      if (!cards.length) this.place.append(html("p", { class: "empty" }, "Draw a box, a ball, a polygon or a point on the map: it becomes a rule."));
    }
    for (const [entry, element] of this.cards) {
      element.classList.toggle("chosen", entry === chosen);
      element.classList.toggle("clash", clash.includes(entry));
      this.judge(element, verdicts.find((one) => one.entry === entry), clash.includes(entry) ? clashWords : "");
    }
  }

  /** @param {number} entry whose card is to be seen */
  reveal(entry) {
    this.cards.get(entry)?.scrollIntoView({ block: "nearest" });
  }

  /** Whether somebody types or slides in a card: what they hold is not replaced under their hand. */
  isHeld() {
    const active = document.activeElement;
    return this.held === true || (active instanceof HTMLInputElement && active.type !== "range" && this.place.contains(active));
  }

  /** @param {Card} card */
  card(card) {
    const name = html("input", { class: "name", type: "text", value: card.name, "aria-label": "Name of the constraint", spellcheck: false });
    name.addEventListener("change", () => this.wishes.write(["constraints", card.entry, "name"], name.value, 0, true));
    const bin = html("button", { class: "quiet bin", type: "button", title: "Remove this constraint", "aria-label": `Remove ${card.name}` }, "✕");
    bin.addEventListener("click", () => this.wishes.remove(card.entry));
    const element = html("article", { class: "card", "aria-label": card.name }, html("div", { class: "top" }, html("span", { class: "dot" }), name, bin));
    element.addEventListener("pointerdown", () => this.wishes.choose(card.entry));
    element.addEventListener("focusin", () => this.wishes.choose(card.entry));
    for (const requirement of card.requirements) element.append(...this.requirement(requirement));
    if (!card.requirements.length) for (const words of card.sentences) element.append(html("div", { class: "words" }, words));
    if (!card.meets) {
      const visit = html("button", { class: "quiet", type: "button" }, "Go there");
      visit.addEventListener("click", () => this.wishes.visit(card.entry));
      element.append(html("div", { class: "elsewhere" }, "Not in this plane.", visit));
    }
    for (const note of card.notes) element.append(html("div", { class: "words" }, note));
    element.append(html("div", { class: "verdict", "aria-live": "polite" }), html("div", { class: "numbers" }));
    return element;
  }

  /** @param {import("./types.js").RequireLine} requirement */
  requirement(requirement) {
    const line = html("input", { class: "require", type: "text", value: requirement.text, spellcheck: false, "aria-label": "What is required" });
    line.addEventListener("focus", () => (this.gesture += 1));
    line.addEventListener("input", () => this.wishes.write(requirement.path, line.value, this.gesture, true));
    const sliders = requirement.bounds.map((bound, number) => this.slider(requirement, bound, number, line));
    return [line, ...sliders];
  }

  /**
   * @param {import("./types.js").RequireLine} requirement
   * @param {Bound} bound
   * @param {number} number
   * @param {HTMLInputElement} line
   */
  slider(requirement, bound, number, line) {
    const step = Number(((bound.high - bound.low) / 500).toPrecision(1));
    const range = html("input", { type: "range", min: bound.low, max: bound.high, step: "any", value: bound.value, "aria-label": `Bound ${number + 1}` });
    const shown = html("output", {}, brief(bound.value));
    const text = () => {
      const digits = Math.max(0, Math.ceil(-Math.log10(step)));
      const value = String(Number(Number(range.value).toFixed(digits)));
      return requirement.text.slice(0, bound.start) + value + requirement.text.slice(bound.end);
    };
    range.addEventListener("pointerdown", () => ([this.held, this.gesture] = [true, this.gesture + 1]));
    range.addEventListener("input", () => {
      shown.textContent = brief(Number(range.value));
      line.value = text();
      this.wishes.write(requirement.path, text(), this.gesture, false);
    });
    range.addEventListener("change", () => {
      this.held = false;
      this.wishes.write(requirement.path, text(), this.gesture, true);
    });
    return html("div", { class: "slide" }, range, shown);
  }

  /**
   * @param {HTMLElement} element
   * @param {Verdict | undefined} verdict
   * @param {string} clashWords
   */
  judge(element, verdict, clashWords) {
    const dot = /** @type {HTMLElement} */ (element.querySelector(".dot"));
    const words = /** @type {HTMLElement} */ (element.querySelector(".verdict"));
    const numbers = /** @type {HTMLElement} */ (element.querySelector(".numbers"));
    dot.className = `dot ${verdict?.status ?? ""}`;
    words.className = `verdict ${clashWords ? "violated" : (verdict?.status ?? "")}`;
    words.textContent = clashWords || verdict?.words || "";
    const parts = [];
    if (verdict && verdict.violation !== null) parts.push(`violation ${verdict.violation}`);
    if (verdict?.influence) parts.push(`alone, elsewhere: ${verdict.influence}`);
    numbers.textContent = parts.join("\n");
    numbers.title = parts.join("\n");
  }
}
