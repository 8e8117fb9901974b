/** Undeclared topics: their branches, and the messages that are retained there. */
import { calmly, clear, command, confirmed, dialog, h, redraw, toast, trying } from './dom.js'
import { pathOf } from './rowcast.js'
import { actionsHead, fit, note, refusal, rowsTable, section } from './rows.js'
import { amount, brief, formatOf, moment, parsed, pretty } from './text.js'

const TABLES = '$SYS/topic_tables'
const RETAINED = '$SYS/retained'
const PAGE = 50
const NEWS_MS = 1000

export function messagesPage(app, main, [chosen]) {
  const retained = retainedList(app, chosen)
  const tables = rowsTable(app, TABLES, {
    key: (row) => row.name,
    every: 5000,
    columns: [['Branch', (row) => (row.level ? `${row.level}/…` : 'of one level')], ['Table', 'name'],
      ['Retained', (row) => amount(row.retained ?? 0)], ['Messages', (row) => amount(row.events ?? 0)],
      ['Bytes', (row) => amount(row.bytes ?? 0)],
      ['Exact subscribers', (row) => amount(row.subscription_count ?? 0)],
      ['Since', (row) => moment(row.created)]],
    actions: [
      { label: 'Retained', act: (row) => retained.show(row.level ? `${row.level}/#` : '+') },
      { label: 'History', act: (row) => { location.hash = `#/records/${encodeURIComponent(row.name)}` } },
    ],
    none: 'No branches yet: the first message at a topic that no table declares begins one.',
  })
  const delayed = rowsTable(app, '$SYS/delayed', {
    key: (row) => row.id,
    columns: [['Topic', (row) => h('b', {}, row.topic)], ['Due', (row) => moment(row.due)],
      ['What', 'kind'], ['Bytes', (row) => amount(row.payload_bytes ?? 0)], ['From', 'user']],
    actions: [{ label: 'Cancel', bad: true, may: () => app.may('administer'), act: async (row) => {
      if (!await confirmed(`Cancel what is due at ${row.topic}?`, 'Cancel it')) return
      await app.rows.delete(`$SYS/delayed/${row.id}`)
      toast('It is cancelled')
    } }],
    none: h('span', {}, 'Nothing waits for its time. Try: ',
      command(app.mosquitto('pub', "-q 1 -t '$delayed/3600/home/lamp' -r -m off"))),
  })
  clear(main, h('h1', {}, 'Messages'), h('p.soft', {}, 'What no table declares is a topic too. Each first',
    ' level is a table of its messages; the retained ones stay until they are cleared.'),
  section('Branches', tables.node), section('Retained messages', retained.node), section('Delayed', delayed.node))
  return () => { tables.end(); retained.end(); delayed.end() }
}

