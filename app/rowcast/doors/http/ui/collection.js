/**
 * A live query as a local collection: its records follow the server, and writes show at once.
 *
 *   import { Rowcast } from './rowcast.js'
 *   import { Collection } from './collection.js'
 *   const rows = new Rowcast('http://127.0.0.1:9926')
 *   const hot = new Collection(rows, 'Sensor', 'temp=gt=80', { onChange: () => draw(hot.rows) })
 *   await hot.ready
 *   await hot.patch('7', { temp: 20 })  // hot.rows has it already; a Problem takes it back
 *
 * The records change by whole transactions. A write is sent again while its answer is lost, and has
 * one effect; the writes of one record are sent in order. It is shown until the server's own events
 * have reached it, or is taken back when it is refused.
 */
import { newId } from './writes.js'

const SETTLE_MS = 1000 // how long a write that is no step of the query is still shown
const SETS = new Set(['snapshot', 'enter', 'change', 'put', 'patch'])
const SIGNS = /[/+#\0]/g // what means something in a filter
const encoded = (sign) => `%${sign.charCodeAt(0).toString(16).padStart(2, '0').toUpperCase()}`

/** The filter of a live query; without conditions, of all records of a table. */
export const filterOf = (table, where) =>
  where ? `$query/${table}/${where.replace(SIGNS, encoded)}` : `${table}/#`

const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value)

/** What a merge patch (RFC 7396) makes of a value. */
export function merge(value, patch) {
  if (!isObject(patch)) return patch
  const merged = isObject(value) ? { ...value } : {}
  for (const [name, item] of Object.entries(patch)) {
    if (item === null) delete merged[name]
    else merged[name] = merge(merged[name], item)
  }
  return merged
}

/** The merge patch that makes one object of another. */
export function difference(before, after) {
  const patch = {}
  for (const name of Object.keys(before)) if (after[name] === undefined) patch[name] = null
  for (const [name, item] of Object.entries(after)) {
    const old = before[name]
    if (item === undefined || JSON.stringify(item) === JSON.stringify(old)) continue
    patch[name] = isObject(item) && isObject(old) ? difference(old, item) : item
  }
  return patch
}

/**
 * The records of a live query as the server has them, by id. `onChanges` is told each transaction
 * that changed some: a list of `{ type: 'insert' | 'update' | 'delete', key, value }`.
 */
export class Following {
  constructor(rows, table, where, { onChanges = () => {}, onState = () => {} } = {}) {
    Object.assign(this, { table, onChanges, onState, records: new Map() })
    this.waiting = [] // events of a transaction that is not complete
    this.waiters = new Set() // writes whose events have not come yet
    this.ready = new Promise((done, fail) => Object.assign(this, { done, fail }))
    this.ready.catch(() => {}) // who does not wait for it is told by onState
    const options = { commits: true, onState: (state, problem) => this.turn(state, problem) }
    this.watch = rows.subscribe(filterOf(table, where), (event) => this.hear(event), options)
  }

  turn(state, problem) {
    this.state = state
    this.onState(state, problem)
    if (state === 'refused') {
      this.fail(problem)
      this.look()
    }
  }

  hear({ kind, topic, value, cursor }) {
    if (kind === 'reset') this.waiting = [null]
    else if (SETS.has(kind)) this.waiting.push([topic, value])
    else if (kind === 'leave' || kind === 'delete') this.waiting.push([topic])
    else if (kind === 'current' || kind === 'commit') this.apply(cursor, kind)
  }

  apply(cursor, kind) {
    const before = new Map() // what the changed records were
    const change = (key, value) => {
      if (!before.has(key)) before.set(key, this.records.get(key))
      if (value === undefined) this.records.delete(key)
      else this.records.set(key, value)
    }
    for (const one of this.waiting) {
      if (one) change(one[0].slice(this.table.length + 1), one[1])
      else for (const key of [...this.records.keys()]) change(key)
    }
    this.waiting = []
    this.at = cursor
    const changes = []
    for (const [key, old] of before) {
      const value = this.records.get(key)
      if (value === undefined && old === undefined) continue
      const type = old === undefined ? 'insert' : value === undefined ? 'delete' : 'update'
      changes.push({ type, key, value })
    }
    if (changes.length) this.onChanges(changes)
    if (kind === 'current') this.done()
    this.look()
  }

