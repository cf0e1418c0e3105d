// Colours of the map: from one side through the paper to the other, in light and in dark.

/** @typedef {[number, number, number]} Colour */

/** @type {Colour} */
const LOW = [52, 104, 168];
/** @type {Colour} */
const HIGH = [214, 122, 38];
/** @type {Colour[]} */
const KINDS = [[52, 104, 168], [214, 122, 38], [66, 140, 88], [150, 86, 150], [176, 62, 62], [110, 110, 110]];

/** @returns {Colour} what is neither one side nor the other */
export function middle() {
  return isDark() ? [38, 42, 48] : [248, 247, 244];
}

export function isDark() {
  return document.documentElement.dataset.theme === "dark";
}

/**
 * @param {number} share from 0 to 1
 * @param {Colour} centre
 * @returns {Colour}
 */
export function diverging(share, centre) {
  const side = share < 0.5 ? LOW : HIGH;
  const strength = Math.min(1, Math.abs(share - 0.5) * 2) ** 0.85;
  return mixed(centre, side, strength);
}

/**
 * @param {number} index of an action
 * @param {number} strength from 0 to 1
 * @param {Colour} centre
 * @returns {Colour}
 */
export function kind(index, strength, centre) {
  return mixed(centre, KINDS[index % KINDS.length], 0.25 + 0.75 * strength);
}

/**
 * Of a proven cell: the further inside its bound, the deeper.
 * @param {number} margin
 */
export function proven(margin) {
  const share = Math.min(1, Math.sqrt(Math.max(margin, 0)) / Math.sqrt(3));
  const [r, g, b] = mixed([196, 226, 180], [18, 98, 70], share);
  return `rgba(${r}, ${g}, ${b}, 0.72)`;
}

/**
 * @param {Colour} one
 * @param {Colour} other
 * @param {number} share of the other
 * @returns {Colour}
 */
function mixed(one, other, share) {
  return /** @type {Colour} */ (one.map((value, i) => Math.round(value + (other[i] - value) * share)));
}
