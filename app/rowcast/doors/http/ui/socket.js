/**
 * One WebSocket for all subscriptions of a client, made again for as long as there are any, and for
 * its writes (writes.js).
 */
import { Problem, pause } from './problem.js'
import { Flight } from './writes.js'

const QUIET_MS = 60_000 // after which it is taken for lost
const LINGER_MS = 1000 // how long it stays for another subscription
const WS_TRIES = 2 // WebSockets that do not open though the server answers, before it is SSE

export class Socket {
  constructor(client) {
    Object.assign(this, { client, members: new Map(), numbers: new Map(), last: 0 })
    Object.assign(this, { failures: 0, unopened: 0 })
    this.flight = new Flight(this, client.writes.bounds)
    client.socket = this
    this.open()
  }

  /** Whether commands can be sent: the server says something to whom it has let in. */
  get isLive() {
    return this.isLetIn && this.ws?.readyState === 1
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
      } else if (this.unopened) {
        const { status } = await client.fetch(`${client.url}/health`, { method: 'GET' })
        if (status >= 500) throw new Problem({ status })
      }
    } catch (error) {
      return error.isFinal ? this.end(error) : this.again(true)
    }
    if (client.socket !== this) return
    const ws = (this.ws = new client.WebSocket(`${client.url.replace(/^http/, 'ws')}/${query}`))
    let opened
    ws.onopen = () => {
      opened = true
      this.failures = this.unopened = 0
      this.heard = Date.now()
      this.ping = setInterval(() => this.look(), client.pingMs)
      for (const [id, member] of this.members) this.ask(id, member)
    }
    ws.onmessage = ({ data }) => this.take(JSON.parse(data))
    const over = (how) => {
      ws.onclose = ws.onerror = ws.onmessage = null
      this.lost(opened, how)
    }
    ws.onclose = over
    ws.onerror = () => opened || over({}) // in Node no close follows
  }

  lost(opened, how) {
    clearInterval(this.ping)
    this.isLetIn = false
    if (this.client.socket !== this) return this.flight.leave()
    this.flight.lost(how)
    const { code, reason } = how
    if (/^440[13]$/.test(code)) this.end(new Problem({ status: code - 4000, detail: reason }))
    else this.again(opened, /back in (\d+)/.exec(reason)?.[1])
  }

  /** Give up a connection that is silent; its close may take long. */
  drop() {
    const { ws } = this
    ws.onclose({})
    ws.close()
  }

  again(opened, asked) {
    const { client } = this
    this.ws = null
    this.failures++
    if (!opened) this.unopened++
    if (this.unopened >= WS_TRIES && !client.transport) {
      client.transport = 'sse'
      client.socket = null
      this.flight.leave()
      for (const member of this.members.values()) member.connect()
      return
    }
    this.tell('waiting')
    this.timer = setTimeout(() => this.open(), pause(this.failures, asked))
  }

  tell(state, problem) {
    for (const member of this.members.values()) member.onState(state, problem)
  }

  look() {
    if (Date.now() - this.heard > QUIET_MS) this.drop()
    else this.send({ id: 'ping', op: 'ping' })
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
    if (!this.isLetIn) {
      this.isLetIn = true
      this.flight.flush()
    }
    if (this.flight.answered(said)) return
    const { subscription, error, ack = said.id } = said
    const member = this.members.get(ack)
    if (said.kind) this.numbers.get(subscription)?.hear(said)
    else if (error) member?.refuse(new Problem(error))
    else if (member) {
      this.numbers.set(subscription, member)
      member.live(said.cursor)
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

  /** End it, as soon as the writes that were sent are answered; with a Problem at once. */
  end(problem) {
    clearTimeout(this.timer)
    if (this.client.socket === this) this.client.socket = null
    for (const member of this.members.values()) member.closed = true
    if (problem) this.tell('refused', problem)
    this.members.clear()
    const { flight } = this
    flight.onIdle = () => {
      clearInterval(this.ping)
      this.ws?.close()
    }
    if (problem || !this.isLive) flight.leave(problem)
    if (!flight.size) flight.onIdle()
  }
}