/** A page of the retained messages below a filter, again whenever one of them changes. */
function retainedList(app, chosen) {
  const state = { rows: [], pages: [], after: null, heard: null, problem: null, asked: 0 }
  const filter = h('input.wide.mono', { value: chosen || '#', 'aria-label': 'Filter of retained topics' })
  const search = h('input.wide', { placeholder: 'Payload has', type: 'search',
    'aria-label': 'What the payload has' })
  const box = h('div.tablebox')
  const before = h('button', { type: 'button', onclick: () => { state.after = state.pages.pop(); load() } },
    '‹ Before')
  const next = h('button', { type: 'button', onclick: () => {
    state.pages.push(state.after)
    state.after = state.rows.at(-1).cursor
    load()
  } }, 'Next ›')
  const clearAll = h('button.bad', { type: 'button', hidden: !app.may('administer'), onclick: () =>
    trying(() => clearBelow(filter.value)) }, 'Clear all of these')

  async function load() {
    const mine = ++state.asked
    const words = [`filter=${encodeURIComponent(filter.value.trim() || '#')}`,
      search.value && `payload=ct=${encodeURIComponent(search.value)}`, `limit(${PAGE})`,
      state.after && `after(${state.after})`].filter(Boolean)
    try {
      const { rows } = await app.rows.query(RETAINED, words.join('&'))
      if (mine === state.asked) Object.assign(state, { rows, problem: null })
    } catch (error) {
      if (mine === state.asked) state.problem = error
    }
    if (mine === state.asked) draw()
  }
  const later = calmly(load, NEWS_MS)

  function show(wanted) {
    if (wanted) {
      filter.value = wanted
      filter.scrollIntoView({ block: 'nearest' })
    }
    Object.assign(state, { pages: [], after: null })
    state.heard?.close()
    state.heard = app.rows.subscribe(filter.value.trim() || '#', ({ kind, topic }) => {
      if (topic && (kind === 'put' || kind === 'delete' || kind === 'patch')) later()
    }, { start: 'new', onState: (now, problem) => now !== 'refused' && app.told(now, problem) })
    load()
  }

  function draw() {
    before.disabled = !state.pages.length
    next.disabled = state.rows.length < PAGE
    clearAll.disabled = !state.rows.length
    if (state.problem) clear(box, note(refusal(state.problem)))
    else if (!state.rows.length) clear(box, none(app))
    else {
      const until = state.rows.some((row) => row.expires_at) // few are kept for a time only
      redraw(box, h('table.stacked', {}, h('thead', {}, h('tr', {}, ['Topic', 'Payload', 'Format', 'Bytes',
        'QoS', 'Since', ...(until ? ['Until'] : [])].map((name) => h('th', {}, name)), actionsHead())),
      h('tbody', {}, state.rows.map((row) => line(row, until)))))
      fit(box)
    }
  }

  function line(row, until) {
    const cells = [['Topic', h('b', {}, row.topic)], ['Payload', h('code', {}, brief(row.payload, 90))],
      ['Format', formatOf(row)], ['Bytes', amount(row.size)], ['QoS', String(row.qos)],
      ['Since', moment(row.timestamp)], ...(until ? [['Until', moment(row.expires_at)]] : [])]
    return h('tr', { 'data-row': row.topic }, cells.map(([name, value]) =>
      h('td', { 'data-label': name, 'data-none': value === '' }, value)),
    h('td.end', {},
      h('button', { type: 'button', 'aria-label': `Show ${row.topic}`, onclick: () =>
        trying(() => whole(app, row.topic)) }, 'Show'),
      h('button', { type: 'button', 'aria-label': `History of ${row.topic}`, onclick: () => {
        location.hash = `#/topics/${encodeURIComponent(row.topic)}`
      } }, 'History'),
      app.may('administer') ? h('button.bad', { type: 'button', 'aria-label': `Clear ${row.topic}`,
        onclick: () => trying(() => clearOne(row.topic)) }, 'Clear') : null))
  }

  async function clearOne(topic) {
    if (!await confirmed(`Clear what is retained at ${topic}?`, 'Clear')) return
    await app.rows.delete(`${RETAINED}/${topic}`)
    toast(`Nothing is retained at ${topic} any more`)
    load()
  }

  /** Say how many first: a filter selects more than a page shows. */
  async function clearBelow(text) {
    const post = async (body) => (await app.rows.request('POST', '/$SYS/retained/', {
      body: JSON.stringify(body), headers: { 'content-type': 'application/json' } })).json()
    const { count } = await post({ clear: text, dry_run: true })
    if (!await confirmed(`Clear ${count} retained messages at ${text}, shown or not?`, 'Clear')) return
    const done = await post({ clear: text })
    toast(`${done.count} cleared`)
    load()
  }

  const node = h('div', {}, h('form.row.head', { onsubmit: (event) => {
    event.preventDefault()
    show()
  } }, filter, search, h('button', { type: 'submit' }, 'Show'), clearAll), box,
  h('div.row.foot', {}, before, next))
  show()
  return { node, show, end: () => state.heard?.close() }
}

function none(app) {
  return note('Nothing is retained here. Try: ',
    command(app.mosquitto('pub', '-t home/kitchen/temperature -r -m 21.5')))
}

/** One message with its whole payload, in its format. */
async function whole(app, topic) {
  const row = await (await app.rows.request('GET', pathOf(`${RETAINED}/${topic}`))).json()
  dialog(topic, (box) => h('div', {},
    h('p.soft', {}, [formatOf(row), `${amount(row.size)} bytes`, `QoS ${row.qos}`,
      row.client && `from ${row.client}`, row.properties?.length && `with ${row.properties.join(', ')}`]
      .filter(Boolean).join(' · ')),
    h('pre', { 'data-part': 'payload' }, pretty(parsed(row.payload) ?? row.payload)),
    h('div.row', {}, h('span.grow'), h('button', { type: 'button', onclick: () => box.close() }, 'Close'))))
}
