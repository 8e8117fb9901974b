/** The past of a table on the page: as of a moment, and played from there as if it were live. */
import { h, toast } from './dom.js'
import { clock, day, when } from './text.js'

const SPANS = [['last hour', 3_600_000], ['last day', 86_400_000], ['last week', 604_800_000]]
const SPEEDS = [1, 10, 60, 600]
const STEPS = 1000 // of the slider; the last one is now
const ID = { begin: 1, change: 2 }

/**
 * A bar with a slider. `show(moment)` has the table shown as of an ISO time, null being now, and
 * `hear(event)` takes what is played. Gives `{ node, end }`.
 */
export function timeBar(app, filter, { show, hear }) {
  const state = { at: null, socket: null, replay: null, playing: false }
  const span = h('select', { 'aria-label': 'Span of the slider', onchange: () => draw() },
    SPANS.map(([name], index) => h('option', { value: String(index), selected: index === 1 }, name)))
  const slider = h('input.wide', { type: 'range', min: 0, max: STEPS, value: STEPS,
    'aria-label': 'Moment', oninput: () => { label.textContent = when(sought()) },
    onchange: () => go(Number(slider.value) === STEPS ? null : sought()) })
  const exact = h('input', { type: 'datetime-local', step: 1, 'aria-label': 'As of',
    onchange: () => { if (exact.value) go(new Date(exact.value).getTime()) } })
  const label = h('span.soft', { role: 'status', 'data-part': 'moment' })
  const speed = h('select', { 'aria-label': 'Speed', onchange: () => tell('speed', { speed: Number(speed.value) }) },
    SPEEDS.map((times) => h('option', { value: String(times), selected: times === 10 }, `${times}×`)))
  const play = h('button', { type: 'button', onclick: () => (state.playing ? pause() : resume()) }, 'Play')
  const live = h('button', { type: 'button', onclick: () => go(null) }, 'Now')

  const length = () => SPANS[Number(span.value)][1]
  const sought = () => Date.now() - length() * (1 - Number(slider.value) / STEPS)

  /** Show another moment; what plays goes on there. */
  function go(ms) {
    state.at = ms === null || ms >= Date.now() ? null : ms
    if (state.at === null) stop()
    else if (state.replay !== null) tell('seek', { at: new Date(state.at).toISOString() })
    show(state.at === null ? null : new Date(state.at).toISOString())
    draw()
  }

  function draw() {
    const { at } = state
    play.disabled = live.disabled = speed.disabled = at === null
    play.textContent = state.playing ? 'Pause' : 'Play'
    label.textContent = at === null ? 'as it is now' : when(at)
    slider.value = at === null ? STEPS : Math.max(0, Math.min(STEPS - 1,
      Math.round(STEPS * (1 - (Date.now() - at) / length()))))
    exact.value = at === null ? '' : `${day(at)}T${clock(at)}`
  }

  // -- playing --------------------------------------------------------------------------------------

  function resume() {
    state.playing = true
    if (state.replay !== null) tell('resume')
    else if (state.socket === null) begin()
    draw()
  }

  function pause() {
    state.playing = false
    tell('pause')
    draw()
  }

  /** Say something of the replay, once it has begun. */
  function tell(op, words = {}) {
    if (state.replay === null) return
    state.socket.send(JSON.stringify({ id: ID.change, op, replay: state.replay, ...words }))
  }

  function begin() {
    const socket = new WebSocket(`${app.rows.url.replace(/^http/, 'ws')}/`)
    state.socket = socket
    socket.onopen = () => socket.send(JSON.stringify({ id: ID.begin, op: 'replay', topic: filter,
      from: new Date(state.at).toISOString(), speed: Number(speed.value) }))
    socket.onmessage = ({ data }) => take(JSON.parse(data))
    socket.onclose = () => {
      if (state.socket !== socket) return
      stop()
      draw()
    }
  }

  function take(message) {
    if (message.error) {
      toast(message.error.detail || message.error.title, true)
      stop()
    } else if (message.ack === ID.begin) {
      state.replay = message.replay
      if (!state.playing) tell('pause')
      return
    } else if (message.kind === 'end') {
      toast(message.value?.code ? message.value.reason : 'All that happened since is played: this is now')
      go(null)
      return
    } else if (message.topic && message.kind !== 'snapshot') {
      state.at = message.version / 1000
      hear(message)
    } else return
    draw()
  }

  function stop() {
    const { socket } = state
    Object.assign(state, { socket: null, replay: null, playing: false })
    socket?.close()
  }

  draw()
  return { node: h('details.past', {}, h('summary', {}, 'Time: ', label),
    h('div.row', {}, span, slider, exact, speed, play, live)), end: stop }
}
