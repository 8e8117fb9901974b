/** Who is connected, what each hears, who is slow, and what happened: rows and events of the server. */
import { calmly, clear, command, confirmed, dialog, facts, h, time, toast, trying } from './dom.js'
import { amount, brief, moment } from './text.js'
import { badge, refusal, rowsTable, section } from './rows.js'
import { refusedSection } from './refused.js'

const SESSIONS = '$SYS/sessions'
const STREAMS = '$SYS/streams'
const SLOW = '$SYS/slow_subscriptions'
const MQTT = { 3: '3.1', 4: '3.1.1', 5: '5.0' }
const FIGURES_MS = 5000 // what is counted changes without being told
const EVENTS_KEPT = 100
const DRAW_MS = 200

export function clientsPage(app, main) {
  const tables = [['Sessions and connections', sessions(app)], ['Readers by SSE and WebSocket', streams(app)],
    ['Slow subscriptions', slow(app)]]
  const list = h('ul.log')
  const heard = events(app, list)
  const refused = refusedSection(app)
  clear(main, h('h1', {}, 'Clients'), tables.map(([title, table]) => section(title, table.node)),
    refused.node, section('What happened', h('div.card', {}, list)))
  return () => { for (const [, table] of tables) table.end(); heard.close(); refused.close() }
}

const gapsOf = (gaps) => Object.entries(gaps ?? {}).map((pair) => pair.join(' ')).join(', ')

function sessions(app) {
  return rowsTable(app, SESSIONS, {
    key: (row) => row.client_id,
    every: FIGURES_MS,
    columns: [['Client', (row) => h('b', {}, row.client_id)],
      ['State', (row) => badge(row.connected ? 'connected' : 'away', row.connected)],
      ['From', (row) => from(row)],
      ['Subscriptions', (row) => row.subscriptions?.map((one) => one.filter).join('  ')],
      ['Behind by', (row) => amount(row.lag ?? 0)], ['Waiting', (row) => amount(row.queued ?? 0)],
      ['Received', (row) => amount(row.counters?.received ?? 0)],
      ['Sent', (row) => amount(row.counters?.sent ?? 0)],
      ['Dropped', (row) => amount(row.counters?.dropped ?? 0)],
      ['Gaps', (row) => gapsOf(row.counters?.gaps)]],
    actions: [
      { label: 'Show', act: (row) => showSession(app, row.client_id) },
      { label: 'End', bad: true, may: () => app.may('administer'), act: async (row) => {
        const said = `End the session of ${row.client_id}? What waits for it is forgotten.`
        if (!await confirmed(said, 'End the session')) return
        await app.rows.delete(`${SESSIONS}/${row.client_id}`)
        toast(`The session of ${row.client_id} is ended`)
      } }],
    none: h('span', {}, 'Nobody is connected over MQTT. Try: ',
      command(app.mosquitto('sub', "-c -i dashboard -q 1 -t '#' -v"))),
  })
}

/** Whose it is, from where, and over what. */
function from({ user, peer, transport, version }) {
  return [[user, peer].filter(Boolean).join(' at '), transport && `${transport}, MQTT ${MQTT[version] ?? version}`]
    .filter(Boolean).join('; ')
}

/** All of one session, and what it subscribed: each may be taken away. */
async function showSession(app, client) {
  const { value } = await app.rows.get(`${SESSIONS}/${client}`)
  const told = { User: value.user, Address: value.peer, 'Keep alive': value.keep_alive_seconds,
    Connected: moment(value.connected_at), 'Heard last': moment(value.last_activity),
    'Session since': moment(value.created), Ends: moment(value.expires_at), 'Taken over': value.takeovers,
    'In flight to it': value.in_flight_out_count, 'In flight from it': value.in_flight_in_count,
    Will: value.will?.topic }
  const at = (filter) => // a row's id is written as in a URL, for filters have '#' in them
    `$SYS/subscriptions/${encodeURIComponent(client)}/${filter.split('/').map(encodeURIComponent).join('/')}`
  dialog(client, (box) => h('div', {},
    facts(told),
    h('h2', {}, 'Subscriptions'),
    h('ul.plain', {}, value.subscriptions.map(({ filter, qos }) => {
      const line = h('li.row', {}, h('code.wide', {}, filter), h('span.soft', {}, `QoS ${qos}`),
        app.may('administer') ? h('button.bad', { type: 'button', 'aria-label': `Unsubscribe ${filter}`,
          onclick: () => trying(async () => {
            await app.rows.delete(at(filter))
            line.remove()
          }) }, 'Unsubscribe') : null)
      return line
    })),
    value.subscriptions.length ? null : h('p.soft', {}, 'None.'),
    h('div.row', {}, h('button', { type: 'button', onclick: () => {
      box.close()
      location.hash = `#/topics/${encodeURIComponent(`$SYS/events/${client}`)}`
    } }, 'What happened to it'), h('span.grow'),
    h('button', { type: 'button', onclick: () => box.close() }, 'Close'))))
}

function streams(app) {
  return rowsTable(app, STREAMS, {
    key: (row) => row.id,
    every: FIGURES_MS,
    columns: [['Reader', 'id'], ['By', 'door'], ['User', 'user'], ['Address', 'peer'], ['At', 'path'],
      ['Hears', (row) => row.filters?.join('  ')], ['Since', (row) => moment(row.opened)],
      ['Waiting', (row) => amount(row.queued ?? 0)], ['Dropped', (row) => amount(row.dropped ?? 0)],
      ['Gaps', (row) => gapsOf(row.gaps)]],
    actions: [{ label: 'End', bad: true, may: () => app.may('administer'), act: async (row) => {
      if (!await confirmed(`End the stream of ${row.user} to ${row.peer}?`, 'End the stream')) return
      await app.rows.delete(`${STREAMS}/${row.id}`)
    } }],
    none: 'Nobody reads by server-sent events or a WebSocket of its own.',
  })
}

/** Who is given messages late, the latest first. */
function slow(app) {
  return rowsTable(app, SLOW, {
    key: (row) => `${row.client_id ?? `${row.door}/${row.user}`}/${row.topic}`,
    news: `${SLOW}/#`, // the order is another, too
    columns: [['Reader', (row) => row.client_id || `${row.door}, ${row.user}`], ['Topic', 'topic'],
      ['Filter', 'filter'], ['Late by', (row) => `${amount(row.latency_ms)} ms`],
      ['Worst', (row) => `${amount(row.worst_ms)} ms`], ['Times', (row) => amount(row.count)],
      ['Last', (row) => moment(row.last_at)]],
    none: 'Nobody is given messages late.',
  })
}

/** The newest events of clients, as they happen. */
function events(app, list) {
  const kept = []
  const draw = calmly(() => clear(list, kept.toReversed().map(({ value }) => h('li', {},
    time(Date.parse(value.at)), h('span.kind', {}, value.event),
    h('span.body', {}, h('span.at', {}, value.client_id || value.user || ''), ' ',
      brief([value.door, value.peer, value.filter, value.reason].filter(Boolean).join(' · '), 300))))),
  DRAW_MS)
  return app.rows.subscribe('$SYS/events/#', (event) => {
    if (!event.value?.event) return
    kept.push(event)
    kept.splice(0, Math.max(0, kept.length - EVENTS_KEPT))
    draw()
  }, { last: 50, onState: (now, problem) => {
    if (now === 'refused') list.replaceWith(h('p', {}, refusal(problem)))
    else app.told(now)
  } })
}
