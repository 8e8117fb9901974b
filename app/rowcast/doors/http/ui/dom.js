/** Small helpers: elements, toasts, copyable commands, dialogs. Text is never read as HTML. */
import { brief, plain, when } from './text.js'

/** Make an element: `h('a.quiet', { href }, 'text', child)`; `on...` are listeners. */
export function h(what, properties = {}, ...children) {
  const [tag, ...classes] = what.split('.')
  const node = document.createElement(tag)
  if (classes.length) node.className = classes.join(' ')
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value)
    else if (name in node && name !== 'list') node[name] = value
    else node.setAttribute(name, value === true ? '' : value)
  }
  node.append(...shown(children))
  return node
}

const shown = (children) =>
  children.flat(Infinity).filter((child) => child !== null && child !== undefined)

/** A moment as an element: readable here, exact for machines and for whoever points at it. */
export function time(ms) {
  const exact = new Date(ms).toISOString()
  return h('time', { dateTime: exact, title: exact }, when(ms))
}

export const clear = (node, ...children) => (node.replaceChildren(...shown(children)), node)

/** Draw something anew; who was at a button of it is at the same one again. */
export function redraw(box, ...children) {
  const name = (one) => (one.getAttribute('aria-label') || one.textContent).replace(/ [▲▼]$/, '')
  const held = box.contains(document.activeElement) ? name(document.activeElement) : null
  clear(box, ...children)
  if (held === null) return
  [...box.querySelectorAll('button')].find((one) => name(one) === held)?.focus({ preventScroll: true })
}

export function toast(text, bad = false) {
  const node = h(bad ? 'div.bad' : 'div', { role: bad ? 'alert' : 'status' }, text)
  document.getElementById('toasts').append(node)
  setTimeout(() => node.remove(), bad ? 8000 : 3500)
}

/** Do something that may be refused; say so in the server's own words. */
export async function trying(work) {
  try {
    return await work()
  } catch (error) {
    toast(error.message, true)
    return undefined
  }
}

/** A command to run, with a button that copies it. */
export function command(text) {
  const button = h('button', { type: 'button', onclick: async () => {
    try {
      await navigator.clipboard.writeText(text)
      button.textContent = 'Copied'
    } catch {
      getSelection().selectAllChildren(box.firstChild)
      button.textContent = 'Press Ctrl+C'
    }
    setTimeout(() => { button.textContent = 'Copy' }, 2000)
  } }, 'Copy')
  const box = h('div.copy', {}, h('pre', {}, text), button)
  return box
}

/** A dialog; `fill(dialog)` gives its content. It is gone when it is closed. */
export function dialog(title, fill) {
  const node = h('dialog', { 'aria-label': title, onclose: () => node.remove() })
  node.append(h('h1', {}, title), fill(node))
  document.body.append(node)
  node.showModal()
  return node
}

/** Names and what is known of them; what is not known is left out. */
export const facts = (told) => h('dl.facts', {}, Object.entries(told)
  .filter(([, one]) => one !== null && one !== undefined && one !== '').map(([name, one]) =>
    h('div', {}, h('dt', {}, name), h('dd', {}, typeof one === 'object' ? brief(one)
      : String(typeof one === 'number' ? plain(one) : one)))))

export function confirmed(question, action) {
  return new Promise((done) => {
    const box = dialog(question, (node) => h('div.row', {},
      h('span.grow'),
      h('button', { type: 'button', onclick: () => node.close() }, 'Cancel'),
      h('button.bad', { type: 'button', onclick: () => node.close('yes') }, action)))
    box.addEventListener('close', () => done(box.returnValue === 'yes'))
  })
}

/** Have something in a box drawn anew only while no pointer is down in it: else a click is lost. */
export function steady(box, paint) {
  const state = { down: false, due: false }
  const free = () => setTimeout(() => { // after the click
    state.down = false
    if (state.due) paint()
    state.due = false
  })
  box.addEventListener('pointerdown', () => {
    state.down = true
    for (const end of ['pointerup', 'pointercancel']) addEventListener(end, free, { once: true })
  })
  return () => (state.down ? state.due = true : paint())
}

/** Call at most once in so many milliseconds, the last time always. */
export function calmly(work, ms) {
  let timer = null
  return () => {
    timer ??= setTimeout(() => {
      timer = null
      requestAnimationFrame(work)
    }, ms)
  }
}
