/** Small helpers: elements, texts, toasts, copyable commands. Text is never read as HTML. */

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

export const clear = (node, ...children) => (node.replaceChildren(...shown(children)), node)

const HEX_BYTES = 16 // of bytes on one line

/** Bytes that are no text as their numbers; anything else as JSON. */
function written(value, most, spaces) {
  if (typeof value === 'string') return value
  const bytes = value?.$bytes !== undefined ? atob(value.$bytes) : null
  if (bytes === null) return JSON.stringify(value, null, spaces)
  const hex = [...bytes.slice(0, most)].map((one) => one.charCodeAt(0).toString(16).padStart(2, '0'))
  return `${hex.join(' ')}${bytes.length > most ? ` … (${bytes.length} bytes)` : ''}`
}

/** A value on one line; long ones are cut, for what is drawn is bounded. */
export function brief(value, most = 160) {
  if (value === undefined) return ''
  const text = written(value, HEX_BYTES)
  return text.length > most ? `${text.slice(0, most)}…` : text
}

export function pretty(value) {
  const text = written(value, 1024, 2)
  return text && text.length > 20_000 ? `${text.slice(0, 20_000)}… (${text.length} characters)` : text
}

/** What a gap says: how much was not passed on here, and why. */
export const gapText = ({ gap }) => `${amount(gap.count ?? 0)} not passed on: ${gap.reason}`

export const clock = (ms) => new Date(ms).toLocaleTimeString([], { hour12: false })

export function when(ms) {
  const date = new Date(ms)
  const today = date.toDateString() === new Date().toDateString()
  return today ? clock(ms) : `${date.toLocaleDateString()} ${clock(ms)}`
}

export function amount(number) {
  if (typeof number !== 'number') return String(number)
  if (Math.abs(number) >= 10_000) {
    return Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 }).format(number)
  }
  return String(Number(number.toPrecision(4)))
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
    h('div', {}, h('dt', {}, name), h('dd', {}, typeof one === 'object' ? brief(one) : String(one)))))

export function confirmed(question, action) {
  return new Promise((done) => {
    const box = dialog(question, (node) => h('div.row', {},
      h('span.grow'),
      h('button', { type: 'button', onclick: () => node.close() }, 'Cancel'),
      h('button.bad', { type: 'button', onclick: () => node.close('yes') }, action)))
    box.addEventListener('close', () => done(box.returnValue === 'yes'))
  })
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
