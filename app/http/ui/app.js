/** The page: which part is shown, who is signed in, and whether the connection stands. */
import { clear, dialog, h, toast, trying } from './dom.js'
import { Rowcast } from './rowcast.js'
import { topicsPage } from './tree.js'
import { recordsPage } from './records.js'
import { consolePage } from './console.js'
import { serverPage } from './server.js'
import { apiPage } from './api.js'
import { clientsPage, gatewayPage, snapshotsPage } from './system.js'

const PAGES = {
  topics: ['⌘', 'Topics', topicsPage], records: ['▤', 'Records', recordsPage],
  console: ['»', 'Console', consolePage], clients: ['◉', 'Clients', clientsPage],
  gateway: ['⇄', 'Gateway', gatewayPage], snapshots: ['❐', 'Snapshots', snapshotsPage],
  server: ['∿', 'Server', serverPage], api: ['{}', 'API', apiPage],
}
const WORDS = { connecting: 'connecting', live: 'live', waiting: 'lost; trying again',
  refused: 'not allowed' }

const main = document.getElementById('main')
const app = {
  rows: new Rowcast(location.origin),
  /** Show how the newest subscription is doing. */
  told(state, problem) {
    const node = document.getElementById('state')
    node.className = `state ${state}`
    node.textContent = WORDS[state]
    if (problem?.status === 401) signIn()
    else if (problem) toast(problem.message, true)
  },
  /** Publish what somebody typed: JSON if it is that, else text. */
  send(topic, text, retain) {
    let value = text
    let type = 'text/plain'
    try {
      value = JSON.parse(text)
      type = 'application/json'
    } catch { /* text then */ }
    return app.rows[retain ? 'put' : 'publish'](topic, value, { type })
  },
  /** What the OpenAPI document says of each table's records. */
  async schemas() {
    app.known ||= app.rows.request('GET', '/openapi.json').then((answer) => answer.json())
    return (await app.known).components.schemas
  },
  /** The tables that there are now. */
  async tables() {
    const { value } = await app.rows.get('')
    return value.resources.filter((one) => one.kind === 'table').map((one) => one.path.slice(1))
  },
}

let leave = null
let turn = 0

async function show() {
  const mine = ++turn
  const [name, ...rest] = location.hash.replace(/^#\//, '').split('/').map(decodeURIComponent)
  const known = PAGES[name] ? name : 'topics'
  leave?.()
  leave = null
  for (const link of document.querySelectorAll('#nav a')) {
    if (link.dataset.page === known) link.setAttribute('aria-current', 'page')
    else link.removeAttribute('aria-current')
  }
  document.title = `${PAGES[known][1]} · Rowcast`
  clear(main)
  const box = h('div')
  box.style.height = '100%'
  main.append(box)
  const end = await trying(() => PAGES[known][2](app, box, rest.length ? [rest.join('/')] : []))
  if (mine === turn) leave = end || null
  else end?.()
}

async function who() {
  const button = document.getElementById('who')
  try {
    const me = await (await app.rows.request('GET', '/$SYS/me')).json()
    button.textContent = me.user === 'anonymous' ? 'Sign in' : `${me.user} · sign out`
    button.onclick = me.user === 'anonymous' ? signIn : signOut
  } catch {
    button.textContent = 'Sign in'
    button.onclick = signIn
  }
}

function signIn() {
  if (document.querySelector('dialog.signin')) return
  const user = h('input', { id: 'user', autocomplete: 'username', required: true })
  const password = h('input', { id: 'password', type: 'password', autocomplete: 'current-password' })
  const wrong = h('p.badtext', { role: 'alert' })
  const box = dialog('Sign in', (node) => h('form', { onsubmit: async (event) => {
    event.preventDefault()
    try {
      const body = JSON.stringify({ user: user.value, password: password.value, cookie: true })
      await app.rows.request('POST', '/$SYS/login', { body })
      node.close()
      renew()
    } catch (error) {
      wrong.textContent = error.message
    }
  } }, h('div.field', {}, h('label', { htmlFor: 'user' }, 'Name'), user),
  h('div.field', {}, h('label', { htmlFor: 'password' }, 'Password'), password), wrong,
  h('p.soft', {}, 'No users yet? Make one: rowcast user add ann --role admin'),
  h('div.row', {}, h('span.grow'),
    h('button', { type: 'button', onclick: () => node.close() }, 'Cancel'),
    h('button.main', { type: 'submit' }, 'Sign in'))))
  box.classList.add('signin')
}

async function signOut() {
  await trying(() => app.rows.request('POST', '/$SYS/logout'))
  renew()
}

function renew() {
  app.known = null
  app.rows.close()
  who()
  show()
}

function theme(next) {
  const preferred = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'
  const chosen = next || localStorage.getItem('theme') || preferred
  document.documentElement.dataset.theme = chosen
  if (next) localStorage.setItem('theme', next)
}

document.getElementById('nav').append(...Object.entries(PAGES).map(([name, [icon, title]]) =>
  h('a', { href: `#/${name}`, 'data-page': name },
    h('span.icon', { 'aria-hidden': 'true' }, icon), h('span', {}, title))))
document.getElementById('theme').onclick = () =>
  theme(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark')
theme()
addEventListener('hashchange', show)
who()
show()
