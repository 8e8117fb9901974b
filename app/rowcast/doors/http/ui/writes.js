/**
 * The writes of a client: over its WebSocket while that is open, else by HTTP.
 *
 * A lost connection leaves writes without an answer. A put, patch or delete has a number of its
 * producer, by which the server knows a repeat, so it is sent again, over the next connection, or
 * by HTTP if there is none; it has one effect. A message has such a number only if it is asked for
 * (`once`), because the server logs what has one: else it fails, as its outcome is not known.
 */
import { Problem, pause, unanswered } from './problem.js'

const AS_JSON = 'application/json'
const FRAME_CHARS = 65_536 // of a write; what is longer would hold up those behind it on the socket
const IS_REQUEST = /^$|\/$|^\$SYS\// // a whole table; the server itself, which may end the connection
const MARKS_STEP = 100 // numbers after which the server may forget: each time costs it a write

/** 128 random bits, as text: nobody else has it. */
export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** What the socket can be told of a write, as JSON; '' for what only HTTP can. */
function commandOf(op, topic, value, { ifMatch, ifNoneMatch, type = AS_JSON, headers, via }) {
  const isOther = via === 'http' || type !== AS_JSON || Object.keys(headers ?? {}).length
  const isOdd = op === 'message' ? ifMatch || ifNoneMatch : ![undefined, '*'].includes(ifNoneMatch)
  const isEmpty = value === undefined && op !== 'delete'
  if (isOther || isOdd || isEmpty || IS_REQUEST.test(topic)) return ''
  const said = JSON.stringify({ op, topic, value, ifMatch: ifMatch || undefined, ifNoneMatch })
  return said.length > FRAME_CHARS ? '' : said
}

const unknown = ({ op, topic }, why) =>
  unanswered(`${why} before ${op} ${topic} was answered: whether it took effect is not known`)

/** The writes of one client, by either way. */
export class Writes {
  /**
   * `writesInFlight`: writes over the socket without an answer; the server takes 256 before it
   * stops reading. `writesWaiting`: those that wait to be sent; each keeps its value and a promise.
   * `answerMs`: milliseconds for an answer, repeats included; as long as the Python client's.
   */
  constructor(client, { writesInFlight = 256, writesWaiting = 10_000, answerMs = 30_000 }) {
    Object.assign(this, { client, bounds: { writesInFlight, writesWaiting, answerMs }, answerMs })
    this.groups = new Map() // by topic: its newest writes that go one way
    this.open = new Set() // numbers of writes that are not done
    this.last = 0
  }

  async add(op, topic, value, options = {}) {
    const said = commandOf(op, topic, value, options)
    const isOver = Boolean(said && this.client.socket?.isLive)
    const write = { op, topic, value, options, said, until: Date.now() + this.answerMs }
    const isMarked = options.once || (isOver && op !== 'message' && topic[0] !== '$')
    if (isMarked) this.number(write)
    try {
      return await this.inTurn(topic, isOver, () => this.send(write))
    } finally {
      this.open.delete(write.number)
    }
  }

  /** Give a write its number; all below the last part of the mark are done. */
  number(write) {
    this.producer ??= `js-${newId()}`
    this.open.add((write.number = ++this.last))
    const [least] = this.open
    const done = Math.floor(least / MARKS_STEP) * MARKS_STEP
    write.mark = `${this.producer}:1:${write.number}:${done}`
  }

  /** Writes of one topic that go one way follow each other; those that go the other one wait. */
  async inTurn(topic, isOver, act) {
    let group = this.groups.get(topic)
    if (group?.isOver !== isOver) {
      group = { isOver, before: group?.done, size: 0 }
      group.done = new Promise((end) => (group.end = end))
      this.groups.set(topic, group)
    }
    group.size++
    try {
      if (group.before) await this.within(group.before, topic)
      return await act()
    } finally {
      if (!--group.size) {
        group.end()
        if (this.groups.get(topic) === group) this.groups.delete(topic)
      }
    }
  }

  async within(done, topic) {
    let timer
    const late = new Promise((_, fail) => {
      const problem = unanswered(`${topic} was not written: an earlier write has no answer`, true)
      timer = setTimeout(() => fail(problem), this.answerMs)
    })
    await Promise.race([done, late])
    clearTimeout(timer)
  }

