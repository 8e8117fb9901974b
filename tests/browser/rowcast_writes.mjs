/**
 * Runs commands of a test, a line of JSON each, with a client whose WebSocket the test can disturb.
 *
 * Outcomes are lines, in the order in which they come. `deaf` loses what the server says, `mute`
 * what it is told, `refused` each new connection.
 */
import { createInterface } from 'node:readline'

const [, , module, url, given] = process.argv
const { Rowcast } = await import(module)
const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`)
const way = { deaf: false, mute: false, refused: false }
const told = [] // commands that were sent
const asked = [] // requests by HTTP
let pings = 0 // that were answered
let wire

class Wire extends WebSocket {
  constructor(to) {
    super(way.refused ? 'ws://127.0.0.1:9/' : to)
    wire = this
  }

  send(frame) {
    told.push(JSON.parse(frame))
    if (!way.mute) super.send(frame)
  }

  set onmessage(hear) {
    super.onmessage = (event) => {
      pings += JSON.parse(event.data).ack === 'ping'
      return way.deaf || this.isCut || hear?.(event)
    }
  }
}

const ask = (path, options) => {
  asked.push(`${options.method} ${path.slice(url.length)}`)
  return fetch(path, options)
}
const rows = new Rowcast(url, { WebSocket: Wire, fetch: ask, ...JSON.parse(given ?? '{}') })
const commands = {
  subscribe: ({ filter }) => rows.subscribe(filter, (event) => say({ event }), {
    start: 'new', onState: (state) => say({ state }),
  }),
  write: ({ verb, args }) => rows[verb](...args).then(
    (result) => say({ result }),
    (problem) => say({ refused: { message: problem.message, name: problem.name, ...problem } })),
  way: (how) => Object.assign(way, how),
  cut: () => {
    wire.isCut = true
    wire.close()
  },
  close: () => rows.close(),
  seen: () => say({ seen: { told: told.splice(0), asked: asked.splice(0), pings } }),
}
for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line)
  commands[command.do](command)
}
process.exit(0)
