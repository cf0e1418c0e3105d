// One WebSocket: what the page asks, what the server says.

/** @typedef {import("./types.js").Answer} Answer */

export class Channel {
  /**
   * @param {(answer: Answer) => void} hear
   * @param {(connected: boolean) => void} change
   */
  constructor(hear, change) {
    this.hear = hear;
    this.change = change;
    /** @type {WebSocket | null} */
    this.socket = null;
    this.connect();
  }

  connect() {
    const address = new URL("socket", document.baseURI);
    address.protocol = "ws:";
    const socket = new WebSocket(address);
    socket.onopen = () => this.change(true);
    socket.onmessage = (event) => this.hear(JSON.parse(event.data));
    socket.onclose = () => {
      this.change(false);
      setTimeout(() => this.connect(), 1000);
    };
    this.socket = socket;
  }

  /** @param {Record<string, unknown>} request */
  send(request) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(request));
  }
}
