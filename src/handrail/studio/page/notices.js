// What people should know: a line that goes by itself, and questions that wait for an answer.

import { byId, html } from "./elements.js";

/**
 * @param {string} text
 * @param {boolean} [bad]
 */
export function toast(text, bad = false) {
  const place = byId("toast");
  place.textContent = text;
  place.classList.toggle("bad", bad);
  place.hidden = false;
  clearTimeout(Number(place.dataset.timer));
  place.dataset.timer = String(setTimeout(() => (place.hidden = true), bad ? 7000 : 3500));
}

/**
 * Words with a button for each answer; any of them ends the question.
 * @param {string} words
 * @param {[string, () => void][]} answers
 * @param {boolean} [bad]
 */
export function question(words, answers, bad = false) {
  const banner = byId("banner");
  const buttons = answers.map(([label, act]) => {
    const button = html("button", { type: "button" }, label);
    button.addEventListener("click", () => {
      banner.hidden = true;
      act();
    });
    return button;
  });
  banner.className = bad ? "banner bad" : "banner";
  banner.replaceChildren(html("span", {}, words), ...buttons);
  banner.hidden = false;
}

/** @param {string} text of a program */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied as Python.");
  } catch {
    toast(text);
  }
}
