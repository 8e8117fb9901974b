/** How values, numbers and times are written. Nothing here needs a browser, so that Node tests it. */

const HEX_BYTES = 16 // of bytes on one line
const DIGITS = 15 // as many as a double keeps; those behind them come from adding binary fractions

/** A number without the digits that it has only because it is binary: 6.90468, not 6.904679999999999. */
export const plain = (number) =>
  (Number.isInteger(number) ? number : Number(number.toPrecision(DIGITS)))

const rounded = (name, value) => (typeof value === 'number' ? plain(value) : value)

/** Bytes that are no text as their numbers; anything else as JSON. */
function written(value, most, spaces) {
  if (typeof value === 'string') return value
  const isBytes = typeof value?.$bytes === 'string' && Object.keys(value).length === 1
  if (!isBytes) return JSON.stringify(value, rounded, spaces)
  const bytes = atob(value.$bytes)
  const hex = [...bytes.slice(0, most)].map((one) => one.charCodeAt(0).toString(16).padStart(2, '0'))
  return `${hex.join(' ')}${bytes.length > most ? ` … (${bytes.length} bytes)` : ''}`
}

const UNSEEN = /[\0-\x1f\x7f-\x9f\u2028\u2029]/g // a terminal may take one for a key that is pressed
const escaped = (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`

/** A word of a command for bash, whoever gave it: a topic may be chosen to be run. */
export const quoted = (text) => (text.search(UNSEEN) < 0 ? `'${text.replaceAll("'", "'\\''")}'`
  : `$'${text.replace(/['\\]/g, '\\$&').replace(UNSEEN, escaped)}'`)

/** The path of a topic for curl: as it is, but for what means something else in a URL. */
export function spelled(topic) {
  const levels = topic.split('/')
  const slash = levels.some((level) => /^\.\.?$/.test(level)) ? '%2F' : '/' // else .. goes up one
  const readable = (level) => level.replace(/(%24)|(?:%[89A-F][\dA-F])+/g, (one, dollar) =>
    (dollar ? '$' : decodeURIComponent(one)))
  return `/${levels.map((level) => readable(encodeURIComponent(level))).join(slash)}`
}

/** A value on one line; long ones are cut, for what is drawn is bounded. */
export function brief(value, most = 160) {
  if (value === undefined) return ''
  const text = written(value, HEX_BYTES)
  return text.length > most ? `${text.slice(0, most)}…` : text
}

export function pretty(value) {
  const text = written(value, 1024, 2)
  return text && text.length > 20_000 ? `${text.slice(0, 20_000)}… (${text.length} characters)` : text
}

/** What a gap says: how much was not passed on here, and why. */
export const gapText = ({ gap }) => `${amount(gap.count ?? 0)} not passed on: ${gap.reason}`

export function amount(number) {
  if (typeof number !== 'number') return String(number)
  if (Math.abs(number) >= 10_000) {
    return Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 }).format(number)
  }
  return String(Number(number.toPrecision(4)))
}

const two = (number) => String(number).padStart(2, '0')

/** The day of a moment here: 2026-11-22. */
export function day(ms) {
  const at = new Date(ms)
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`
}

export function clock(ms) {
  const at = new Date(ms)
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`
}

/** How far the clocks here are from UTC at a moment: +01:00. */
export function zone(ms) {
  const minutes = -new Date(ms).getTimezoneOffset()
  if (!minutes) return 'UTC'
  const away = Math.abs(minutes)
  return `${minutes < 0 ? '-' : '+'}${two(Math.floor(away / 60))}:${two(away % 60)}`
}

/** A moment with its date and zone, as clocks here show it: 2026-11-22 21:04:08 +01:00. */
export const when = (ms) => `${day(ms)} ${clock(ms)} ${zone(ms)}`

/** A moment that a row tells of, if it tells of one. */
export const moment = (text) => (text ? when(Date.parse(text)) : '')

const STORED = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(\.\d+)?Z$/

/** A value of a record in its cell; a moment is left in UTC, for that is what conditions ask for. */
export const cellText = (value) => brief(value, 80).replace(STORED, '$1 $2 UTC')

/** What a retained message is: what its writer said, else what its payload looks like. */
export function formatOf({ content_type: type, payload, size }) {
  if (type) return type
  if (typeof payload !== 'string') return 'bytes'
  if (parsed(payload) !== undefined) return 'JSON'
  const isCut = new TextEncoder().encode(payload).length < size // lists have only its beginning
  return isCut && isJsonSoFar(payload) ? 'JSON' : 'text'
}

export function parsed(text) {
  try {
    return typeof text === 'string' ? JSON.parse(text) : undefined
  } catch {
    return undefined
  }
}

const TOKEN = /\s*("(?:[^"\\]|\\.)*"|[{}[\],:]|(?:-?\d[\d.eE+-]*|true|false|null)(?=[\s\]},]))/y
const PART = /^\s*(?:"(?:[^"\\]|\\.)*\\?|-?[\d.eE+-]*|tr?u?e?|fa?l?s?e?|nu?l?l?)$/

/** Tell whether a text that was cut somewhere began as JSON. */
export function isJsonSoFar(text) {
  const open = []
  const after = () => (open.length ? 'more' : 'end')
  let wants = 'value'
  for (let at = 0; ; at = TOKEN.lastIndex) {
    TOKEN.lastIndex = at
    const token = TOKEN.exec(text)?.[1]
    if (token === undefined) return PART.test(text.slice(at)) && wants !== 'end'
    const last = open.at(-1)
    if (wants === 'colon') {
      if (token !== ':') return false
      wants = 'value'
    } else if (wants === 'more' && token === ',') wants = last === '{' ? 'name' : 'value'
    else if (/^(more|first)$/.test(wants) && token === (last === '{' ? '}' : ']')) {
      open.pop()
      wants = after()
    } else if (wants === 'name' || (wants === 'first' && last === '{')) {
      if (token[0] !== '"') return false
      wants = 'colon'
    } else if (wants === 'value' || wants === 'first') {
      if (/^[}\],:]/.test(token)) return false
      if (token === '{' || token === '[') {
        open.push(token)
        wants = 'first'
      } else wants = after()
    } else return false
  }
}
