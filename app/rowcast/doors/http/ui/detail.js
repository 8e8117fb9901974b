/** One topic: its value, its history as a plot and as a list, live; edit, publish, delete. */
import { calmly, clear, command, confirmed, h, time, toast, trying } from './dom.js'
import { brief, gapText, pretty, quoted, spelled, when } from './text.js'
import { numbersOf, plot } from './plot.js'
import { editRecord } from './form.js'

const RANGES = { '5 min': ['5m', '5s', 300_000], '1 h': ['1h', '20s', 3_600_000],
  '24 h': ['24h', '5m', 86_400_000], '7 d': ['7d', '1h', 604_800_000] }
const BUCKETS_MAX = 1000 // asked for at once
const EVENTS_SHOWN = 60
const DRAW_MS = 250

/** Show a topic in a box; gives a function that ends it. */
export function showTopic(app, box, topic, { onClose } = {}) {
  const state = { value: undefined, type: '', cursor: null, events: [], field: null, range: '1 h' }
  const value = h('pre', { 'data-part': 'value' })
  const about = h('p.soft')
  const chart = plot(190, `${topic} over time`)
  const fields = h('div.chips', { role: 'group', 'aria-label': 'What is plotted' })
  const ranges = h('div.chips', { role: 'group', 'aria-label': 'How far back' })
  const list = h('ul.log')
  const plots = h('div', { hidden: true }, h('div.row', {}, ranges, h('span.grow'), fields), chart.node)
  const editing = h('button', { type: 'button', onclick: () => editRecord(app, topic) }, 'Edit')
  const deleting = h('button.bad', { type: 'button', onclick: () => remove(app, topic) }, 'Delete')
  let asked = 0

  const draw = calmly(() => {
    value.textContent = state.value === undefined ? 'No record: nothing is retained here.'
      : pretty(state.value)
    editing.textContent = state.value === undefined ? 'Make a record' : 'Edit'
    deleting.hidden = state.value === undefined
    about.textContent = state.at ? `${state.kind} at ${when(state.at)}` : ''
    clear(list, state.events.slice(-EVENTS_SHOWN).reverse().map((event) => line(event)))
    const names = Object.keys({ ...numbersOf(state.value), ...state.names })
    plots.hidden = !names.length
    if (names.length && !names.includes(state.field)) {
      state.field = names[0]
      load()
    }
    clear(fields, names.length < 2 ? [] : names.slice(0, 24).map((name) => h('button', {
      type: 'button', 'aria-pressed': String(name === state.field),
      onclick: () => { state.field = name; load(); draw() },
    }, name)))
    clear(ranges, Object.keys(RANGES).map((name) => h('button', {
      type: 'button', 'aria-pressed': String(name === state.range),
      onclick: () => { Object.assign(state, { range: name, chosen: true }); load(); draw() },
    }, name)))
  }, DRAW_MS)

  async function load() {
    const mine = ++asked
    const [back, every, length] = RANGES[state.range]
    const words = `from=-${back}&every=${every}&fn=avg,min,max&limit=${BUCKETS_MAX}`
    const select = state.field === 'value' ? '' : `&select=${encodeURIComponent(state.field)}`
    const field = state.field
    const answer = await trying(() => app.rows.history(topic, words + select))
    if (!answer || mine !== asked) return
    const now = Date.now()
    const points = answer.events.filter((one) => one.values[field]).map((one) => {
      const { avg, min, max } = one.values[field]
      const middle = (Date.parse(one.from) + Date.parse(one.to)) / 2
      return { t: Math.min(middle, now), v: avg, min, max } // the last stretch is not over yet
    })
    chart.set(points, length)
  }

  /** Of what was not passed on, the newest value is at the record. */
  async function again() {
    try {
      state.value = (await app.rows.get(topic)).value
    } catch (error) {
      if (error.status === 404) state.value = undefined
    }
    draw()
  }

  async function past() {
    try {
      const { events } = await app.rows.history(topic, `last=${EVENTS_SHOWN}`)
      const known = new Set(state.events.map((event) => event.seq))
      const older = events.map((one) => ({
        seq: one._seq, kind: one._op, value: one.value, at: one._ts, who: one._client }))
      state.events = [...older.filter((one) => !known.has(one.seq)), ...state.events]
      for (const one of older) state.names = { ...state.names, ...numbersOf(one.value) }
      const age = Date.now() - (older[0]?.at ?? 0)
      if (!state.chosen) {
        state.range = Object.keys(RANGES).find((name) => RANGES[name][2] > age) ?? state.range
        if (state.field) load()
      }
      const last = older.at(-1)
      if (last && !state.at) Object.assign(state, { at: last.at, kind: last.kind })
      draw()
    } catch (error) {
      if (error.status !== 404) toast(error.message, true)
    }
  }

  function hear(event) {
    if (event.kind === 'gap') {
      state.events.push({ seq: null, kind: 'gap', value: gapText(event), at: Date.now() })
      again()
    }
    if (!event.topic) return
    const at = event.version ? event.version / 1000 : Date.now()
    if (event.kind === 'delete') state.value = undefined
    else if (event.kind !== 'message') state.value = event.value
    if (event.kind !== 'snapshot') {
      const seq = event.cursor ? +event.cursor.split(':')[1] : null
      state.events.push({ seq, kind: event.kind, value: event.value, at })
      state.events.splice(0, Math.max(0, state.events.length - 4 * EVENTS_SHOWN))
      state.names = { ...state.names, ...numbersOf(event.value) }
      const number = numbersOf(event.value)[state.field]
      if (number !== undefined) chart.push({ t: at, v: number })
    }
    Object.assign(state, { at, kind: event.kind === 'snapshot' ? 'written' : event.kind })
    draw()
  }

  const writes = app.may('write') && !/^(\$|mqtt_)/.test(topic)
  const payload = h('input.wide', { placeholder: 'Say something here', 'aria-label': 'Message' })
  const say = h('form.row', { onsubmit: async (event) => {
    event.preventDefault()
    if (await trying(() => app.send(topic, payload.value, false))) payload.value = ''
  } }, payload, h('button', { type: 'submit' }, 'Publish'))

  clear(box,
    h('div.row', {},
      h('button.back', { type: 'button', onclick: onClose, 'aria-label': 'Back to the tree' }, '‹ Back'),
      h('h1.wide', { 'data-part': 'topic' }, topic)),
    about, value,
    writes ? h('div.row', {}, editing, deleting) : null,
    h('h2', {}, 'Over time'),
    h('p.soft', {}, 'Numbers are drawn as they come; the past is read from the log.'),
    plots, h('h2', {}, 'What happened'), writes ? say : null, list,
    h('h2', {}, 'From a terminal'),
    command(app.curl(quoted(`${app.rows.url}${spelled(topic)}?last=10`))),
    command(app.mosquitto('sub', `-v -t ${quoted(topic)}`)))
  draw()
  past()
  const heard = app.rows.subscribe(topic, hear, {
    onState: (now, problem) => problem && toast(problem.message, true),
  })
  const beat = setInterval(() => document.hidden || chart.redraw(), 1000)
  return () => { heard.close(); clearInterval(beat) }
}

function line({ at, kind, value, who }) {
  return h('li', {}, time(at), h('span.kind', { title: who || '' }, kind),
    h('span.body', {}, brief(value, 300)))
}

async function remove(app, topic) {
  if (!await confirmed(`Delete the record ${topic}?`, 'Delete')) return
  await trying(async () => {
    await app.rows.delete(topic)
    toast(`${topic} is deleted; its history stays in the log`)
  })
}
