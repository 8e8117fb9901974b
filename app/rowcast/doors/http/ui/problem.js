/** Why something was not done: refused by the server, or never answered. */
const PAUSE_MIN_MS = 250
const PAUSE_MAX_MS = 30_000

/**
 * What was refused: `status`, `code`, `message`, and `problems` with a path for each. Where no
 * answer came `status` is 0, and whether it was done is not known, unless it `isUnsent`.
 */
export class Problem extends Error {
  constructor(details) {
    super(details.detail || details.title || `status ${details.status}`)
    Object.assign(this, { name: 'Problem', problems: [] }, details)
  }

  get isFinal() {
    return this.status > 0 && this.status < 500 && ![408, 429].includes(this.status)
  }
}

/** The Problem of what was not answered. */
export const unanswered = (detail, isUnsent = false) =>
  new Problem({ status: 0, code: 'busy', title: 'No answer', detail, isUnsent })

/** How long to wait, in ms: as asked by the server, else longer after failures, in part random. */
export const pause = (failures, asked) => Math.min(asked, PAUSE_MAX_MS) ||
  PAUSE_MIN_MS + Math.random() * Math.min(PAUSE_MAX_MS, PAUSE_MIN_MS * 2 ** failures)
