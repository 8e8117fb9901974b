/** Tables as tables: browse, filter, sort, page, edit, delete; what changes on the screen is lit. */
import { calmly, clear, command, confirmed, h, redraw, steady, toast, trying } from './dom.js'
import { actionsHead, fit } from './rows.js'
import { keyOf } from './shape.js'
import { amount, cellText, gapText } from './text.js'
import { editRecord } from './form.js'
import { timeBar } from './past.js'

const PAGE = 50
const COLUMNS_MAX = 14
const OPERATORS = { 'is': '==', 'is not': '!=', 'over': '=gt=', 'at least': '=ge=', 'under': '=lt=',
  'at most': '=le=', 'has': '=ct=', 'begins': '=sw=', 'ends': '=ew=' }
const LIT_MS = 1200

export async function recordsPage(app, main, [chosen]) {
  const tables = await app.tables()
  const own = tables.filter((name) => !name.startsWith('mqtt_'))
  const table = chosen || own[0] || tables[0]
  if (!table) {
    clear(main, h('h1', {}, 'No tables yet'), h('p', {}, 'Declare one in schema.graphql, and start',
      ' the server again:'), command('type Dog @table @export {\n  id: ID @primaryKey\n  name: String!\n}'))
    return undefined
  }
  const picker = h('select', { 'aria-label': 'Table', onchange: () => {
    location.hash = `#/records/${encodeURIComponent(picker.value)}`
  } }, tables.map((name) => h('option', { value: name, selected: name === table }, name)))
  return showTable(app, main, table, picker)
}

