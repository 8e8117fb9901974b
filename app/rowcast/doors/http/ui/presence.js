/**
 * A record that says whether this page or program is there, by a will on a WebSocket of its own.
 *
 *   import { Presence } from './presence.js'
 *   const here = new Presence(rows, 'presence/ann', { present: 'here', gone: 'away' })
 *   await here.ready       // presence/ann is 'here'; for subscribers of MQTT it is retained
 *   await here.close()     // it is 'away', as it is when the connection is lost
 *
 * The server writes `gone` when the connection is lost, also after a kill of its own. Each new
 * connection writes `present` again, also when a former one, or another page, has just gone.
 */
const AGAIN_MS = 1000 // at most so often is `present` written again
const same = (one, other) => JSON.stringify(one) === JSON.stringify(other)

export class Presence {
  /** Options: `present` and `gone`, two values; `onState` as of `subscribe`. */
  constructor(rows, topic, { present, gone, onState = () => {} }) {
    Object.assign(this, { rows, topic, present, gone, onState })
    this.ready = new Promise((done, fail) => Object.assign(this, { done, fail }))
    this.ready.catch(() => {}) // who does not wait for it is told by onState
    // a client like the caller's, with a connection of its own, whose end is what the will is for
    const own = Object.assign(Object.create(Object.getPrototypeOf(rows)), rows)
    this.own = Object.assign(own, { socket: null, transport: 'ws' })
    const onTurn = (state, problem) => this.turn(state, problem)
    const options = { start: 'new', onState: onTurn }
    this.watch = own.subscribe(topic, (event) => this.hear(event), options)
  }

  turn(state, problem) {
    if (this.closed) return
    if (state === 'live') this.come()
    if (state === 'refused') this.fail(problem)
    this.onState(state, problem)
  }

  /** The will is there before the record says so; both go in order over one connection. */
  come() {
    const { socket } = this.own
    const { topic, present, gone } = this
    socket.take = (said) => this.take(said)
    socket.send({ id: 'will', op: 'will', topic, value: gone, retain: true })
    socket.send({ id: 'put', op: 'put', topic, value: present })
    this.last = Date.now()
  }

  take(said) {
    const { socket } = this.own
    if (said.ack === 'put') return this.done()
    if (said.error && ['will', 'put'].includes(said.id)) return this.refuse(said.error)
    if (socket) Object.getPrototypeOf(socket).take.call(socket, said)
  }

  refuse(error) {
    const problem = Object.assign(new Error(error.detail), { name: 'Problem' }, error)
    this.turn('refused', problem)
    this.end()
  }

  hear({ kind, value }) {
    const isGone = kind === 'delete' || (kind === 'put' && same(value, this.gone))
    if (!isGone || this.closed) return
    clearTimeout(this.timer)
    const wait = Math.max(0, this.last + AGAIN_MS - Date.now())
    this.timer = setTimeout(() => this.come(), wait)
  }

  end() {
    this.closed = true
    clearTimeout(this.timer)
    this.watch.close()
  }

  /** Write `gone`, and end the connection. */
  async close() {
    if (this.closed) return
    this.own.socket?.send({ op: 'will' })
    this.end()
    await this.rows.put(this.topic, this.gone)
  }
}
