/** Clients, bridges, dead letters and snapshots: rows of the server, with what one may do to them. */
import { ask } from './ask.js'
import { amount, calmly, clear, clock, command, confirmed, h, toast, when } from './dom.js'
import { badge, refusal, rowsTable, section } from './rows.js'

const MQTT = { 3: '3.1', 4: '3.1.1', 5: '5.0' }
const FIGURES_MS = 5000 // what is counted changes without being told
const EVENTS_KEPT = 100
const DRAW_MS = 200

export function clientsPage(app, main) {
  const { hostname } = new URL(app.rows.url)
  const sessions = rowsTable(app, '$SYS/sessions', {
    key: (row) => row.client_id,
    every: FIGURES_MS,
    columns: [['Client', 'client_id'],
      ['', (row) => badge(row.connected ? 'connected' : 'away', row.connected)],
      ['User', 'user'], ['Address', 'peer'],
      ['Over', (row) => row.transport && `${row.transport}, MQTT ${MQTT[row.version] ?? row.version}`],
      ['Subscriptions', (row) => row.subscriptions?.map((one) => one.filter).join('  ')],
      ['Behind by', (row) => String(row.lag ?? '')], ['Waiting', (row) => String(row.queued ?? '')],
      ['Received', (row) => amount(row.counters?.received ?? 0)],
      ['Sent', (row) => amount(row.counters?.sent ?? 0)],
      ['Dropped', (row) => amount(row.counters?.dropped ?? 0)],
      ['Gaps', (row) => Object.entries(row.counters?.gaps ?? {}).map((pair) => pair.join(' ')).join(', ')]],
    actions: [{ label: 'End', bad: true, may: () => app.may('administer'), act: async (row) => {
      const said = `End the session of ${row.client_id}? What waits for it is forgotten.`
      if (!await confirmed(said, 'End the session')) return
      await app.rows.delete(`$SYS/sessions/${row.client_id}`)
      toast(`The session of ${row.client_id} is ended`)
    } }],
    none: h('span', {}, 'Nobody is connected over MQTT. Try: ',
      command(`mosquitto_sub -h ${hostname} -c -i dashboard -q 1 -t '#' -v`)),
  })
  const events = []
  const list = h('ul.log')
  const draw = calmly(() => clear(list, events.toReversed().map(({ value }) => h('li', {},
    h('time', {}, clock(Date.parse(value.at))), h('span.kind', {}, value.event),
    h('span.body', {}, h('span.at', {}, value.client_id || value.user || ''), ' ',
      [value.door, value.peer, value.reason].filter(Boolean).join(' · '))))), DRAW_MS)
  const heard = app.rows.subscribe('$SYS/events/#', (event) => {
    if (!event.value?.event) return
    events.push(event)
    events.splice(0, Math.max(0, events.length - EVENTS_KEPT))
    draw()
  }, { last: 50, onState: (now, problem) => {
    if (now === 'refused') clear(list, h('li', {}, h('span.body', {}, refusal(problem))))
    else app.told(now)
  } })
  clear(main, h('h1', {}, 'Clients'), section('Sessions and connections', sessions.node),
    section('What happened', h('div.card', {}, list)))
  return () => { sessions.end(); heard.close() }
}

export function gatewayPage(app, main) {
  const bridges = rowsTable(app, '$SYS/brokers', {
    key: (row) => row.broker_name,
    news: '$SYS/gateway/+/+',
    every: FIGURES_MS,
    columns: [['Bridge', 'broker_name'],
      ['', (row) => badge(row.connected ? 'connected' : 'not connected', row.connected)],
      ['Where', (row) => `${row.host}:${row.port}`], ['Mode', 'delivery_mode'],
      ['Waiting', (row) => String(row.outbox_pending ?? '')],
      ['Behind by', (row) => (row.lag_seconds ? `${amount(row.lag_seconds)} s` : '')],
      ['Sent', (row) => amount(row.messages_sent ?? 0)],
      ['Received', (row) => amount(row.messages_received ?? 0)],
      ['Dropped', (row) => amount(row.messages_dropped ?? 0)],
      ['Failed', (row) => amount(row.messages_failed ?? 0)], ['Last error', 'last_error']],
    none: h('span', {}, 'No bridges. Carry a table to another broker: ',
      command(`curl -X PUT '${app.rows.url}/$SYS/brokers/cloud' -H 'Content-Type: application/json' \\\n` +
        `  -d '{"host": "127.0.0.1", "port": 1884, "out": [{"filter": "Weather/#"}]}'`)),
  })
  const at = (row) => `$SYS/dead_letters/${row.broker}/${row.id}`
  const may = () => app.may('administer')
  const dead = rowsTable(app, '$SYS/dead_letters', {
    key: (row) => `${row.broker}/${row.id}`,
    news: '$SYS/gateway/+/dead_letters/+',
    columns: [['Bridge', 'broker'], ['Topic', 'topic'], ['Payload', 'payload'], ['Attempts', 'attempts'],
      ['Last error', (row) => row.last_error ?? row.error]],
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
  clear(main, h('h1', {}, 'Gateway'), section('Bridges', bridges.node), section('Dead letters', dead.node))
  return () => { bridges.end(); dead.end() }
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
      ['', (row) => badge(row.newest ? 'newest' : row.state, !/damaged|failed/.test(row.state))],
      ['Table', 'table'], ['Rows', (row) => amount(row.rows ?? 0)],
      ['Bytes', (row) => amount(row.bytes ?? 0)],
      ['Made', (row) => moment(row.created ?? row.began)], ['Error', 'error']],
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

const moment = (text) => (text ? when(Date.parse(text)) : '')