async function showTable(app, main, table, picker) {
  const schema = (await app.schemas())[table] || {}
  const kept = schema.readOnly ? 'kept by the server: read only' : 'rows of the log: read only'
  const mayNot = table.startsWith('mqtt_') || schema.readOnly || !app.may('write')
  const state = { conditions: '', sort: '', page: null, pages: [], rows: [], other: 0, asof: null }
  const isFixed = () => mayNot || state.asof !== null
  const lit = new Map()
  const columns = Object.keys(schema.properties || {})
  const box = h('div.tablebox.sideways')
  const about = h('span.soft', { role: 'status' })
  const changed = h('button', { type: 'button', hidden: true, onclick: () => load() })
  const column = h('select', { 'aria-label': 'Column' })
  const operator = h('select', { 'aria-label': 'Comparison' },
    Object.keys(OPERATORS).map((name) => h('option', {}, name)))
  const order = h('select', { 'aria-label': 'Order', onchange: () => { state.sort = order.value; first() } })
  const wanted = h('input.wide', { placeholder: 'value', 'aria-label': 'Value to compare with' })
  const text = h('input.wide.mono', { placeholder: 'conditions: breed==collie&age=gt=3',
    'aria-label': 'Conditions' })
  const before = h('button', { type: 'button', onclick: () => { state.page = state.pages.pop(); load() } },
    '‹ Before')
  const next = h('button', { type: 'button', onclick: () => {
    state.pages.push(state.page)
    state.page = state.next
    load()
  } }, 'Next ›')

  const query = () => state.page ||
    [state.conditions, state.sort && `sort(${state.sort})`, `limit(${PAGE})`, past() || 'meta=true']
      .filter(Boolean).join('&')
  const past = () => state.asof && `asof=${encodeURIComponent(state.asof)}`

  async function load() {
    const answer = await trying(() => app.rows.query(table, query()))
    if (!answer) return
    Object.assign(state, { rows: answer.rows, next: answer.next, other: 0, at: answer.position })
    draw()
    count()
  }

  async function count() {
    const words = [state.conditions, 'count', past()].filter(Boolean).join('&')
    try {
      const { rows } = await app.rows.query(table, words)
      about.textContent = `${amount(rows.count)} record${rows.count === 1 ? '' : 's'}`
    } catch {
      about.textContent = ''
    }
  }

  const draw = () => {
    for (const row of state.rows) {
      if (row && typeof row === 'object') {
        for (const name of Object.keys(row)) {
          if (!name.startsWith('_') && !columns.includes(name) && columns.length < 40) columns.push(name)
        }
      }
    }
    const shown = columns.slice(0, COLUMNS_MAX)
    if (column.options.length !== columns.length) {
      clear(column, columns.map((name) => h('option', {}, name)))
    }
    orders()
    before.disabled = !state.pages.length
    next.disabled = !state.next
    changed.hidden = !state.other
    changed.textContent = `${amount(state.other)} more change${state.other === 1 ? '' : 's'}: show`
    if (!state.rows.length) {
      clear(box, empty())
      return
    }
    const now = performance.now()
    redraw(box, h('table.stacked.sorted', {}, h('thead', {}, h('tr', {}, isFixed() ? null : actionsHead(),
      shown.map((name) => head(name)))),
    h('tbody', {}, state.rows.map((row) => line(row, shown, now)))))
    fit(box, true)
    if (lit.size) setTimeout(fade, LIT_MS)
  }
  const later = calmly(steady(box, draw), 200)

  function fade() {
    lit.clear()
    for (const node of box.querySelectorAll('.fresh')) node.classList.remove('fresh')
  }

  /** On a phone there are no heads of columns to press. */
  function orders() {
    const words = ['', ...columns.flatMap((name) => [`+${name}`, `-${name}`])]
    if (order.options.length !== words.length) {
      clear(order, words.map((word) => h('option', { value: word },
        word ? `${word.slice(1)} ${word[0] === '+' ? '▲' : '▼'}` : 'their keys')))
    }
    order.value = state.sort
  }

  function head(name) {
    const way = state.sort === `+${name}` ? ' ▲' : state.sort === `-${name}` ? ' ▼' : ''
    return h('th', { 'aria-sort': way ? (way === ' ▲' ? 'ascending' : 'descending') : undefined },
      h('button', { type: 'button', onclick: () => {
        state.sort = state.sort === `+${name}` ? `-${name}` : `+${name}`
        first()
      } }, name + way))
  }

  function line(row, shown, now) {
    const topic = topicOf(row)
    const edit = () => editRecord(app, topic).then((node) => node?.addEventListener('close', load))
    const button = (kind, sign, word, label, act) => h(kind, { type: 'button', title: word,
      'aria-label': `${label} ${topic}`, onclick: (event) => {
        event.stopPropagation()
        act()
      } }, h('span', { 'aria-hidden': 'true' }, sign), h('span.word', {}, ` ${word}`))
    const fixed = isFixed()
    const node = h(fixed ? 'tr' : 'tr.may', { onclick: fixed ? undefined : edit,
      'data-topic': topic },
    fixed ? null : h('td.end', {},
      button('button', '↺', 'History', 'History of', () => {
        location.hash = `#/topics/${encodeURIComponent(topic)}`
      }),
      button('button', '✎', 'Edit', 'Edit', edit),
      button('button.bad', '✕', 'Delete', 'Delete', () => remove(row, topic))),
    shown.map((name) => h(typeof row[name] === 'number' ? 'td.num' : 'td',
      { title: exactly(row[name]), 'data-label': name,
        'data-none': row[name] === undefined || row[name] === null }, cellText(row[name]))))
    if (now - (lit.get(topic) ?? -1e9) < LIT_MS) node.classList.add('fresh')
    return node
  }

  const key = keyOf(schema)
  function topicOf(row) {
    const id = row._topic?.slice(table.length + 1) ?? row[key] ?? Object.values(row)[0]
    return `${table}/${id}`
  }

  async function remove(row, topic) {
    if (!await confirmed(`Delete ${topic}?`, 'Delete')) return
    await trying(async () => {
      const ifMatch = row._seq ? `${row._origin}:${row._seq}` : undefined
      await app.rows.delete(topic, { ifMatch })
      toast(`${topic} is deleted`)
    })
    load()
  }

  function hear(event) {
    if (state.asof !== null && !event.replay) return // the present is read again when one is back
    if (event.kind === 'gap') toast(`${gapText(event)}; the table is read again`)
    if (event.kind === 'gap' || event.kind === 'reset') load()
    if (!event.topic) return
    const at = state.rows.findIndex((row) => topicOf(row) === event.topic)
    if (at < 0) state.other += event.kind === 'message' ? 0 : 1
    else if (event.kind === 'delete') state.rows.splice(at, 1)
    else if (event.kind === 'put' || event.kind === 'patch') {
      const [origin, seq] = event.cursor.split(':')
      state.rows[at] = { ...event.value, ...(event.replay ? {} : { _origin: origin, _seq: +seq }) }
      lit.set(event.topic, performance.now())
    }
    later()
  }

  function first() {
    Object.assign(state, { page: null, pages: [], conditions: text.value.trim() })
    load()
  }

  function empty() {
    const node = h('div', {}, h('h2', {}, state.conditions ? 'No record is like that' : 'No records yet'),
      state.conditions || isFixed() ? null : h('p', {}, 'Make one with “New record”, or from a terminal:'),
      state.conditions || isFixed() ? null : command(app.curl(
        `-X PUT ${app.rows.url}/${table}/1 -H 'Content-Type: application/json' \\\n` +
        `  -d '${JSON.stringify(example(schema))}'`)))
    node.style.padding = '4px 16px 12px'
    return node
  }

  const builder = h('form.row', { onsubmit: (event) => {
    event.preventDefault()
    if (wanted.value) {
      const one = `${column.value}${OPERATORS[operator.value]}${encodeURIComponent(wanted.value)}`
      text.value = [text.value.trim(), one].filter(Boolean).join('&')
      wanted.value = ''
    }
    first()
  } }, column, operator, wanted, h('button', { type: 'submit' }, 'Filter'))
  const raw = h('form.row', { onsubmit: (event) => { event.preventDefault(); first() } }, text,
    h('button', { type: 'button', onclick: () => { text.value = ''; first() } }, 'All'))
  const ordering = h('label.row.ordering', {}, h('span', {}, 'In the order of'), order)
  const time = timeBar(app, `${table}/#`, { hear, show: (moment) => {
    Object.assign(state, { asof: moment, page: null, pages: [] })
    load()
  } })
  clear(main, h('div.row.head', {}, h('h1', {}, 'Records'), picker, about, h('span.grow'), changed,
    mayNot ? h('span.badge', {}, app.may('write') ? kept : 'You may only read')
      : h('button.main', { type: 'button', onclick: async () => {
        const node = await editRecord(app, `${table}/`, { fresh: true })
        node?.addEventListener('close', load)
      } }, 'New record')),
  time.node, builder, raw, ordering, box, h('div.row', {}, before, next))
  for (const node of [time.node, builder, raw, ordering, box]) node.style.marginBottom = '10px'
  await load()
  const begin = state.at ? { since: state.at } : { start: 'new' } // what changed since it was read
  const heard = app.rows.subscribe(`${table}/#`, hear, { ...begin, onState: app.told })
  return () => { heard.close(); time.end() }
}

/** A value with all its digits, for whoever points at it. */
const exactly = (value) =>
  (typeof value === 'string' ? value : JSON.stringify(value) ?? '').slice(0, 400)

function example(schema) {
  const made = {}
  for (const name of schema.required || []) {
    const { type, format } = schema.properties?.[name] || {}
    const kind = [type].flat()[0]
    made[name] = kind === 'integer' || kind === 'number' ? 1 : kind === 'boolean' ? true
      : format === 'date-time' ? new Date().toISOString() : 'Rex'
  }
  return Object.keys(made).length ? made : { hello: 'world' }
}
