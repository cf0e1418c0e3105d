// The policy as a file: under which names, and in which format.

import { byId, html } from "./elements.js";
import { toast } from "./notices.js";

/** @typedef {import("./types.js").ExportFile} ExportFile */

const WORDS = {
  onnx: "ONNX: any runtime runs it",
  numpy: "NumPy: a few lines of Python run it",
  learner: "Learner: Reinforce.load goes on from it",
};

export class Exports {
  /** @param {(format: ExportFile["format"], prove: boolean) => void} write */
  constructor(write) {
    this.write = write;
    this.menu = /** @type {HTMLDetailsElement} */ (byId("exports"));
    this.proof = /** @type {HTMLInputElement} */ (byId("export-proof"));
    document.addEventListener("pointerdown", (event) => {
      if (!this.menu.contains(/** @type {Node} */ (event.target))) this.menu.open = false;
    });
    this.menu.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.menu.open = false;
    });
  }

  /** @param {ExportFile[]} files */
  show(files) {
    byId("export-files").replaceChildren(...files.map((file) => {
      const button = html("button", { type: "button", id: `export-${file.format}`, title: file.name }, html("b", {}, file.name), html("span", {}, WORDS[file.format]));
      button.addEventListener("click", () => this.choose(file));
      return button;
    }));
  }

  /** @param {ExportFile} file */
  choose(file) {
    this.menu.open = false;
    toast(`Writing ${file.name}…`);
    this.write(file.format, this.proof.checked && file.format !== "learner");
  }
}
