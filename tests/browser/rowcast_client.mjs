/** Runs commands of a test, a line of JSON each, with the client; answers and events are lines too. */
import { createInterface } from 'node:readline'

const { Rowcast } = await import(process.argv[2])
const rows = new Rowcast(process.argv[3], JSON.parse(process.argv[4] ?? '{}'))
const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`)
const listening = {}
const commands = {
  call: async ({ verb, args }) => say({ result: await rows[verb](...args) }),
  subscribe: ({ filter, options }) => {
    listening[filter] = rows.subscribe(filter, (event) => say({ event }), {
      ...options, onState: (state, problem) => say({ state, problem: problem?.status }),
    })
  },
  close: ({ filter }) => listening[filter].close(),
}
for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line)
  try {
    await commands[command.do](command)
  } catch (error) {
    say({ refused: error.status, message: error.message, problems: error.problems })
  }
}
process.exit(0)
