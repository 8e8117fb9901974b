/** Bridges, dead letters and snapshots: rows of the server, with what one may do to them. */
import { ask } from './ask.js'
import { clear, command, confirmed, dialog, facts, h, toast } from './dom.js'
import { amount, moment } from './text.js'
import { badge, rowsTable, section } from './rows.js'

const FIGURES_MS = 5000 // what is counted changes without being told

export function gatewayPage(app, main) {
  const may = () => app.may('administer')
  const bridges = rowsTable(app, '$SYS/brokers', {
    key: (row) => row.broker_name,
    news: '$SYS/gateway/+/+',
    every: FIGURES_MS,
    columns: [['Bridge', 'broker_name'],
      ['State', (row) => badge(row.connected ? 'connected' : 'not connected', row.connected)],
      ['Where', (row) => `${row.host}:${row.port}`], ['Mode', 'delivery_mode'],
      ['Waiting', (row) => String(row.outbox_pending ?? '')],
      ['Behind by', (row) => (row.lag_seconds ? `${amount(row.lag_seconds)} s` : '')],
      ['Sent', (row) => amount(row.messages_sent ?? 0)],
      ['Received', (row) => amount(row.messages_received ?? 0)],
      ['Dropped', (row) => amount(row.messages_dropped ?? 0)],
      ['Failed', (row) => amount(row.messages_failed ?? 0)]],
    below: (row) => row.last_error && `Last error: ${row.last_error}`,
    actions: [{ label: 'Show', act: (row) => showBridge(row) },
      { label: 'Remove', bad: true, may: (row) => may() && !row.configured, act: async (row) => {
      const said = `Remove the bridge ${row.broker_name}? What waits for it is forgotten.`
      if (!await confirmed(said, 'Remove')) return
      await app.rows.delete(`$SYS/brokers/${row.broker_name}`)
      toast(`The bridge ${row.broker_name} is ended`)
    } }],
    none: h('span', {}, 'No bridges. Carry a table to another broker: ',
      command(app.curl(`-X PUT '${app.rows.url}/$SYS/brokers/cloud' -H 'Content-Type: application/json' \\\n` +
        `  -d '{"host": "127.0.0.1", "port": 1884, "out": [{"filter": "Weather/#"}]}'`))),
  })
  const at = (row) => `$SYS/dead_letters/${row.broker}/${row.id}`
  const dead = rowsTable(app, '$SYS/dead_letters', {
    key: (row) => `${row.broker}/${row.id}`,
    news: '$SYS/gateway/+/dead_letters/+',
    columns: [['Bridge', 'broker'], ['Topic', 'topic'], ['Payload', 'payload'], ['Attempts', 'attempts']],
    below: (row) => (row.last_error ?? row.error) && `Last error: ${row.last_error ?? row.error}`,
    actions: [
      { label: 'Edit', may, act: (row) => mend(app, at(row), row) },
      { label: 'Send again', may, act: async (row) => {
        await app.rows.put(at(row), {})
        toast('It is sent again')
      } },
      { label: 'Discard', bad: true, may, act: async (row) => {
        if (!await confirmed(`Discard the dead letter at ${row.topic}?`, 'Discard')) return
        await app.rows.delete(at(row))
        toast('It is discarded')
      } },
    ],
    none: 'No dead letters: whatever a bridge took was delivered, or is still tried.',
  })
  clear(main, h('div.row.head', {}, h('h1.wide', {}, 'Gateway'), may()
    ? h('button.main', { type: 'button', onclick: () => newBridge(app) }, 'New bridge') : null), section('Bridges', bridges.node), section('Dead letters', dead.node))
  return () => { bridges.end(); dead.end() }
}