  /** Whether the records are as of this cursor, or a later one. */
  has(cursor) {
    const [log, number] = (this.at ?? '').split(':')
    const [otherLog, other] = cursor.split(':')
    return this.closed || this.state === 'refused' || (log === otherLog && +number >= +other)
  }

  look() {
    for (const one of this.waiters) if (this.has(one.cursor)) one.done()
  }

  /**
   * Wait until the records have a write. One that is no step of the query has no event: its end is
   * SETTLE_MS of a connection that is live, which steps take a few milliseconds to come over.
   */
  reached(cursor) {
    if (!cursor || this.has(cursor)) return Promise.resolve()
    return new Promise((resolve) => {
      const one = { cursor }
      const timer = setInterval(() => this.state === 'live' && one.done(), SETTLE_MS)
      one.done = () => {
        clearInterval(timer)
        this.waiters.delete(one)
        resolve()
      }
      this.waiters.add(one)
    })
  }

  close() {
    this.closed = true
    this.watch.close()
    this.look()
  }
}

export class Collection {
  /** Options: `onChange(ids)`, `onState`, `compare` of two records, and `key`, the primary key. */
  constructor(rows, table, where = '', { onChange, onState, compare, key = 'id' } = {}) {
    Object.assign(this, { client: rows, table, onChange, compare, key, changed: new Set() })
    this.writes = new Map() // those that are shown and not yet in the records, by id, in order
    this.last = new Map() // the newest write of each record that is being sent
    const onChanges = (changes) => this.tell(changes.map((one) => one.key))
    this.following = new Following(rows, table, where, { onChanges, onState })
    this.ready = this.following.ready
  }

  /** The record with this id as it is shown: with the writes that are on their way. */
  get(id) {
    const known = this.following.records.get(id)
    return (this.writes.get(id) ?? []).reduce((value, { change }) => change(value), known)
  }

  /** All records as they are shown, by id, or as `compare` orders them. */
  get rows() {
    if (!this.shown) {
      const ids = new Set([...this.following.records.keys(), ...this.writes.keys()])
      this.shown = [...ids].sort().map((id) => this.get(id)).filter((one) => one !== undefined)
      if (this.compare) this.shown.sort(this.compare)
    }
    return this.shown
  }

  /** The ids of records with a write that the server has not confirmed. */
  get pending() {
    return [...this.writes.keys()]
  }

  /** Create a record; gives its id. A Problem if there is one. */
  async create(value) {
    const id = value[this.key] ?? newId()
    await this.put(id, value, { ifNoneMatch: '*' })
    return id
  }

  put(id, value, options) {
    return this.write(id, () => ({ [this.key]: id, ...value }), 'put', value, options)
  }

  patch(id, value, options) {
    const change = (known) => (known === undefined ? known : merge(known, value))
    return this.write(id, change, 'patch', value, options)
  }

  delete(id, options) {
    return this.write(id, () => undefined, 'delete', options)
  }

  async write(id, change, verb, ...args) {
    const write = { change }
    this.writes.set(id, [...(this.writes.get(id) ?? []), write])
    this.tell([id])
    const before = this.last.get(id)
    const sent = this.sent(before, verb, `${this.table}/${id}`, args)
    this.last.set(id, sent)
    try {
      const written = await sent
      // in the background: the caller's write is done, and shown until its event is here
      this.following.reached(written.cursor).then(() => this.settle(id, write))
      return written
    } catch (problem) {
      this.settle(id, write)
      throw problem
    } finally {
      if (this.last.get(id) === sent) this.last.delete(id)
    }
  }

  async sent(before, verb, topic, args) {
    await before?.catch(() => {}) // its own caller is told
    const options = args.pop()
    return this.client[verb](topic, ...args, { once: true, ...options })
  }

  settle(id, write) {
    const left = (this.writes.get(id) ?? []).filter((one) => one !== write)
    if (left.length) this.writes.set(id, left)
    else this.writes.delete(id)
    this.tell([id])
  }

  /** Tell of changes once for all that one turn of the event loop brings. */
  tell(ids) {
    this.shown = null
    if (!this.changed.size) queueMicrotask(() => this.told())
    for (const id of ids) this.changed.add(id)
  }

  told() {
    const ids = this.changed
    this.changed = new Set()
    if (!this.following.closed) this.onChange?.(ids)
  }

  close() {
    this.following.close()
  }
}