  /** Send a write; with `once` again, until it is answered for good. */
  async send(write) {
    for (let tries = 0; ; tries++) {
      try {
        return await this.attempt(write)
      } catch (problem) {
        const wait = pause(tries)
        const isOver = problem.isFinal !== false || Date.now() + wait > write.until
        if (!write.options.once || isOver) throw problem
        await new Promise((go) => setTimeout(go, wait))
      }
    }
  }

  async attempt(write) {
    const { socket } = this.client
    if (!write.said || !socket?.isLive) return this.client.byHttp(write)
    try {
      return await socket.flight.add(write)
    } catch (problem) {
      if (problem.excluded !== 'ws') throw problem // what is refused for the way it came
      return this.client.byHttp(write)
    }
  }
}

/** The writes of one socket that have no answer yet, in order, over all its connections. */
export class Flight {
  constructor(socket, bounds) {
    Object.assign(this, { socket, ...bounds, last: 0, onIdle: () => {} })
    this.sent = new Map()
    this.queue = new Map() // not sent over this connection
  }

  get size() {
    return this.sent.size + this.queue.size
  }

  add(write) {
    if (this.queue.size >= this.writesWaiting) {
      throw unanswered(`${this.queue.size} writes wait to be sent: await some before more`, true)
    }
    return new Promise((done, fail) => {
      const id = `w${++this.last}`
      const producer = write.mark && `"producer":"${write.mark}",`
      const frame = `{"id":"${id}",${producer ?? ''}${write.said.slice(1)}`
      const one = { ...write, id, frame, done, fail }
      one.timer = setTimeout(() => this.late(one), this.answerMs / 2)
      this.queue.set(id, one)
      this.flush()
    })
  }

  /** Send what waits, as far as there is room. */
  flush() {
    for (const [id, one] of this.queue) {
      if (!this.socket.isLive || this.sent.size >= this.writesInFlight) return
      this.queue.delete(id)
      this.sent.set(id, one)
      one.at = Date.now()
      this.socket.ws.send(one.frame)
    }
  }

  /** Take an answer; tells whether it was one to a write. */
  answered({ ack, id = ack, error, cursor = null, created, unfit }) {
    const one = this.sent.get(id)
    if (!one) return false
    const isMessage = one.op === 'message'
    const status = unfit || (isMessage && !cursor) ? 202 : created ? 201 : 204
    this.forget(one)
    if (error) one.fail(new Problem(error))
    else one.done({ status, cursor, id: undefined })
    this.flush()
    return true
  }

  forget(one) {
    clearTimeout(one.timer)
    this.sent.delete(one.id)
    this.queue.delete(one.id)
    if (!this.size) this.onIdle()
  }

  /** After half of its time: a connection that has been silent since it was sent is lost. */
  late(one) {
    one.timer = setTimeout(() => this.expire(one), this.answerMs / 2)
    if (this.sent.has(one.id) && this.socket.heard <= one.at) this.socket.drop()
  }

  expire(one) {
    this.forget(one)
    const why = `no answer came within ${this.answerMs} ms,`
    one.fail(one.at ? unknown(one, why) : unanswered(`${one.op} ${one.topic} was not sent`, true))
    this.flush()
  }

  /** The connection is lost: what has a number is sent again over the next one. */
  lost({ code, reason } = {}) {
    if (code === 1009 && this.sent.size) {
      const bytes = ({ frame }) => new TextEncoder().encode(frame).length
      const longest = [...this.sent.values()].reduce((a, b) => (bytes(a) < bytes(b) ? b : a))
      this.forget(longest)
      longest.fail(new Problem({ status: 413, code: 'too_large', detail: reason }))
    }
    for (const one of this.sent.values()) {
      if (one.mark) continue
      this.forget(one)
      one.fail(unknown(one, 'the connection was lost'))
    }
    this.queue = new Map([...this.sent, ...this.queue])
    this.sent = new Map()
  }

  /** There is no next connection: by HTTP, in order; not if who writes is let in no longer. */
  leave(problem) {
    this.lost()
    let last = Promise.resolve()
    for (const one of this.queue.values()) {
      this.forget(one)
      if (problem) one.fail(one.at ? unknown(one, problem.message) : problem)
      else {
        one.done((last = last.then(() => this.socket.client.byHttp(one))))
        last = last.catch(() => {})
      }
    }
  }
}
