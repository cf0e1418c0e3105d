// The constraint file as text: highlighted, with the line of what is wrong.

import { html } from "./elements.js";

export class Editor {
  /**
   * @param {HTMLElement} place
   * @param {(text: string, gesture: number) => void} write
   */
  constructor(place, write) {
    this.gutter = html("div", { class: "gutter", "aria-hidden": "true" });
    this.paper = html("pre", { "aria-hidden": "true" });
    this.area = html("textarea", { spellcheck: false, autocomplete: "off", "aria-label": "Constraint file" });
    this.scroll = html("div", { class: "editor" }, this.gutter, html("div", { class: "sheet" }, this.paper, this.area));
    this.message = html("div", { class: "message", role: "status", hidden: true });
    place.append(this.scroll, this.message);
    this.wrong = 0;
    this.here = 0;
    this.gesture = (Date.now() % 1e9) + 800000000;
    this.last = 0;
    this.area.addEventListener("input", () => {
      if (Date.now() - this.last > 800) this.gesture += 1; // what is typed in one go is undone so
      this.last = Date.now();
      this.draw();
      write(this.area.value, this.gesture);
    });
  }

  get isTyped() {
    return document.activeElement === this.area && Date.now() - this.last < 1500;
  }

  /** @param {string} text */
  show(text) {
    if (this.area.value === text) return;
    const { selectionStart, selectionEnd } = this.area;
    this.area.value = text;
    this.area.setSelectionRange(selectionStart, selectionEnd);
    this.draw();
  }

  /**
   * @param {string} error
   * @param {number} line
   */
  complain(error, line) {
    this.message.hidden = !error;
    this.message.className = error ? "message bad" : "message";
    this.message.textContent = error;
    if (this.wrong !== line) {
      this.wrong = line;
      this.draw();
    }
  }

  /** @param {number} line to be pointed at; 0 for none */
  point(line) {
    if (this.here === line) return;
    this.here = line;
    this.draw();
    const top = (line - 1) * 18;
    if (line && (top < this.scroll.scrollTop || top > this.scroll.scrollTop + this.scroll.clientHeight - 130)) { // with the lines below it
      this.scroll.scrollTop = Math.max(0, top - 60);
    }
  }

  draw() {
    const lines = this.area.value.split("\n");
    this.gutter.replaceChildren(...lines.map((_, i) => {
      const mark = i + 1 === this.wrong ? "wrong" : i + 1 === this.here ? "here" : "";
      return html("div", {}, html("span", { class: mark }, String(i + 1)));
    }));
    this.paper.replaceChildren(...lines.map((line, i) => {
      const mark = i + 1 === this.wrong ? "line-wrong" : i + 1 === this.here ? "line-here" : "";
      return html("div", { class: mark }, ...tokens(line), "\u200b");
    }));
  }
}

/** @param {string} line */
function tokens(line) {
  const comment = line.search(/(^|\s)#/);
  const code = comment < 0 ? line : line.slice(0, comment);
  const rest = comment < 0 ? "" : line.slice(comment);
  const parts = [];
  const key = /^(\s*(?:- )?)([A-Za-z_][\w]*)(:)/.exec(code);
  if (key) parts.push(key[1], html("span", { class: "tok-key" }, key[2]), code.slice(key[1].length + key[2].length));
  else parts.push(code);
  if (rest) parts.push(html("span", { class: "tok-comment" }, rest));
  return parts;
}
