/**
 * Options for `createCollection` of TanStack DB (`@tanstack/db`): its live queries and optimistic
 * transactions over the records of a live query of the server.
 *
 *   import { createCollection } from '@tanstack/db'
 *   import { rowcastCollection } from './tanstack.js'
 *   const dogs = createCollection(rowcastCollection(rows, { table: 'Dog', where: 'age=gt=3' }))
 *
 * A change of several records is one transaction of the server: all or none. It is not sent again
 * when its answer is lost, but taken back, because it has no number (once).
 */
import { Following, difference, filterOf } from './collection.js'

export function rowcastCollection(rows, { table, where = '', key = 'id', ...config }) {
  let following
  let last = Promise.resolve() // transactions are sent in order
  const write = async ({ transaction }) => {
    const changes = transaction.mutations
    const sent = last.then(() =>
      changes.length === 1
        ? one(rows, table, changes[0])
        : all(rows, table, changes))
    last = sent.catch(() => {})
    await following?.reached((await sent).cursor)
  }
  const sync = ({ begin, write: put, commit, markReady, markError }) => {
    const onChanges = (changes) => {
      begin()
      for (const one of changes) put(one)
      commit()
    }
    const followed = (following = new Following(rows, table, where, { onChanges }))
    followed.ready.then(markReady, markError)
    return () => followed.close()
  }
  return {
    id: `rowcast:${rows.url}/${filterOf(table, where)}`,
    getKey: (record) => record[key],
    sync: { sync, rowUpdateMode: 'full' },
    onInsert: write,
    onUpdate: write,
    onDelete: write,
    ...config,
  }
}

function one(rows, table, { type, key, original, modified }) {
  const topic = `${table}/${key}`
  if (type === 'delete') return rows.delete(topic, { once: true })
  if (type === 'insert') return rows.put(topic, modified, { once: true, ifNoneMatch: '*' })
  return rows.patch(topic, difference(original, modified), { once: true })
}

async function all(rows, table, changes) {
  const writes = changes.map(({ type, key, original, modified }) => {
    const topic = `${table}/${key}`
    if (type === 'delete') return { op: 'delete', topic }
    if (type === 'insert') return { op: 'put', topic, value: modified, ifNoneMatch: '*' }
    return { op: 'patch', topic, value: difference(original, modified) }
  })
  const headers = { 'content-type': 'application/json' }
  const options = { headers, body: JSON.stringify(writes) }
  const told = await (await rows.request('POST', '/$tx', options)).json()
  return { cursor: told.at(-1).position }
}
