/**
 * Rowcast in a browser, or in Node 20 and later: this file and those that it imports.
 *
 *   const rows = new Rowcast('http://127.0.0.1:9926')  // { token } or { user, password } as well
 *   await rows.put('Dog/1', { name: 'Rex' })
 *   const { value, cursor } = await rows.get('Dog/1')
 *   await rows.patch('Dog/1', { age: 3 }, { ifMatch: cursor })  // a Problem if somebody was faster
 *   const dogs = rows.subscribe('Dog/#', ({ topic, value }) => console.log(topic, value))
 *
 * Subscriptions share one WebSocket, or go over SSE. A lost connection is made again, after a pause
 * that grows, and goes on at the cursor: nothing is lost or twice. What was not passed on is an
 * event `gap`; after `reset` all begins anew: `snapshot`s, then `current`.
 * Writes use the WebSocket, too, while it is there, else HTTP (writes.js).
 */
import { Problem, pause, unanswered } from './problem.js'
import { Socket } from './socket.js'
import { Writes } from './writes.js'

export { Problem }

const QUIET_MS = 60_000 // after which a stream of Server-Sent Events is taken for lost
const METHODS = { put: 'PUT', patch: 'PATCH', delete: 'DELETE', message: 'POST' }
const AS_JSON = 'application/json'
const NO_WEBSOCKET = {
  status: 0,
  code: 'unsupported',
  detail: 'there is no WebSocket here: use Node 22, or the option WebSocket',
}

/** The path of a topic; a level `..` would go up one, but for escaped slashes. */
export function pathOf(topic) {
  const levels = topic.split('/')
  if (!levels.some((level) => /^\.\.?$/.test(level))) return '/' + levels.map(encodeURIComponent).join('/')
  if (levels[1] !== undefined) return '/' + encodeURIComponent(topic)
  throw new Problem({ status: 400, code: 'invalid', detail: `no URL names ${topic}`, isUnsent: true })
}

export class Rowcast {
  /**
   * Options: `transport` 'ws' or 'sse'; `fetch`, `WebSocket` to use others than global; `pingMs`
   * between two pings; the bounds of writes, as in writes.js.
   */
  constructor(url, { token, user, password, transport, ...others } = {}) {
    this.url = (url || globalThis.location?.origin || 'http://127.0.0.1:9926').replace(/\/$/, '')
    this.fetch = others.fetch || ((...all) => fetch(...all))
    this.WebSocket = others.WebSocket || globalThis.WebSocket
    this.transport = transport || (this.WebSocket ? undefined : 'sse')
    this.pingMs = others.pingMs ?? 20_000
    this.headers = {}
    const bytes = new TextEncoder().encode(`${user}:${password}`)
    if (token) this.headers.authorization = `Bearer ${token}`
    else if (user) this.headers.authorization = `Basic ${btoa(String.fromCharCode(...bytes))}`
    this.writes = new Writes(this, others)
  }

  /** Ask once; gives the Response, or throws a Problem. */
  async request(method, path, { body, headers, signal } = {}) {
    const asked = { method, body, signal, headers: { ...this.headers, ...headers } }
    const answer = await this.fetch(this.url + path, asked).catch((error) => {
      if (signal?.aborted) throw error
      const effect = method === 'GET' ? '' : ': whether it took effect is not known'
      throw unanswered(`no answer to ${method} ${this.url}${path} (${error.message})${effect}`)
    })
    if (answer.ok) return answer
    const details = await answer.json().catch(() => {})
    throw new Problem({ ...details, status: answer.status })
  }

  /** `{ value, cursor, type }`; `query` such as 'asof=-10m'. */
  async get(topic, query = '') {
    const answer = await this.request('GET', pathOf(topic) + (query && `?${query}`))
    return { value: await valueOf(answer), cursor: cursorOf(answer), type: typeOf(answer) }
  }

  /** `{ rows, next, position }` of a table; `next` is the query of the next page, or null. */
  async query(table, query = '') {
    const answer = await this.request('GET', `${pathOf(table)}/${query && `?${query}`}`)
    return { rows: await answer.json(), ...pageOf(answer) }
  }

  /** `{ events, next, position, trimmed }`; `words` such as 'from=-1h&every=1m&fn=avg'. */
  async history(topic, words = 'last=100') {
    const answer = await this.request('GET', `${pathOf(topic)}?${words}`)
    const trimmed = answer.headers.get('rowcast-trimmed')
    return { events: await answer.json(), ...pageOf(answer), trimmed }
  }

  // Writes give { status, cursor, id }. Options: `ifMatch` (a cursor, or '*'), `ifNoneMatch: '*'`,
  // `headers`, and `type` of text or bytes in any other format than JSON; `once: true` sends it
  // again while its answer is lost, and it has one effect; `via: 'http'` leaves the socket out.
  put(topic, value, options) {
    return this.writes.add('put', topic, value, options)
  }

  patch(topic, value, options) {
    return this.writes.add('patch', topic, value, options)
  }

  delete(topic, options) {
    return this.writes.add('delete', topic, undefined, options)
  }

  publish(topic, value, options) {
    return this.writes.add('message', topic, value, options)
  }

  async create(table, value, options) {
    return this.write('POST', `${pathOf(table)}/`, value, options)
  }

  /** Make a write of writes.js, of which a mark tells a repeat, as a request. */
  byHttp({ op, topic, value, options, mark }) {
    const path = pathOf(topic) + (op === 'message' ? '?retain=false' : '')
    const headers = { ...(mark && { 'rowcast-producer': mark }), ...options.headers }
    return this.write(METHODS[op], path, value, { ...options, headers })
  }

