/** A plot of numbers over time: a line of means in a band from least to greatest. */
import { h } from './dom.js'
import { amount, clock, day, when, zone } from './text.js'

const POINTS_MAX = 2000 // of one plot; older ones fall off
const LEFT = 52
const BOTTOM = 22
const TOP = 8

/** `steps`: a number holds until the next. `plot.set(points, range)`, `plot.push(point)`; a point is `{ t, v, min, max }`. */
export function plot(height = 180, label = 'Numbers over time', steps = false) {
  const canvas = h('canvas', { role: 'img', 'aria-label': label, tabIndex: 0 })
  canvas.style.height = `${height}px`
  const state = { points: [], range: 3_600_000, at: null, due: false, steps }
  const draw = () => {
    state.due = false
    if (canvas.isConnected) paint(canvas, state, height)
  }
  const later = () => {
    if (!state.due) requestAnimationFrame(draw)
    state.due = true
  }
  canvas.addEventListener('pointermove', ({ offsetX }) => { state.at = offsetX; later() })
  canvas.addEventListener('pointerleave', () => { state.at = null; later() })
  canvas.addEventListener('keydown', (event) => {
    const step = { ArrowLeft: -12, ArrowRight: 12 }[event.key]
    if (!step) return
    state.at = Math.max(LEFT, Math.min(canvas.clientWidth, (state.at ?? LEFT) + step))
    event.preventDefault()
    later()
  })
  new ResizeObserver(later).observe(canvas)
  return {
    node: canvas,
    redraw: later,
    get count() { return state.points.length },
    set(points, range) {
      Object.assign(state, { points: points.slice(-POINTS_MAX), range })
      later()
    },
    push(point) {
      state.points.push(point)
      if (state.points.length > POINTS_MAX) state.points.splice(0, POINTS_MAX / 10)
      later()
    },
  }
}

function paint(canvas, { points, range, at, steps }, height) {
  const width = canvas.clientWidth
  const ratio = devicePixelRatio || 1
  canvas.width = width * ratio
  canvas.height = height * ratio
  const pen = canvas.getContext('2d')
  pen.scale(ratio, ratio)
  const style = getComputedStyle(canvas)
  const colour = (name) => style.getPropertyValue(name).trim()
  pen.font = '12px system-ui, sans-serif'
  const to = Math.max(Date.now(), points.at(-1)?.t ?? 0)
  const from = to - range
  const seen = points.filter((point) => point.t >= from)
  pen.fillStyle = colour('--soft')
  if (!seen.length) {
    pen.fillText('Nothing in this time yet', LEFT, height / 2)
    return
  }
  const [low, high] = bounds(seen)
  const x = (t) => LEFT + ((t - from) / range) * (width - LEFT - 8)
  const y = (v) => TOP + (1 - (v - low) / (high - low)) * (height - TOP - BOTTOM)
  axes(pen, { low, high, from, to, x, y, width, height, line: colour('--line') })
  pen.fillStyle = colour('--band')
  pen.beginPath()
  for (const point of seen) pen.lineTo(x(point.t), y(point.max ?? point.v))
  for (const point of seen.toReversed()) pen.lineTo(x(point.t), y(point.min ?? point.v))
  pen.fill()
  pen.strokeStyle = pen.fillStyle = colour('--plot')
  pen.lineWidth = 1.8
  pen.lineJoin = 'round'
  pen.beginPath()
  seen.forEach((point, index) => {
    if (steps && index) pen.lineTo(x(point.t), y(seen[index - 1].v)) // it was so until then
    pen.lineTo(x(point.t), y(point.v))
  })
  if (steps) pen.lineTo(x(to), y(seen.at(-1).v))
  pen.stroke()
  if (seen.length < 60) {
    for (const point of seen) {
      pen.beginPath()
      pen.arc(x(point.t), y(point.v), 2.4, 0, 7)
      pen.fill()
    }
  }
  if (at !== null) point(pen, seen, at, { x, y, width, ink: colour('--ink'), card: colour('--card') })
}

function bounds(seen) {
  let low = Infinity
  let high = -Infinity
  for (const { v, min = v, max = v } of seen) {
    low = Math.min(low, min)
    high = Math.max(high, max)
  }
  const air = (high - low) * 0.06 || Math.abs(high) * 0.05 || 1
  return [low >= 0 && low - air < 0 ? 0 : low - air, high + air]
}

function axes(pen, { low, high, from, to, x, y, width, height, line }) {
  pen.strokeStyle = line
  pen.lineWidth = 1
  pen.textAlign = 'right'
  for (let part = 0; part <= 2; part += 1) {
    const v = low + ((high - low) * part) / 2
    pen.beginPath()
    pen.moveTo(LEFT, y(v))
    pen.lineTo(width - 8, y(v))
    pen.stroke()
    pen.fillText(amount(v), LEFT - 6, y(v) + 4)
  }
  pen.textAlign = 'left'
  pen.fillText(`${day(from)} ${clock(from).slice(0, 5)}`, LEFT, height - 5)
  pen.textAlign = 'right'
  pen.fillText(`${clock(to)} ${zone(to)}`, x(to), height - 5)
  pen.textAlign = 'left'
}

function point(pen, seen, at, { x, y, width, ink, card }) {
  const near = seen.reduce((best, one) =>
    Math.abs(x(one.t) - at) < Math.abs(x(best.t) - at) ? one : best)
  const text = `${amount(near.v)}  ${when(near.t)}`
  const wide = pen.measureText(text).width + 14
  const left = Math.min(Math.max(x(near.t) - wide / 2, LEFT), width - wide - 4)
  pen.fillStyle = ink
  pen.fillRect(left, 0, wide, 20)
  pen.fillStyle = card
  pen.fillText(text, left + 7, 14)
  pen.fillStyle = ink
  pen.beginPath()
  pen.arc(x(near.t), y(near.v), 4, 0, 7)
  pen.fill()
}

/** The numbers in a value by name: `value` for one that is a number itself. */
export function numbersOf(value) {
  if (typeof value === 'number') return { value }
  if (typeof value === 'string') {
    return value.trim() !== '' && Number.isFinite(+value) ? { value: +value } : {}
  }
  const found = {}
  if (value && typeof value === 'object' && !Array.isArray(value)) {
    for (const [name, one] of Object.entries(value)) {
      if (typeof one === 'number') found[name] = one
    }
  }
  return found
}
