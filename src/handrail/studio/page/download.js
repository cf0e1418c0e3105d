// Drawings as files: an SVG that looks the same without this page's style.

const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "font-weight", "font-family", "text-anchor"];

/**
 * @param {SVGSVGElement} drawing
 * @param {HTMLCanvasElement | null} [below] that lies under it
 */
export function svgText(drawing, below = null) {
  const copy = /** @type {SVGSVGElement} */ (drawing.cloneNode(true));
  const originals = [drawing, ...drawing.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((element, i) => {
    const style = getComputedStyle(originals[i]);
    for (const name of STYLES) element.setAttribute(name, style.getPropertyValue(name));
    for (const name of ["class", "tabindex", "role"]) element.removeAttribute(name);
  });
  const { width, height } = drawing.getBoundingClientRect();
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", String(width));
  copy.setAttribute("height", String(height));
  if (below) {
    const image = document.createElementNS("http://www.w3.org/2000/svg", "image");
    image.setAttribute("href", below.toDataURL());
    image.setAttribute("width", String(width));
    image.setAttribute("height", String(height));
    copy.prepend(image);
  }
  return new XMLSerializer().serializeToString(copy);
}

/**
 * @param {string} name of the file
 * @param {string} text
 */
export function save(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