/** What waits for a bridge, and how it gets on with it. */
function showBridge(row) {
  const { outbox = {} } = row
  return dialog(row.broker_name, (box) => h('div', {},
    facts({ Where: `${row.host}:${row.port}`, Mode: row.delivery_mode, Sent: row.messages_sent,
      Received: row.messages_received, Failed: row.messages_failed, 'Dead letters': row.dead_lettered,
      'Behind by': `${amount(row.lag_events ?? 0)} events` }),
    row.last_error ? h('p.badtext', {}, row.last_error) : null,
    h('h2', {}, 'Outbox'),
    facts({ Waiting: outbox.pending, Bytes: outbox.waiting_bytes, 'Grows by': outbox.growth_per_second &&
      `${amount(outbox.growth_per_second)} a second`, 'Full in': outbox.full_in_seconds &&
      `${amount(outbox.full_in_seconds)} s`, 'Tried again': outbox.retrying,
    'Attempts at most': outbox.max_attempts_seen, 'From position': outbox.oldest, 'To position': outbox.newest }),
    h('div.row', {}, h('span.grow'),
      h('button', { type: 'button', onclick: () => box.close() }, 'Close'))))
}

/** Make a bridge of the usual kind; the rest of what one may be is written by PUT. */
function newBridge(app) {
  return ask('New bridge', [
    { name: 'name', label: 'Name', required: true },
    { name: 'host', label: 'Host', required: true },
    { name: 'port', label: 'Port', value: '1883' },
    { name: 'tls', label: 'TLS', kind: 'switch' },
    { name: 'username', label: 'User there' },
    { name: 'password', label: 'Password there', kind: 'password' },
    { name: 'out', label: 'Carried there', kind: 'names', value: ['Weather/#'], help: 'Filters.' },
    { name: 'into', label: 'Carried here', kind: 'names' },
  ], async ({ name, into, out, username, password, port, ...plan }) => {
    const filters = (all) => all.map((filter) => ({ filter }))
    Object.assign(plan, { port: Number(port), out: filters(out), in: filters(into) },
      username ? { username, password } : {})
    await app.rows.put(`$SYS/brokers/${name}`, plan)
    toast(`The bridge ${name} begins`)
  }, { action: 'Make' })
}

/** Send a dead letter as it should have been. */
function mend(app, topic, row) {
  const isText = typeof row.payload === 'string'
  return ask('Edit and send', [
    { name: 'topic', label: 'Topic', value: row.topic, required: true },
    { name: 'payload', label: 'Payload', kind: 'area',
      value: isText ? row.payload : JSON.stringify(row.payload, null, 2) },
  ], async (said) => {
    const payload = isText ? said.payload : JSON.parse(said.payload)
    await app.rows.put(topic, { topic: said.topic, payload })
    toast('It is sent')
  }, { action: 'Send' })
}

export function snapshotsPage(app, main) {
  const shots = rowsTable(app, '$SYS/snapshots', {
    key: (row) => row.id,
    columns: [['Name', 'id'], ['Kind', 'kind'],
      ['State', (row) => badge(row.newest ? 'newest' : row.state, !/damaged|failed/.test(row.state))],
      ['Table', 'table'], ['Rows', (row) => amount(row.rows ?? 0)],
      ['Bytes', (row) => amount(row.bytes ?? 0)],
      ['Made', (row) => moment(row.created ?? row.began)]],
    below: (row) => row.error,
    actions: [{ label: 'Remove', bad: true, may: () => app.may('administer'), act: async (row) => {
      if (!await confirmed(`Remove ${row.id}?`, 'Remove')) return
      await app.rows.delete(`$SYS/snapshots/${row.id}`)
    } }],
    none: 'No snapshots yet. One is every table as it is at one moment, as Parquet files.',
  })
  const start = (value) => async () => {
    try {
      await app.rows.create('$SYS/snapshots', value)
      toast('It is begun')
    } catch (error) {
      toast(error.message, true)
    }
  }
  clear(main, h('div.row.head', {}, h('h1.wide', {}, 'Snapshots'), app.may('administer') ? [
    h('button', { type: 'button', onclick: start({ changes: true }) }, 'Changes since the last'),
    h('button.main', { type: 'button', onclick: start({}) }, 'New snapshot')] : null),
  shots.node, h('h2', {}, 'Read them'),
  command('duckdb -c "SELECT count(*) FROM \'data/snapshots/newest/Dog/*.parquet\'"'),
  command('spark.read.parquet("data/snapshots/newest/Dog").show()'))
  return () => shots.end()
}
