// Messages of the server, as handrail/studio/messages.py has them (a test compares the names).

/** @typedef {[number, number]} Pair */
/** @typedef {(string | number)[]} KeyPath */
/** @typedef {{path: KeyPath, value: number}} Slot */
/** @typedef {{path: KeyPath, words: string[], values: number[], shares: number[]}} FormulaSlot */
/** @typedef {{role: "move" | "corner" | "edge" | "vertex" | "radius", x: number, y: number, across: Slot[], up: Slot[], across_formulas: FormulaSlot[], up_formulas: FormulaSlot[], moves_across: number[], moves_up: number[]}} Handle */
/** @typedef {{value: number, side: "lower" | "upper", line: Pair[]}} Level */
/** @typedef {{entry: number, kind: "point" | "box" | "ball" | "polygon" | "curve" | "other", meets: boolean, outlines: Pair[][], handles: Handle[], levels: Level[], vertices: KeyPath | null, middle: number[], note: string}} Shape */
/** @typedef {{start: number, end: number, value: number, low: number, high: number}} Bound */
/** @typedef {{path: KeyPath, text: string, bounds: Bound[]}} RequireLine */
/** @typedef {{entry: number, line: number, name: string, requirements: RequireLine[], sentences: string[], meets: boolean, notes: string[]}} Card */
/** @typedef {{title: string, description: string, environment: string, observations: string[], actions: string[], ranges: Pair[] | null, noises: Pair[], branches: string[], quantity: string, shown_action: number, pass_mark: number | null}} Names */
/** @typedef {{across: number, up: number, across_range: Pair, up_range: Pair, at: number[]}} View */
/** @typedef {{format: "onnx" | "numpy" | "learner", name: string}} ExportFile */
/** @typedef {{kind: "document", revision: number, text: string, file: string, saved: boolean, can_undo: boolean, can_redo: boolean, author: "editor" | "drawing", exports: ExportFile[]}} Document */
/** @typedef {{kind: "drawing", revision: number, error: string, line: number, names: Names | null, view: View | null, cards: Card[], shapes: Shape[]}} Drawing */
/** @typedef {{entry: number, status: "holds" | "proven" | "violated" | "unknown", violation: number | null, state: number[], words: string, influence: string | null}} Verdict */
/** @typedef {{view: View, columns: number, rows: number, outputs: number, values: string}} Map */
/** @typedef {{kind: "held", revision: number, satisfied: boolean, words: string, influence: string, verdicts: Verdict[], conflict: number[], conflict_words: string, conflict_state: number[], seconds: number, map: Map | null, before: Map | null}} Held */
/** @typedef {{entry: number, margin: number, outline: Pair[]}} Cell */
/** @typedef {{kind: "proof", revision: number, verdicts: Verdict[], cells: Cell[], words: string}} ProofSeen */
/** @typedef {{kind: "probed", revision: number, state: number[], outputs: number[], before: number[]}} Probed */
/** @typedef {{states: number[][], actions: number[][], before: boolean}} Trail */
/** @typedef {{kind: "played", wanted: number, scores: number[], scores_before: number[], trails: Trail[], film: string, done: boolean, words: string}} Played */
/** @typedef {{kind: "trained", label: string, wanted: number, scores: number[], violations: (number | null)[], influences: (number | null)[], status: "running" | "paused" | "stopped" | "done", folder: string}} Trained */
/** @typedef {{kind: "runs", runs: string[], compared: string}} RunsSeen */
/** @typedef {{kind: "notice", what: "said" | "refused" | "failed" | "kept" | "python" | "taken" | "exported", text: string}} Note */
/** @typedef {Document | Drawing | Held | ProofSeen | Probed | Played | Trained | RunsSeen | Note} Answer */

export {};
