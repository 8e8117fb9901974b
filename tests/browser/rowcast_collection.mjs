/** Runs commands of a test, a line of JSON each, with a collection; answers and changes are lines. */
import { createInterface } from 'node:readline'

const [, , module, url, table, where, given] = process.argv
const { Rowcast } = await import(new URL('rowcast.js', `file://${module}`))
const { Collection, difference, merge } = await import(module)
const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`)
let held // while it is a list, requests that write wait in it
const hold = (path, options) =>
  held && options.method !== 'GET'
    ? new Promise((go) => held.push(go)).then(() => fetch(path, options))
    : fetch(path, options)
let lost = 0 // so many answers of writes are lost
const loses = async (path, options) => {
  const answer = await hold(path, options)
  if (options.method !== 'GET' && lost-- > 0) throw new TypeError('fetch failed')
  return answer
}
const rows = new Rowcast(url, { fetch: loses })
const onChange = (ids) => say({ changed: [...ids].sort(), rows: records.rows, pending: records.pending })
const records = new Collection(rows, table, where, { onChange, ...JSON.parse(given ?? '{}') })
const commands = {
  ready: async () => {
    await records.ready
    say({ ready: records.rows })
  },
  // its outcome is a line of its own, which may come later
  write: ({ verb, args }) => {
    const done = records[verb](...args)
    done.then((result) => say({ result }), (problem) => say({ refused: problem.status }))
  },
  hold: () => { held = [] },
  go: () => {
    const all = held
    held = null
    for (const go of all) go()
  },
  lose: ({ count }) => { lost = count },
  rows: () => say({ rows: records.rows }),
  merge: ({ value, patch }) => say(merge(value, patch)),
  difference: ({ before, after }) => say(difference(before, after)),
}
for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line)
  try {
    await commands[command.do](command)
  } catch (problem) {
    say({ refused: problem.status, message: problem.message })
  }
}
process.exit(0)
