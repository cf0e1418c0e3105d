// Level lines of a grid: marching squares.

/** @typedef {import("./types.js").Pair} Pair */

/**
 * @param {ArrayLike<number>} values rows from the bottom to the top
 * @param {number} columns
 * @param {number} rows
 * @param {number} level
 * @returns {[Pair, Pair][]} segments in units of the grid
 */
export function contour(values, columns, rows, level) {
  /** @type {[Pair, Pair][]} */
  const segments = [];
  for (let j = 0; j + 1 < rows; j += 1) {
    for (let i = 0; i + 1 < columns; i += 1) {
      const corners = [values[j * columns + i], values[j * columns + i + 1], values[(j + 1) * columns + i + 1], values[(j + 1) * columns + i]];
      const crossings = edges(corners, i, j, level);
      if (crossings.length === 2) segments.push([crossings[0], crossings[1]]);
      if (crossings.length === 4) {
        segments.push([crossings[0], crossings[1]], [crossings[2], crossings[3]]);
      }
    }
  }
  return segments;
}

/**
 * @param {number[]} corners around a square, from its lower left
 * @param {number} i
 * @param {number} j
 * @param {number} level
 * @returns {Pair[]}
 */
function edges(corners, i, j, level) {
  /** @type {Pair[]} */
  const places = [[i, j], [i + 1, j], [i + 1, j + 1], [i, j + 1]];
  /** @type {Pair[]} */
  const found = [];
  for (let k = 0; k < 4; k += 1) {
    const next = (k + 1) % 4;
    if (corners[k] >= level !== corners[next] >= level) {
      const share = (level - corners[k]) / (corners[next] - corners[k]);
      found.push([
        places[k][0] + share * (places[next][0] - places[k][0]),
        places[k][1] + share * (places[next][1] - places[k][1]),
      ]);
    }
  }
  return found;
}
