/** Alarms that are not normal, what happened to alarms, and notifications that were not taken. */
import { ask } from './ask.js'
import { calmly, clear, confirmed, h, time, toast } from './dom.js'
import { brief, moment } from './text.js'
import { badge, note, refusal, rowsTable, section } from './rows.js'

export const ALARMS = '$SYS/alarms'
export const DELIVERIES = '$SYS/alarm_deliveries'
const TOPICS = '$alarms/#'
const SEVERITIES = ['critical', 'major', 'minor', 'warning']
const STATES = ['raised', 'acknowledged', 'pending', 'shelved', 'cleared'] // the most urgent first
const KEPT = 100
const DRAW_MS = 200
const DECLARE = '@alarm(name: "hot", when: "temp=gt=80", for: "30s", clear: "temp=lt=75", severity: "major")'

export function alarmsPage(app, main) {
  const parts = [['Not normal', alarms(app)]]
  if (app.reads(DELIVERIES)) parts.push(['Notifications not taken yet', deliveries(app)])
  const list = h('div', {}, note('Nothing yet.'))
  const heard = history(app, list)
  clear(main, h('h1', {}, 'Alarms'), parts.map(([title, table]) => section(title, table.node)),
    section('What happened', list))
  return () => { for (const [, table] of parts) table.end(); heard.close() }
}

const urgency = ({ state, severity }) => STATES.indexOf(state) * SEVERITIES.length + SEVERITIES.indexOf(severity)
const isBad = ({ severity }) => SEVERITIES.indexOf(severity) < SEVERITIES.indexOf('minor')
const at = (row) => `${ALARMS}/${row.id}`

function alarms(app) {
  const may = (state) => (row) => app.administers(`${ALARMS}/#`) && state(row)
  return rowsTable(app, ALARMS, {
    key: (row) => row.id,
    order: (one, other) => urgency(one) - urgency(other) || String(other.since).localeCompare(String(one.since)),
    columns: [['Alarm', (row) => h('b', {}, row.name)],
      ['Severity', (row) => badge(row.severity, isBad(row) ? false : undefined)],
      ['State', (row) => badge(row.flapping ? `${row.state}, flapping` : row.state,
        row.state === 'raised' ? false : row.state === 'cleared' ? true : undefined)],
      ['Record', (row) => topicLink(row.topic)], ['When', 'when'], ['Since', (row) => moment(row.since)],
      ['Until', (row) => moment(row.shelved_until)],
      ['By', (row) => (row.state === 'shelved' ? row.shelved_by : row.acknowledged_by)]],
    actions: [
      { label: 'Acknowledge', may: may(({ state }) => ['raised', 'cleared'].includes(state)), act: async (row) => {
        await app.rows.patch(at(row), { acknowledged: true })
        toast(`${row.id} is acknowledged`)
      } },
      { label: 'Shelve', may: may(({ state }) => ['raised', 'acknowledged'].includes(state)),
        act: (row) => shelve(app, row) },
      { label: 'Unshelve', may: may(({ state }) => state === 'shelved'), act: async (row) => {
        await app.rows.patch(at(row), { shelved_until: null })
        toast(`${row.id} is shelved no more`)
      } }],
    none: h('span', {}, 'Every alarm is normal. A table declares one in the schema: ', h('code', {}, DECLARE)),
  })
}

const shelve = (app, row) => ask(`Shelve ${row.id}`, [
  { name: 'time', label: 'For', value: '2h', required: true,
    help: 'A time such as 30m, 2h or 1d. Until then nobody is told of it; what its record says is followed.' },
], async ({ time: shelved }) => {
  await app.rows.patch(at(row), { shelved_for: shelved })
  toast(`${row.id} is shelved for ${shelved}`)
}, { action: 'Shelve' })

const topicLink = (topic) => h('a', { href: `#/topics/${encodeURIComponent(topic)}` }, topic)

/** What a webhook has not taken; a dead letter is sent again or discarded by hand. */
function deliveries(app) {
  const may = (row) => app.administers(`${DELIVERIES}/#`) && row.state === 'dead'
  const place = (row) => `${DELIVERIES}/${row.id}`
  return rowsTable(app, DELIVERIES, {
    key: (row) => row.id,
    columns: [['Notification', (row) => row.body.type], ['Alarm', (row) => row.body.data.id],
      ['Webhook', 'webhook'],
      ['State', (row) => badge(row.state, row.state === 'dead' ? false : undefined)], ['Calls', 'attempts'],
      ['Since', (row) => moment(row.created)]],
    below: (row) => row.problem,
    actions: [
      { label: 'Send again', may, act: (row) => app.rows.patch(place(row), { state: 'waiting' }) },
      { label: 'Discard', bad: true, may, act: async (row) => {
        if (await confirmed(`Discard the notification ${row.id}?`, 'Discard')) await app.rows.delete(place(row))
      } }],
    none: 'Every notification was taken.',
  })
}

/** The newest changes of alarms, as they happen. */
function history(app, box) {
  const kept = []
  const draw = calmly(() => clear(box, h('div.card', {}, h('ul.log', {}, kept.toReversed().map(line)))), DRAW_MS)
  return app.rows.subscribe(TOPICS, ({ value }) => {
    if (!value?.state) return
    kept.push(value)
    kept.splice(0, Math.max(0, kept.length - KEPT))
    draw()
  }, { last: KEPT, onState: (now, problem) => {
    if (now === 'refused') clear(box, note(refusal(problem)))
    else app.told(now)
  } })
}

const line = (value) => h('li', {}, time(Date.parse(value[`${value.state}_at`] ?? value.since)), h('span.kind', {}, value.state),
  h('span.body', {}, h('span.at', {}, value.id), ' ',
    brief([value.severity, value.when, value.state === 'acknowledged' && value.acknowledged_by,
      value.state === 'shelved' && `until ${moment(value.shelved_until)}`].filter(Boolean).join(' · '), 300)))