  async write(method, path, value, { ifMatch, ifNoneMatch, type = AS_JSON, headers } = {}) {
    const all = { ...headers }
    if (ifMatch) all['if-match'] = ifMatch === '*' ? '*' : `"${ifMatch}"`
    if (ifNoneMatch) all['if-none-match'] = ifNoneMatch
    if (value !== undefined) all['content-type'] = type
    const body = type === AS_JSON ? JSON.stringify(value) : value
    const answer = await this.request(method, path, { body, headers: all })
    const told = await valueOf(answer).catch(() => {})
    return { status: answer.status, cursor: cursorOf(answer), id: told?.id }
  }

  /**
   * Hear what is at a filter, and then what happens. Begin elsewhere with `since`, `start`, `last`
   * or `from`. With `commits: true` a `commit` follows each transaction: what came up to it is as
   * of its cursor. With `conflate: '1s'` a value of a record comes only so often, the newest; a
   * live query has every step. `onState` is told 'connecting', 'live', 'waiting', and 'refused'
   * with a Problem.
   */
  subscribe(filter, onEvent, options = {}) {
    return new Subscription(this, filter, onEvent, options)
  }

  close() {
    this.socket?.end()
  }
}

class Subscription {
  constructor(client, filter, onEvent, { onState = () => {}, since, ...place }) {
    Object.assign(this, { client, filter, place, cursor: since, failures: 0 })
    Object.assign(this, { onEvent: apart(onEvent), onState: apart(onState) })
    this.connect()
  }

  connect() {
    const { client } = this
    if (client.transport === 'sse') this.stream()
    else if (client.WebSocket) (client.socket || new Socket(client)).add(this)
    else queueMicrotask(() => this.refuse(new Problem(NO_WEBSOCKET)))
  }

  /** What each connection asks for; where to begin is said until there is a cursor. */
  get words() {
    const { start, startTime, last, previousCount, from, ...all } = this.place
    return this.cursor ? { ...all, since: this.cursor } : this.place
  }

  hear(event) {
    if (this.closed) return
    const { kind, cursor } = event
    this.anew = kind !== 'current' && (this.anew || /snap|reset/.test(kind))
    // a snapshot's cursor is its record's; until all came there is no place to go on from
    if (cursor && !this.anew) this.cursor = cursor
    this.onEvent(event)
  }

  live(position) {
    this.onState('live')
    const { start, startTime, last, previousCount, from } = this.place
    const place = startTime ?? last ?? previousCount ?? from ?? (start !== 'current' && start)
    if (this.cursor) return
    // of what was shown in part, something may be gone
    if (this.anew) this.hear({ kind: 'reset' })
    else if (place || place === 0) this.cursor = position // before the first event, too
  }

  refuse(problem) {
    this.close()
    this.onState('refused', problem)
  }

  close() {
    this.closed = true
    clearTimeout(this.timer)
    this.abort?.abort()
    this.client.socket?.remove(this)
  }

  async stream() {
    this.onState('connecting')
    const abort = (this.abort = new AbortController())
    let silence, asked
    const heard = () => {
      clearTimeout(silence)
      silence = setTimeout(() => abort.abort(), QUIET_MS)
    }
    try {
      const words = new URLSearchParams({ topic: this.filter, ...this.words })
      const how = { headers: { accept: 'text/event-stream' }, signal: abort.signal }
      heard()
      const answer = await this.client.request('GET', `/?${words}`, how)
      this.failures = 0
      this.live(answer.headers.get('rowcast-position'))
      await readEvents(answer.body, heard, (name, data) => {
        if (name === 'problem') throw new Problem(data)
        if (name === 'retry') asked = data
        else this.hear(data)
      })
    } catch (error) {
      if (!this.closed && error.isFinal) this.refuse(error)
    }
    clearTimeout(silence)
    if (this.closed) return
    this.onState('waiting')
    this.timer = setTimeout(() => this.stream(), pause(this.failures++, asked))
  }
}

/** A callback whose exception is no lost connection. */
const apart = (call) => (...all) => void new Promise((go) => go(call(...all)))

/** Read Server-Sent Events: `take(name, data)` for each. */
async function readEvents(body, heard, take) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  for (let rest = ''; ;) {
    const { value, done } = await reader.read()
    if (done) return
    heard()
    const blocks = (rest + value).split('\n\n')
    rest = blocks.pop()
    for (const block of blocks) {
      const lines = block.split('\n') // /^/m knows U+2028, too
      const part = (name) => lines.find((line) => line.startsWith(name))?.slice(name.length)
      if (part('retry: ')) take('retry', part('retry: '))
      if (part('data: ')) take(part('event: '), JSON.parse(part('data: ')))
    }
  }
}

const typeOf = ({ headers }) => (headers.get('content-type') || '').split(';')[0]
const cursorOf = ({ headers }) => headers.get('etag')?.replace(/^W\/|"/g, '') ?? null

function pageOf({ headers }) {
  const next = /<[^?>]*\?([^>]*)>; *rel="?next/.exec(headers.get('link'))?.[1] ?? null
  return { next, position: headers.get('rowcast-position') }
}

function valueOf(answer) {
  const type = typeOf(answer)
  if (type.includes('json')) return answer.json()
  return type.startsWith('text/') ? answer.text() : answer.arrayBuffer()
}
