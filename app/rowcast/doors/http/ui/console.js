/** Publish and subscribe: what an operator tries by hand. */
import { calmly, clear, h, time, trying } from './dom.js'
import { amount, brief, gapText, when } from './text.js'

const KEPT = 500 // messages; older ones fall out of the list
const DRAW_MS = 200
const kept = { filter: '#', topic: 'home/kitchen/temperature', payload: '21.5' }

export function consolePage(app, main) {
  const state = { heard: null, messages: [], total: 0, missed: 0, paused: false }
  const filter = h('input.wide.mono', { value: kept.filter, 'aria-label': 'Filter' })
  const list = h('ul.log', { 'aria-label': 'Messages' })
  const counts = h('span.soft', { role: 'status' })
  const toggle = h('button.main', { type: 'submit' }, 'Subscribe')
  const pause = h('button', { type: 'button', 'aria-pressed': 'false', onclick: () => {
    state.paused = !state.paused
    pause.setAttribute('aria-pressed', String(state.paused))
    draw()
  } }, 'Pause')

  const draw = calmly(() => {
    counts.textContent = state.total || state.heard ? `${amount(state.total)} heard` +
      (state.missed ? `, ${amount(state.missed)} not passed on` : '') : ''
    if (!state.paused) clear(list, state.messages.toReversed().map(line))
  }, DRAW_MS)

  function hear(event) {
    if (event.kind === 'gap') state.missed += event.gap.count || 0
    state.total += event.topic ? 1 : 0
    state.messages.push({ ...event, at: Date.now() })
    if (state.messages.length > KEPT) state.messages.splice(0, state.messages.length - KEPT)
    draw()
  }

  function listen() {
    state.heard?.close()
    Object.assign(state, { messages: [], total: 0, missed: 0 })
    kept.filter = filter.value
    state.heard = app.rows.subscribe(filter.value, hear, { onState: (now, problem) => {
      app.told(now, problem)
      toggle.textContent = now === 'refused' ? 'Subscribe' : 'Stop'
      if (now === 'refused') state.heard = null
    } })
    draw()
  }

  function stop() {
    state.heard.close()
    state.heard = null
    toggle.textContent = 'Subscribe'
    draw()
  }

  const topic = h('input.mono', { id: 'topic', value: kept.topic })
  const payload = h('textarea', { id: 'payload', rows: 4 })
  payload.value = kept.payload
  const retain = h('input', { type: 'checkbox', id: 'retain' })
  const publish = h('form.card', { onsubmit: async (event) => {
    event.preventDefault()
    Object.assign(kept, { topic: topic.value, payload: payload.value })
    const done = await trying(() => app.send(topic.value, payload.value, retain.checked))
    if (done) told.textContent = `sent at ${when(Date.now())}${done.cursor ? `, position ${done.cursor}` : ''}`
  } }, h('h1', {}, 'Publish'),
  h('div.field', {}, h('label', { htmlFor: 'topic' }, 'Topic'), topic),
  h('div.field', {}, h('label', { htmlFor: 'payload' }, 'Payload', h('span.soft', {}, '  JSON or text')),
    payload),
  h('div.field.row', {}, retain, h('label', { htmlFor: 'retain' }, 'Retain: make it the record')),
  h('button.main', { type: 'submit' }, 'Publish'))
  const told = h('span.soft', { role: 'status' })
  publish.append(' ', told)
  const subscribe = h('section.card', {}, h('h1', {}, 'Subscribe'),
    h('form.row', { onsubmit: (event) => {
      event.preventDefault()
      if (state.heard && kept.filter === filter.value) stop()
      else listen()
    } }, filter, toggle, pause,
    h('button', { type: 'button', onclick: () => { state.messages = []; draw() } }, 'Clear')),
    h('p.soft', {}, '+ stands for one level, # for all below; $SYS/# is the server itself. ', counts), list)
  clear(main, h('div.cards', {}, app.may('write') ? publish
    : h('section.card', {}, h('h1', {}, 'Publish'), h('p', {}, 'You may only read.')), subscribe))
  main.firstChild.style.gridTemplateColumns = 'repeat(auto-fit, minmax(min(100%, 340px), 1fr))'
  main.firstChild.style.alignItems = 'start'
  return () => state.heard?.close()
}

function line(event) {
  const said = event.kind === 'gap' ? gapText(event)
    : brief(event.value, 500)
  return h('li', {}, time(event.at), h('span.kind', {}, event.kind),
    h('span.body', {}, h('span.at', {}, event.topic || ''), ' ', said))
}
