/** The server itself: its figures as live plots. */
import { clear, h } from './dom.js'
import { amount, brief } from './text.js'
import { numbersOf, plot } from './plot.js'
import { badge, section } from './rows.js'

const RANGE_MS = 900_000
const HEALTH_BEATS = 5 // seconds between two looks at what is ready
const FIGURES = [
  ['clients/connected', 'MQTT clients connected'],
  ['load/messages/received/1min', 'MQTT packets received, a minute'],
  ['load/messages/sent/1min', 'MQTT packets sent, a minute'],
  ['load/publish/received/1min', 'Messages published, a minute'],
  ['load/bytes/received/1min', 'Bytes received, a minute'],
  ['subscriptions/count', 'Subscriptions'],
  ['retained messages/count', 'Retained messages'],
  ['heap/current', 'Memory, bytes'],
]

export async function serverPage(app, main) {
  const plots = new Map()
  const values = new Map()
  const cards = h('div.cards', {}, FIGURES.map(([name, title]) => {
    const topic = `$SYS/broker/${name}`
    const chart = plot(110, `${title} over time`, true)
    const figure = h('div.figure', {}, '–')
    plots.set(topic, { chart, figure })
    return h('section.card', { 'data-topic': topic }, h('div.soft', {}, title), figure, chart.node)
  }))
  const find = h('input.wide', { type: 'search', placeholder: 'Find a figure', 'aria-label': 'Find a figure',
    oninput: () => table() })
  const box = h('div.tablebox')
  const table = () => {
    const rows = [...values].filter(([topic]) => topic.includes(find.value)).sort()
    clear(box, h('table', {}, h('tbody', {}, rows.map(([topic, value]) => h('tr', {},
      h('td', {}, h('a', { href: `#/topics/${encodeURIComponent(topic)}` },
        topic.replace('$SYS/broker/', ''))), h('td.num', {}, brief(value)))))))
  }
  const health = h('div.row', { 'data-part': 'health' })
  const ready = async () => {
    try {
      const answer = await fetch(`${app.rows.url}/health/ready`)
      const { ready: isReady, checks } = await answer.json()
      clear(health, badge(isReady ? 'ready' : 'not ready', isReady),
        Object.entries(checks).map(([name, said]) => badge(`${name}: ${said}`, said === 'ok')))
    } catch { /* the connection's state says so */ }
  }
  const beside = [processes(app, '$SYS/cluster/nodes', 'Nodes', [
    ['Node', (row) => row.node],
    ['Role', (row) => badge(row.role)],
    ['State', (row) => badge(row.connected ? 'connected' : 'not connected', row.connected)],
    ['Term', (row) => brief(row.term ?? '')], ['Last batch', (row) => brief(row.batch ?? '')],
    ['Behind by', (row) => row.behind === null ? '' : `${amount(row.behind)} batches`], ['Address', (row) => row.address]]),
  processes(app, '$SYS/workers', 'Workers', [
    ['Process', (row) => String(row.pid)],
    ['State', (row) => badge(row.ready ? 'ready' : 'not ready', row.ready)],
    ['Restarts', (row) => brief(row.restarts)]])]
  let kinds = null
  const look = async () => {
    ready()
    try {
      kinds ??= new Set((await app.rows.query('$SYS')).rows.map((row) => row.path))
    } catch { return } // asked again at the next look
    for (const { path, look: again } of beside) if (kinds.has(`/${path}/`)) again()
  }
  look()
  clear(main, h('div.row.head', {}, h('h1', {}, 'Server'), health), beside.map(({ node }) => node), cards,
    h('h2', {}, 'All figures'), find, box)
  const hear = ({ topic, value, kind, version }) => {
    if (!topic) return
    values.set(topic, value)
    const found = plots.get(topic)
    if (!found) return
    found.figure.textContent = amount(value)
    const number = numbersOf(value).value
    if (number !== undefined && kind !== 'snapshot') found.chart.push({ t: version / 1000, v: number })
  }
  await Promise.all([...plots].map(async ([topic, { chart }]) => {
    try {
      const { events } = await app.rows.history(topic, 'from=-15m&every=10s&fn=last&limit=200')
      chart.set(events.map((one) => ({ t: Date.parse(one.to), v: one.values.value?.last ?? 0 })), RANGE_MS)
    } catch {
      chart.set([], RANGE_MS)
    }
  }))
  const heard = app.rows.subscribe('$SYS/broker/#', hear, { onState: app.told })
  let beats = 0
  const beat = setInterval(() => {
    if (document.hidden) return
    if (++beats % HEALTH_BEATS === 0) look()
    table()
    for (const { chart } of plots.values()) chart.redraw()
  }, 1000)
  return () => { heard.close(); clearInterval(beat) }
}

/** A table of what runs beside this server; it is not there where nothing does. Gives `{ path, node, look }`. */
function processes(app, path, title, columns) {
  const box = h('div.tablebox')
  const node = section(title, box)
  node.hidden = true
  node.dataset.part = title.toLowerCase()
  const look = async () => {
    try {
      const { rows } = await app.rows.query(path)
      node.hidden = !rows.length
      clear(box, h('table', {}, h('thead', {}, h('tr', {}, columns.map(([name]) => h('th', {}, name)))),
        h('tbody', {}, rows.map((row) => h('tr', {}, columns.map(([, read]) => h('td', {}, read(row))))))))
    } catch { /* the connection's state says so */ }
  }
  return { path, node, look }
}
