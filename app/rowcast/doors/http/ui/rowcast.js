/**
 * Rowcast in a browser, or in Node 18 and later: one file, nothing to build.
 *
 *   const rows = new Rowcast('http://127.0.0.1:9926')  // { token } or { user, password } as well
 *   await rows.put('Dog/1', { name: 'Rex' })
 *   const { value, cursor } = await rows.get('Dog/1')
 *   await rows.patch('Dog/1', { age: 3 }, { ifMatch: cursor })  // a Problem if somebody was faster
 *   const dogs = rows.subscribe('Dog/#', (event) => console.log(event.kind, event.topic, event.value))
 *
 * Subscriptions share one WebSocket, or go over SSE. A lost connection is made again, after a pause
 * that grows and has a random part, and goes on at the cursor: nothing is lost or twice. What was
 * not passed on is an event `gap`; after `reset` all begins anew: `snapshot`s, then `current`.
 */
const PAUSE_MIN_MS = 250
const PAUSE_MAX_MS = 30_000
const PING_MS = 20_000 // how often a connection is asked whether it is there
const QUIET_MS = 60_000 // after which it is taken for lost
const LINGER_MS = 1000 // how long it stays for another subscription
const WS_TRIES = 2 // WebSockets that never opened

/** What was refused: `status`, `code`, `message`, and `problems` with a path for each. */
export class Problem extends Error {
  constructor(details) {
    super(details.detail || details.title || `status ${details.status}`)
    Object.assign(this, { name: 'Problem', problems: [] }, details)
  }

  get isFinal() {
    return this.status < 500 && ![408, 429].includes(this.status)
  }
}

export const pathOf = (topic) => '/' + topic.split('/').map(encodeURIComponent).join('/')

export class Rowcast {
  /** Options: `transport` 'ws' or 'sse'; `fetch`, `WebSocket` to use others than global. */
  constructor(url, { token, user, password, transport, ...others } = {}) {
    this.url = (url || globalThis.location?.origin || 'http://127.0.0.1:9926').replace(/\/$/, '')
    this.fetch = others.fetch || ((...all) => fetch(...all))
    this.WebSocket = others.WebSocket || globalThis.WebSocket
    this.transport = transport || (this.WebSocket ? undefined : 'sse')
    this.headers = {}
    const bytes = new TextEncoder().encode(`${user}:${password}`)
    if (token) this.headers.authorization = `Bearer ${token}`
    else if (user) this.headers.authorization = `Basic ${btoa(String.fromCharCode(...bytes))}`
  }

