/** Rows of the server: clients, sessions, bridges, dead letters, snapshots, with what one may do. */
import { amount, brief, clear, clock, command, confirmed, dialog, h, toast, trying } from './dom.js'

const MQTT = { 3: '3.1', 4: '3.1.1', 5: '5.0' }
const LOOK_MS = 2000
const EVENTS_KEPT = 100

/** A section that looks at rows now and then; gives `{ node, look }`. */
function section(app, title, table, { columns, actions = [], none, query = '' }) {
  const box = h('div.tablebox')
  let last = ''
  const look = async () => {
    let rows
    try {
      ({ rows } = await app.rows.query(table, query))
    } catch (error) {
      clear(box, note(error.status === 404 ? none : error.message))
      return
    }
    const text = JSON.stringify(rows)
    if (text === last) return // leave the focus where it is
    last = text
    clear(box, rows.length ? h('table', {}, h('thead', {}, h('tr', {},
      columns.map(([name]) => h('th', {}, name)), actions.length ? h('th', {}, '') : null)),
    h('tbody', {}, rows.map((row) => h('tr', {},
      columns.map(([, read]) => {
        const value = typeof read === 'function' ? read(row) : row[read]
        return h('td', { title: value instanceof Node ? '' : brief(value, 400) },
          value instanceof Node ? value : brief(value ?? '', 90))
      }),
      actions.length ? h('td.end', {}, actions.map(([label, act, isBad]) => h(
        isBad ? 'button.bad' : 'button', { type: 'button', onclick: async () => {
          await act(row)
          look()
        } }, label))) : null)))) : note(none))
  }
  return { node: h('section', {}, h('h2', {}, title), box), look }
}

function note(text) {
  const node = h('div', {}, text)
  node.style.padding = '12px 16px'
  return node
}

function live(sections) {
  for (const one of sections) one.look()
  const beat = setInterval(() => {
    if (!document.hidden) for (const one of sections) one.look()
  }, LOOK_MS)
  return () => clearInterval(beat)
}

const badge = (text, good) => h(good ? 'span.badge.good' : 'span.badge.bad', {}, text)

export function clientsPage(app, main) {
  const { hostname } = new URL(app.rows.url)
  const sessions = section(app, 'Sessions and connections', '$SYS/sessions', {
    columns: [['Client', 'client_id'],
      ['', (row) => badge(row.connected ? 'connected' : 'away', row.connected)],
      ['User', 'user'], ['Address', 'peer'],
      ['Over', (row) => row.transport && `${row.transport}, MQTT ${MQTT[row.version] ?? row.version}`],
      ['Subscriptions', (row) => row.subscriptions?.map((one) => one.filter).join('  ')],
      ['Behind by', 'lag'], ['Waiting', 'queued'], ['Received', (row) => row.counters?.received],
      ['Sent', (row) => row.counters?.sent], ['Dropped', (row) => row.counters?.dropped],
      ['Gaps', (row) => Object.entries(row.counters?.gaps ?? {}).map((pair) => pair.join(' ')).join(', ')]],
    actions: [['End', async (row) => {
      const said = `End the session of ${row.client_id}? What waits for it is forgotten.`
      if (!await confirmed(said, 'End the session')) return
      await trying(() => app.rows.delete(`$SYS/sessions/${row.client_id}`))
    }, true]],
    none: h('span', {}, 'Nobody is connected over MQTT. Try: ',
      command(`mosquitto_sub -h ${hostname} -c -i dashboard -q 1 -t '#' -v`)),
  })
  const events = []
  const list = h('ul.log')
  const heard = app.rows.subscribe('$SYS/events/#', (event) => {
    if (!event.value?.event) return
    events.push(event)
    events.splice(0, Math.max(0, events.length - EVENTS_KEPT))
    clear(list, events.toReversed().map(({ value }) => h('li', {},
      h('time', {}, clock(Date.parse(value.at))), h('span.kind', {}, value.event),
      h('span.body', {}, h('span.at', {}, value.client_id || value.user || ''), ' ',
        [value.door, value.peer, value.reason].filter(Boolean).join(' · ')))))
  }, { last: 50, onState: app.told })
  clear(main, h('h1', {}, 'Clients'), sessions.node,
    h('h2', {}, 'What happened'), h('div.card', {}, list))
  const end = live([sessions])
  return () => { end(); heard.close() }
}

