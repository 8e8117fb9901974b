/**
 * Rowcast in a browser or in Node 18 and later: one file, no dependencies, nothing to build.
 *
 *   import { Rowcast } from '/ui/rowcast.js'
 *   const rows = new Rowcast()                       // elsewhere: new Rowcast('http://127.0.0.1:9926')
 *   await rows.put('Dog/1', { name: 'Rex' })
 *   const { value, cursor } = await rows.get('Dog/1')
 *   await rows.patch('Dog/1', { age: 3 }, { ifMatch: cursor })   // Problem 412 if somebody was faster
 *   const dogs = rows.subscribe('Dog/#', (event) => console.log(event.kind, event.topic, event.value))
 *   dogs.close()
 *
 * A subscription goes over one WebSocket that all of a client's share, or over SSE where there is
 * none. A lost connection is made again after a pause that grows and has a random part, and goes on
 * at the cursor: nothing is lost and nothing is twice. What cannot be passed on comes as an event
 * of its own: `gap` says how many and why, `reset` that the cursor is too old or of another log and
 * that all current records follow as `snapshot`s, up to `current`.
 */

const PAUSE_MIN_MS = 250
const PAUSE_MAX_MS = 30_000
const PING_MS = 20_000 // how often a quiet connection is asked whether it is there
const SILENCE_MS = 60_000 // after which it is taken for lost
const FAILURES_UNTIL_SSE = 2 // WebSockets that never opened, before SSE is tried

/** What the server refused: `status`, `code`, `message`, and `problems` with a path for each. */
export class Problem extends Error {
  constructor(details) {
    super(details.detail || details.title || `status ${details.status}`)
    this.name = 'Problem'
    this.problems = []
    Object.assign(this, details)
  }
}

/** The path of a topic: `Dog/1` is `/Dog/1`, whatever characters it has. */
export function pathOf(topic) {
  return '/' + topic.split('/').map(encodeURIComponent).join('/')
}

export class Rowcast {
  /**
   * `token`, or `user` and `password`: who asks; in a browser the cookie of a sign-in does too.
   * `transport`: 'ws' or 'sse' instead of finding out; `fetch`, `WebSocket`: others than global.
   */
  constructor(url, options = {}) {
    this.url = (url || globalThis.location?.origin || 'http://127.0.0.1:9926').replace(/\/$/, '')
    this.fetch = options.fetch || ((...it) => fetch(...it))
    this.WebSocket = options.WebSocket || globalThis.WebSocket
    this.transport = options.transport || (this.WebSocket ? undefined : 'sse')
    this.headers = {}
    if (options.token) this.headers.authorization = `Bearer ${options.token}`
    else if (options.user) {
      const pair = new TextEncoder().encode(`${options.user}:${options.password}`)
      this.headers.authorization = `Basic ${btoa(String.fromCharCode(...pair))}`
    }
    this.socket = null
  }

  /** Ask once; `path` begins with a slash. Gives the Response, or throws a Problem. */
  async request(method, path, { body, headers, signal } = {}) {
    const all = { ...this.headers, ...headers }
    const answer = await this.fetch(this.url + path, { method, body, headers: all, signal })
    if (answer.ok || answer.status === 304) return answer
    const text = await answer.text()
    let details = {}
    try {
      details = JSON.parse(text)
    } catch {
      details.detail = text.slice(0, 200)
    }
    throw new Problem({ ...details, status: answer.status })
  }

  /** The record at a topic: `{ value, cursor, type }`; `query` such as 'asof=-10m'. */
  async get(topic, query = '') {
    const answer = await this.request('GET', pathOf(topic) + (query && `?${query}`))
    return { value: await valueOf(answer), cursor: cursorOf(answer), type: typeOf(answer) }
  }

  /** `{ rows, next }` of a table; `next` is the query of the following page, or null. */
  async query(table, query = '') {
    const answer = await this.request('GET', `${pathOf(table)}/${query && `?${query}`}`)
    return { rows: await answer.json(), next: nextOf(answer), position: positionOf(answer) }
  }

  /** `{ events, next, position, trimmed }` of a topic; `words` such as 'from=-1h&every=1m&fn=avg'. */
  async history(topic, words = 'last=100') {
    const answer = await this.request('GET', `${pathOf(topic)}?${words}`)
    const trimmed = answer.headers.get('rowcast-trimmed')
    return {
      events: await answer.json(), next: nextOf(answer), position: positionOf(answer), trimmed,
    }
  }

