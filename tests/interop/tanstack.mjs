/** A collection of TanStack DB over a live query; prints what each step left, a line of JSON each. */
import { createCollection, createLiveQueryCollection, gt } from '@tanstack/db'

const [, , ui, url] = process.argv
const { Rowcast } = await import(new URL('rowcast.js', `file://${ui}/`))
const { rowcastCollection } = await import(new URL('tanstack.js', `file://${ui}/`))
const say = (step, what) => process.stdout.write(`${JSON.stringify({ step, ...what })}\n`)
const rows = new Rowcast(url)
const counters = createCollection(rowcastCollection(rows, { table: 'Counter', where: 'n=gt=0' }))
const sorted = (all = counters.toArray) =>
  all.map(({ id, n }) => ({ id, n })).sort((a, b) => (a.id < b.id ? -1 : 1))
const seen = async (done) => {
  while (!done()) await new Promise((go) => setTimeout(go, 10))
}
const outcome = (made) => made.isPersisted.promise.then(() => 'kept', (problem) => problem.status)

await counters.preload()
say('ready', { rows: sorted() })

await rows.put('Counter/b', { n: 2 })
await seen(() => counters.get('b'))
await rows.put('Counter/a', { n: -1 })
await seen(() => !counters.get('a'))
say('followed', { rows: sorted() })

const large = createLiveQueryCollection((q) =>
  q.from({ one: counters }).where(({ one }) => gt(one.n, 5)))
await large.preload()

const made = counters.insert({ id: 'c', n: 30 })
say('inserted', { rows: sorted(), large: sorted(large.toArray) })
say('kept', { outcome: await outcome(made), rows: sorted() })

const first = counters.update('c', (draft) => { draft.n = 31 })
const second = counters.update('c', (draft) => { draft.n = 32 })
say('updated', { outcome: [await outcome(first), await outcome(second)], rows: sorted() })

const wrong = counters.update('b', (draft) => { draft.n = 'many' })
say('wrong', { rows: sorted() })
say('back', { outcome: await outcome(wrong), rows: sorted() })

const mixed = counters.insert([{ id: 'd', n: 4 }, { id: 'e', n: 'many' }])
say('mixed', { outcome: await outcome(mixed), rows: sorted() })
const both = counters.insert([{ id: 'd', n: 4 }, { id: 'e', n: 5 }])
say('both', { outcome: await outcome(both), rows: sorted() })

say('deleted', { outcome: await outcome(counters.delete(['b', 'd'])), rows: sorted() })
await counters.cleanup()
process.exit(0)