  /** Ask once; gives the Response, or throws a Problem. */
  async request(method, path, { body, headers, signal } = {}) {
    const asked = { method, body, signal, headers: { ...this.headers, ...headers } }
    const answer = await this.fetch(this.url + path, asked)
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
  // `headers`, and `type` of text or bytes in any other format than JSON.
  put(topic, value, options) {
    return this.write('PUT', pathOf(topic), value, options)
  }

  patch(topic, value, options) {
    return this.write('PATCH', pathOf(topic), value, options)
  }

  delete(topic, options) {
    return this.write('DELETE', pathOf(topic), undefined, options)
  }

  publish(topic, value, options) {
    return this.write('POST', `${pathOf(topic)}?retain=false`, value, options)
  }

  create(table, value, options) {
    return this.write('POST', `${pathOf(table)}/`, value, options)
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
   * or `from`. With `commits: true` a `commit` follows each transaction: what came up to it is as of
   * its cursor. With `conflate: '1s'` a value of a record comes only so often, the newest; a live
   * query has every step. `onState` is told 'connecting', 'live', 'waiting', and 'refused' with a
   * Problem.
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
    Object.assign(this, { client, filter, onEvent, onState, place, cursor: since, failures: 0 })
    this.connect()
  }

  connect() {
    if (this.client.transport === 'sse') this.stream()
    else (this.client.socket || new Socket(this.client)).add(this)
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

  live() {
    this.onState('live')
    // of what was shown in part, something may be gone meanwhile
    if (this.anew && !this.cursor) this.hear({ kind: 'reset' })
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
    let silence
    const heard = () => {
      clearTimeout(silence)
      silence = setTimeout(() => abort.abort(), QUIET_MS)
    }
    try {
      const words = new URLSearchParams({ topic: this.filter, ...this.words })
      const asked = { headers: { accept: 'text/event-stream' }, signal: abort.signal }
      heard()
      const answer = await this.client.request('GET', `/?${words}`, asked)
      this.failures = 0
      this.live()
      await readEvents(answer.body, heard, (name, data) => {
        if (name === 'problem') throw new Problem(data)
        this.hear(data)
      })
    } catch (error) {
      if (!this.closed && error.isFinal) this.refuse(error)
    }
    clearTimeout(silence)
    if (this.closed) return
    this.onState('waiting')
    this.timer = setTimeout(() => this.stream(), pause(this.failures++))
  }
}

/** One WebSocket for all subscriptions of a client, made again for as long as there are any. */
class Socket {
  constructor(client) {
    Object.assign(this, { client, members: new Map(), numbers: new Map(), failures: 0, last: 0 })
    client.socket = this
    this.open()
  }

  async open() {
    const { client } = this
    this.numbers.clear() // the server's number of each subscription
    this.tell('connecting')
    let query = ''
    try {
      if (client.headers.authorization) {
        const { ticket } = await (await client.request('POST', '/$SYS/tickets/')).json()
        query = `?ticket=${encodeURIComponent(ticket)}`
      }
    } catch (error) {
      return error.isFinal ? this.end(error) : this.again(true)
    }
    if (client.socket !== this) return
    const ws = (this.ws = new client.WebSocket(`${client.url.replace(/^http/, 'ws')}/${query}`))
    let opened
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
      if (/^440[13]$/.test(code)) this.end(new Problem({ status: code - 4000, detail: reason }))
      else this.again(opened)
    }
  }

  again(opened) {
    const { client } = this
    this.ws = null
    this.failures++
    if (!opened && this.failures >= WS_TRIES && !client.transport) {
      client.transport = 'sse'
      client.socket = null
      for (const member of this.members.values()) member.connect()
      return
    }
    this.tell('waiting')
    this.timer = setTimeout(() => this.open(), pause(this.failures))
  }

  tell(state, problem) {
    for (const member of this.members.values()) member.onState(state, problem)
  }

  look() {
    if (Date.now() - this.heard > QUIET_MS) this.ws.close()
    else this.send({ op: 'ping' })
  }

  send(command) {
    if (this.ws?.readyState === 1) this.ws.send(JSON.stringify(command))
  }

  add(member) {
    this.members.set(++this.last, member)
    member.onState('connecting')
    this.ask(this.last, member)
  }

  ask(id, member) {
    this.send({ id, op: 'subscribe', topic: member.filter, ...member.words })
  }

  take(said) {
    this.heard = Date.now()
    const { subscription, error, ack = said.id } = said
    const member = this.members.get(ack)
    if (said.kind) this.numbers.get(subscription)?.hear(said)
    else if (error) member?.refuse(new Problem(error))
    else if (member) {
      this.numbers.set(subscription, member)
      member.live()
    } else if (subscription && ack) this.send({ op: 'unsubscribe', subscription })
  }

  remove(member) {
    for (const [id, one] of this.members) if (one === member) this.members.delete(id)
    for (const [subscription, one] of this.numbers) {
      if (one !== member) continue
      this.numbers.delete(subscription)
      this.send({ op: 'unsubscribe', subscription })
    }
    setTimeout(() => this.members.size || this.end(), LINGER_MS)
  }

  end(problem) {
    clearTimeout(this.timer)
    clearInterval(this.ping)
    if (this.client.socket === this) this.client.socket = null
    for (const member of this.members.values()) member.closed = true
    if (problem) this.tell('refused', problem)
    this.members.clear()
    this.ws?.close()
  }
}

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
      const part = (name) => new RegExp(`^${name}: ?(.*)`, 'm').exec(block)?.[1]
      if (part('data')) take(part('event'), JSON.parse(part('data')))
    }
  }
}

const AS_JSON = 'application/json'
const pause = (failures) =>
  PAUSE_MIN_MS + Math.random() * Math.min(PAUSE_MAX_MS, PAUSE_MIN_MS * 2 ** failures)
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