  /** Make the record this value. `ifMatch`: a cursor, or '*'; `ifNoneMatch: '*'`: only a new one. */
  put(topic, value, options = {}) {
    return this.write('PUT', pathOf(topic), value, options)
  }

  /** Change these members of the record (RFC 7396). */
  patch(topic, value, options = {}) {
    return this.write('PATCH', pathOf(topic), value, options)
  }

  /** Take the record away. */
  delete(topic, options = {}) {
    return this.write('DELETE', pathOf(topic), undefined, options)
  }

  /** Say something at a topic; its record stays as it is. */
  publish(topic, value, options = {}) {
    return this.write('POST', `${pathOf(topic)}?retain=false`, value, options)
  }

  /** Make a record with an id of the server's: `{ id, cursor }`. */
  create(table, value, options = {}) {
    return this.write('POST', `${pathOf(table)}/`, value, options)
  }

  /** Send a value: maps and lists as JSON; text and bytes as they are, if `type` says what it is. */
  async write(method, path, value, { ifMatch, ifNoneMatch, type, headers } = {}) {
    const all = { ...headers }
    if (ifMatch) all['if-match'] = ifMatch === '*' ? '*' : `"${ifMatch}"`
    if (ifNoneMatch) all['if-none-match'] = ifNoneMatch
    let body
    if (value !== undefined) {
      all['content-type'] = type || 'application/json'
      body = type && type !== 'application/json' ? value : JSON.stringify(value)
    }
    const answer = await this.request(method, path, { body, headers: all })
    const told = answer.status === 204 ? null : await valueOf(answer).catch(() => null)
    const id = told && told.id
    return { status: answer.status, cursor: cursorOf(answer), ...(id === undefined ? {} : { id }) }
  }

  /**
   * Hear what happens at a filter: first the records as they are, then every event.
   *
   * `since`, `start`, `last` or `from` begin elsewhere, as in a URL. `onState(state, problem)` is
   * told 'connecting', 'live', 'waiting' (for the next try) and 'refused' (for good).
   */
  subscribe(filter, onEvent, options = {}) {
    return new Subscription(this, filter, onEvent, options)
  }

  /** End the connection; subscriptions of this client hear nothing more. */
  close() {
    this.socket?.end()
  }
}

class Subscription {
  constructor(client, filter, onEvent, { onState = () => {}, since = null, ...place }) {
    Object.assign(this, { client, filter, onEvent, onState, place, cursor: since, failures: 0 })
    this.closed = false
    this.connect()
  }

  connect() {
    if (this.client.transport === 'sse') this.stream()
    else (this.client.socket || new Socket(this.client)).add(this)
  }

  /** Where to begin: at the cursor, once there is one. */
  words() {
    return this.cursor ? { since: this.cursor } : this.place
  }

  hear(event) {
    if (this.closed) return
    // snapshots carry the cursors of their records, which are no place to go on from
    if (event.kind === 'reset') this.cursor = null
    else if (event.cursor && event.kind !== 'snapshot') this.cursor = event.cursor
    this.onEvent(event)
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
    this.abort = new AbortController()
    const { signal } = this.abort
    let silence
    const heard = () => {
      clearTimeout(silence)
      silence = setTimeout(() => this.abort.abort(), SILENCE_MS)
    }
    try {
      const words = new URLSearchParams({ topic: this.filter, ...this.words() })
      const headers = { accept: 'text/event-stream' }
      const answer = await this.client.request('GET', `/?${words}`, { headers, signal })
      this.failures = 0
      this.onState('live')
      heard()
      await readEvents(answer.body, heard, (name, data) => {
        if (name === 'problem') throw new Problem(data)
        this.hear(data)
      })
    } catch (error) {
      if (!this.closed && isFinal(error)) this.refuse(error)
    } finally {
      clearTimeout(silence)
    }
    if (this.closed) return
    this.onState('waiting')
    this.timer = setTimeout(() => this.stream(), pause(this.failures++))
  }
}

/** One WebSocket for all subscriptions of a client; it is made again for as long as there are any. */
class Socket {
  constructor(client) {
    Object.assign(this, { client, members: new Map(), numbers: new Map(), failures: 0, last: 0 })
    client.socket = this
    this.open()
  }