export function gatewayPage(app, main) {
  const bridges = section(app, 'Bridges', '$SYS/brokers', {
    columns: [['Bridge', 'broker_name'],
      ['', (row) => badge(row.connected ? 'connected' : 'not connected', row.connected)],
      ['Where', (row) => `${row.host}:${row.port}`], ['Mode', 'delivery_mode'],
      ['Waiting', 'outbox_pending'], ['Behind by', (row) => row.lag_seconds && `${amount(row.lag_seconds)} s`],
      ['Sent', 'messages_sent'], ['Received', 'messages_received'], ['Dropped', 'messages_dropped'],
      ['Failed', 'messages_failed'], ['Last error', 'last_error']],
    none: h('span', {}, 'No bridges. Carry a table to another broker: ',
      command(`curl -X PUT '${app.rows.url}/$SYS/brokers/cloud' -H 'Content-Type: application/json' \\\n` +
        `  -d '{"host": "127.0.0.1", "port": 1884, "out": [{"filter": "Weather/#"}]}'`)),
  })
  const at = (row) => `$SYS/dead_letters/${row.broker}/${row.id}`
  const dead = section(app, 'Dead letters', '$SYS/dead_letters', {
    columns: [['Bridge', 'broker'], ['Topic', 'topic'],
      ['Payload', 'payload'], ['Attempts', 'attempts'], ['Last error', (row) => row.last_error ?? row.error]],
    actions: [
      ['Edit', (row) => mend(app, at(row), row)],
      ['Send again', (row) => trying(async () => {
        await app.rows.put(at(row), {})
        toast('It is sent again')
      })],
      ['Discard', async (row) => {
        if (!await confirmed('Discard this dead letter?', 'Discard')) return
        await trying(() => app.rows.delete(at(row)))
      }, true],
    ],
    none: 'No dead letters: whatever a bridge took was delivered, or is still tried.',
  })
  clear(main, h('h1', {}, 'Gateway'), bridges.node, dead.node)
  return live([bridges, dead])
}

/** Send a dead letter as it should have been. */
function mend(app, topic, row) {
  const where = h('input.mono', { id: 'mend-topic', value: row.topic })
  const what = h('textarea', { id: 'mend-payload', rows: 6 })
  const isText = typeof row.payload === 'string'
  what.value = isText ? row.payload : JSON.stringify(row.payload, null, 2)
  const wrong = h('p.badtext', { role: 'alert' })
  return new Promise((done) => {
    dialog('Edit and send', (node) => {
      node.addEventListener('close', done)
      return h('form', { onsubmit: async (event) => {
        event.preventDefault()
        try {
          const payload = isText ? what.value : JSON.parse(what.value)
          await app.rows.put(topic, { topic: where.value, payload })
          toast('It is sent')
          node.close()
        } catch (error) {
          wrong.textContent = error.message
        }
      } }, h('div.field', {}, h('label', { htmlFor: 'mend-topic' }, 'Topic'), where),
      h('div.field', {}, h('label', { htmlFor: 'mend-payload' }, 'Payload'), what), wrong,
      h('div.row', {}, h('span.grow'),
        h('button', { type: 'button', onclick: () => node.close() }, 'Cancel'),
        h('button.main', { type: 'submit' }, 'Send')))
    })
  })
}

export function snapshotsPage(app, main) {
  const shots = section(app, 'Snapshots and jobs', '$SYS/snapshots', {
    columns: [['Name', 'id'], ['Kind', 'kind'],
      ['', (row) => badge(row.newest ? 'newest' : row.state, !/damaged|failed/.test(row.state))],
      ['Table', 'table'], ['Rows', (row) => amount(row.rows ?? 0)],
      ['Bytes', (row) => amount(row.bytes ?? 0)], ['Made', (row) => row.created ?? row.began],
      ['Error', 'error']],
    actions: [['Remove', async (row) => {
      if (!await confirmed(`Remove ${row.id}?`, 'Remove')) return
      await trying(() => app.rows.delete(`$SYS/snapshots/${row.id}`))
    }, true]],
    none: 'No snapshots yet. One is every table as it is at one moment, as Parquet files.',
  })
  const start = (changes) => trying(async () => {
    await app.rows.create('$SYS/snapshots', changes ? { changes: true } : {})
    toast('It is begun')
    shots.look()
  })
  clear(main, h('div.row.head', {}, h('h1.wide', {}, 'Snapshots'),
    h('button', { type: 'button', onclick: () => start(true) }, 'Changes since the last'),
    h('button.main', { type: 'button', onclick: () => start(false) }, 'New snapshot')),
  shots.node, h('h2', {}, 'Read them'),
  command('duckdb -c "SELECT count(*) FROM \'data/snapshots/newest/Dog/*.parquet\'"'),
  command('spark.read.parquet("data/snapshots/newest/Dog").show()'))
  return live([shots])
}