  async open() {
    const { client } = this
    this.numbers.clear() // the server's number of a subscription -> it
    for (const member of this.members.values()) member.onState('connecting')
    let query = ''
    try {
      if (client.headers.authorization) {
        const answer = await client.request('POST', '/$SYS/tickets/')
        query = `?ticket=${encodeURIComponent((await answer.json()).ticket)}`
      }
    } catch (error) {
      if (isFinal(error)) return this.end(error)
      return this.again(false)
    }
    if (client.socket !== this) return
    const ws = (this.ws = new client.WebSocket(`${client.url.replace(/^http/, 'ws')}/${query}`))
    let opened = false
    ws.onopen = () => {
      opened = true
      this.failures = 0
      this.heard = Date.now()
      this.ping = setInterval(() => this.look(), PING_MS)
      for (const [id, member] of this.members) this.ask(id, member)
    }
    ws.onmessage = ({ data }) => this.take(JSON.parse(data))
    ws.onclose = ({ code, reason }) => {
      clearInterval(this.ping)
      if (client.socket !== this) return
      if (code === 4401 || code === 4403) {
        this.end(new Problem({ status: code - 4000, detail: reason || 'not allowed' }))
      } else this.again(opened)
    }
  }

  again(opened) {
    this.ws = null
    if (!opened && this.failures + 1 >= FAILURES_UNTIL_SSE && !this.client.transport) {
      this.client.transport = 'sse'
      const members = [...this.members.values()]
      this.end()
      for (const member of members) {
        member.closed = false
        member.connect()
      }
      return
    }
    for (const member of this.members.values()) member.onState('waiting')
    this.timer = setTimeout(() => this.open(), pause(this.failures++))
  }

  look() {
    if (Date.now() - this.heard > SILENCE_MS) this.ws.close()
    else this.ws.send('{"op":"ping"}')
  }

  add(member) {
    const id = ++this.last
    this.members.set(id, member)
    member.onState('connecting')
    if (this.ws?.readyState === 1) this.ask(id, member)
  }

  ask(id, member) {
    const words = member.words()
    this.ws.send(JSON.stringify({ id, op: 'subscribe', topic: member.filter, ...words }))
  }

  take(said) {
    this.heard = Date.now()
    if (said.subscription !== undefined && said.ack === undefined) {
      this.numbers.get(said.subscription)?.hear(said)
      return
    }
    const member = this.members.get(said.ack ?? said.id)
    if (said.error) member?.refuse(new Problem(said.error))
    else if (member) {
      this.numbers.set(said.subscription, member)
      member.onState('live')
    } else if (said.subscription !== undefined && said.ack > 0) this.leave(said.subscription)
  }

  leave(subscription) {
    this.numbers.delete(subscription)
    if (this.ws?.readyState === 1) this.ws.send(JSON.stringify({ op: 'unsubscribe', subscription }))
  }

  remove(member) {
    for (const [id, one] of this.members) if (one === member) this.members.delete(id)
    for (const [number, one] of this.numbers) if (one === member) this.leave(number)
    if (!this.members.size) this.end()
  }

  end(problem) {
    clearTimeout(this.timer)
    clearInterval(this.ping)
    if (this.client.socket === this) this.client.socket = null
    for (const member of this.members.values()) {
      member.closed = true
      if (problem) member.onState('refused', problem)
    }
    this.members.clear()
    this.ws?.close()
  }
}

/** Read Server-Sent Events from a stream of bytes: `take(name, data)` for each. */
async function readEvents(body, heard, take) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  for (;;) {
    const { value, done } = await reader.read()
    if (done) return
    heard()
    const blocks = (rest + value).split('\n\n')
    rest = blocks.pop()
    for (const block of blocks) {
      let name = 'message'
      let data = ''
      for (const line of block.split('\n')) {
        if (line.startsWith('data:')) data += line.slice(5)
        else if (line.startsWith('event:')) name = line.slice(6).trim()
      }
      if (data) take(name, JSON.parse(data))
    }
  }
}

const isFinal = (error) => error instanceof Problem && error.status < 500 &&
  error.status !== 429 && error.status !== 408

const pause = (failures) =>
  PAUSE_MIN_MS + Math.random() * Math.min(PAUSE_MAX_MS, PAUSE_MIN_MS * 2 ** failures)

const typeOf = (answer) => (answer.headers.get('content-type') || '').split(';')[0]
const positionOf = (answer) => answer.headers.get('rowcast-position')
const cursorOf = (answer) => answer.headers.get('etag')?.replace(/^W\/|"/g, '') ?? null

function nextOf(answer) {
  const found = /<[^?>]*\?([^>]*)>; *rel="?next/.exec(answer.headers.get('link') || '')
  return found && found[1]
}

function valueOf(answer) {
  const type = typeOf(answer)
  if (type.includes('json')) return answer.json()
  return type.startsWith('text/') ? answer.text() : answer.arrayBuffer()
}
