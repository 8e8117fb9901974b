/** The page: which part is shown, who is signed in, and whether the connection stands. */
import { ask } from './ask.js'
import { clear, command, h, toast, trying } from './dom.js'
import { pause } from './problem.js'
import { Rowcast, pathOf } from './rowcast.js'
import { topicsPage } from './tree.js'
import { recordsPage } from './records.js'
import { consolePage } from './console.js'
import { serverPage } from './server.js'
import { apiPage } from './api.js'
import { clientsPage } from './clients.js'
import { gatewayPage, snapshotsPage } from './system.js'
import { messagesPage } from './messages.js'
import { ALARMS, DELIVERIES, alarmsPage } from './alarms.js'
import { schemaPage } from './schema.js'
import { peoplePage } from './people.js'
import { rulesPage } from './rules.js'
import { REFUSED } from './refused.js'
import { note, refusal } from './rows.js'
import { parsed, quoted } from './text.js'

// each with what it needs: a grant, or what must be readable
const GROUPS = [
  ['', { topics: ['⌘', 'Topics', topicsPage, '#'], records: ['▤', 'Records', recordsPage, '#'],
    alarms: ['⚑', 'Alarms', alarmsPage, `${ALARMS}/`],
    messages: ['✉', 'Messages', messagesPage, '$SYS/topic_tables/'], console: ['»', 'Console', consolePage] }],
  ['Traffic', { clients: ['◉', 'Clients', clientsPage, '$SYS/sessions/'],
    gateway: ['⇄', 'Gateway', gatewayPage, '$SYS/brokers/'] }],
  ['Server', { server: ['∿', 'Figures', serverPage, '$SYS/broker/uptime'],
    snapshots: ['❐', 'Snapshots', snapshotsPage, '$SYS/snapshots/'],
    schema: ['◫', 'Schema', schemaPage, '#'], api: ['{}', 'API', apiPage] }],
  ['Access', { users: ['☻', 'Users', peoplePage, 'administer'],
    rules: ['⚖', 'Rules', rulesPage, 'administer'] }],
]
const PAGES = Object.assign({}, ...GROUPS.map(([, pages]) => pages))
const PORT = '$SYS/listeners/MQTT'
const ASKED = ['#', PORT, '$SYS/schema', '$SYS/topics', REFUSED, DELIVERIES, // what pages have beside what they need
  ...Object.values(PAGES).map(([,,, needs]) => needs).filter((needs) => needs?.startsWith('$'))]
const ADMINISTERED = [`${ALARMS}/#`, `${DELIVERIES}/#`] // what a rule may let others than administrators do
const FIRST = ['topics', 'records', 'console', 'clients'] // on a phone; the others are under "More"
const WORDS = { out: 'not signed in', ready: 'connected', connecting: 'connecting', live: 'live', waiting: 'lost; trying again',
  refused: 'not allowed' }

const nameOf = ({ user }) => (/^[\w.@-]+$/.test(user) ? user : quoted(user)) // as a word of a command
const main = document.getElementById('main')
const app = {
  rows: new Rowcast(location.origin),
  me: null,
  /** Tell whether who is here was granted something; the server decides, this is what is offered. */
  may: (grant) => Boolean(app.me?.grants[grant]),
  /** Tell likewise of what the server says of itself: asking for it in vain would look like a fault. */
  reads: (topic) => Boolean(app.me?.reads[topic]),
  /** Tell whether who is here may do something to these topics. */
  administers: (filter) => Boolean(app.me?.administers[filter]),
  /** Show how the connection is doing. */
  told(state, problem) {
    const node = document.getElementById('state')
    node.className = `state ${state}`
    node.textContent = WORDS[state]
    node.title = app.rows.transport === 'sse' ? 'over Server-Sent Events' : 'over one WebSocket'
    if (problem?.status === 401 && app.named()) renew() // signed in no more: what is shown is over
    else if (problem?.status === 401) signIn()
    else if (problem) toast(problem.message, true)
  },
  async signIn(user, password) {
    const body = JSON.stringify({ user, password, cookie: true })
    await app.rows.request('POST', '/$SYS/login', { body })
    renew()
  },
  /** Publish what somebody typed, as it is: JSON if it is that, else text. A number keeps its digits. */
  async send(topic, text, retain) {
    const type = parsed(text) === undefined ? 'text/plain' : 'application/json'
    const [method, words] = retain ? ['PUT', ''] : ['POST', '?retain=false']
    const answer = await app.rows.request(method, pathOf(topic) + words, { body: text, headers: { 'content-type': type } })
    return { cursor: answer.headers.get('rowcast-position') }
  },
  /** What the OpenAPI document says of each table's records. */
  async schemas() {
    app.known ||= app.rows.request('GET', '/openapi.json').then((answer) => answer.json())
    return (await app.known).components.schemas
  },
  /** A command of mosquitto's clients, as this user has to say it here. */
  mosquitto(verb, words) {
    const { hostname } = new URL(app.rows.url)
    return [`mosquitto_${verb} -h ${hostname}`, app.port && app.port !== 1883 && `-p ${app.port}`,
      app.named() && `-u ${nameOf(app.me)} -P '…'`, words].filter(Boolean).join(' ')
  },
  curl: (words) => `curl ${app.named() ? `-u ${nameOf(app.me)} ` : ''}${words}`,
  named: () => Boolean(app.me && app.me.user !== 'anonymous'),
  /** The tables that there are now. */
  async tables() {
    const { value } = await app.rows.get('')
    return value.resources.filter((one) => one.kind === 'table').map((one) => one.path.slice(1))
  },
}

let leave = null
let turn = 0
let isKnown = false // who is here

/** A part of the address; what somebody typed there may be escaped wrongly. */
function decoded(part) {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

async function show() {
  if (!isKnown) return
  const mine = ++turn
  const [name, ...rest] = location.hash.replace(/^#\//, '').split('/').map(decoded)
  const known = Object.hasOwn(PAGES, name) ? name : 'topics'
  const [, title, page] = PAGES[known]
  leave?.()
  leave = null
  nav.classList.remove('all')
  nav.lastChild.setAttribute('aria-expanded', 'false')
  for (const link of nav.querySelectorAll('a')) {
    if (link.dataset.page === known) link.setAttribute('aria-current', 'page')
    else link.removeAttribute('aria-current')
  }
  document.title = `${title} · Rowcast`
  const box = h('div')
  box.style.height = '100%'
  clear(main, box)
  if (!app.me) return welcome(box)
  if (refused.has(known)) {
    clear(box, h('h1', {}, title), note(`${refused.get(known)}: ask an administrator, or sign in as another`,
      ' user.'), app.named() ? null : signInButton())
    return
  }
  try {
    const end = await page(app, box, rest.length ? [rest.join('/')] : [])
    if (mine === turn) leave = end || null
    else end?.()
  } catch (error) {
    if (error.status === 401 && app.named()) renew()
    else clear(box, h('h1', {}, title), note(refusal(error)))
  }
}

/** What there is for somebody who has to sign in first. */
function welcome(box) {
  document.title = 'Sign in · Rowcast'
  clear(box, h('section.card.welcome', {}, h('h1', {}, 'Sign in'),
    h('p', {}, problemOf ?? 'This server shows its topics to those who have signed in.'),
    h('div.row', {}, signInButton()),
    h('p.soft', {}, 'No user yet? Make an administrator on the machine where it runs:'),
    command('rowcast user add ann --role admin')))
  signIn()
}

const signInButton = () => h('button.main', { type: 'button', onclick: signIn }, 'Sign in')
let problemOf = null // why nobody is signed in, if it is another reason than that nobody tried

/** What the server answers; it is asked again while it is away, or cannot tell. */
async function answered(path) {
  for (let failures = 0; ; failures++) {
    try {
      return await (await app.rows.request('GET', path)).json()
    } catch (error) {
      if (error.status > 0 && error.status < 500) throw error
      app.told('waiting')
      await new Promise((go) => setTimeout(go, pause(failures)))
    }
  }
}

/** Ask who is here, and offer what that user may. */
async function who() {
  const button = document.getElementById('who')
  app.me = problemOf = null
  try {
    const asked = ASKED.map((topic) => `read=${encodeURIComponent(topic.replace(/\/$/, ''))}`).join('&')
    const done = ADMINISTERED.map((filter) => `administer=${encodeURIComponent(filter)}`).join('&')
    const me = await answered(`/$SYS/me?${asked}&${done}`)
    const isNobody = me.user === 'anonymous' && !me.grants.read && !Object.values(me.reads).includes(true)
    if (!isNobody) app.me = me
    app.told(isNobody ? 'out' : 'ready')
  } catch (error) {
    problemOf = error.message
    app.told('out')
  }
  const named = app.named()
  button.textContent = named ? `${app.me.user} · sign out` : 'Sign in'
  button.onclick = named ? signOut : signIn
  button.disabled = false // it cannot know what a click means before
  refused.clear()
  if (app.me) {
    for (const [name, [,,, needs]] of Object.entries(PAGES)) look(name, needs)
    app.port = app.reads(PORT) ? await app.rows.get(PORT).then(({ value }) => value.port, () => null) : null
  }
  for (const link of nav.querySelectorAll('a')) link.hidden = !app.me || refused.has(link.dataset.page)
  nav.hidden = !app.me
  for (const group of nav.querySelectorAll('.group')) {
    group.hidden = !group.querySelector('a:not([hidden])')
  }
}

const refused = new Map() // the pages that this user is not offered, and why

/** Find out whether a page would show anything. */
function look(name, needs) {
  if (!needs) return
  if (needs === '#') {
    if (!app.reads(needs)) refused.set(name, `${app.me.user} may not read any topic`)
  } else if (needs[0] !== '$') {
    if (!app.may(needs)) refused.set(name, `${app.me.user} may not ${needs} here`)
  } else if (!app.reads(needs.replace(/\/$/, ''))) refused.set(name, `${app.me.user} may not read ${needs}`)
}

function signIn() {
  if (document.querySelector('dialog.signin')) return
  const box = ask('Sign in', [
    { name: 'user', label: 'Name', required: true, autocomplete: 'username' },
    { name: 'password', label: 'Password', kind: 'password', autocomplete: 'current-password',
      help: 'No users yet? Make one: rowcast user add ann --role admin' },
  ], ({ user, password }) => app.signIn(user, password), { action: 'Sign in' })
  box.classList.add('signin')
}

async function signOut() {
  await trying(() => app.rows.request('POST', '/$SYS/logout'))
  renew()
}

async function renew() {
  app.known = null
  app.rows.close()
  isKnown = false
  await who()
  isKnown = true
  show()
}

function theme(next) {
  const preferred = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'
  const chosen = next || localStorage.getItem('theme') || preferred
  document.documentElement.dataset.theme = chosen
  if (next) localStorage.setItem('theme', next)
}

/** The page's mark, three rows, where tabs show it. */
function icon() {
  const canvas = h('canvas', { width: 22, height: 22 })
  const pen = canvas.getContext('2d')
  pen.fillStyle = '#0f766e'
  pen.fillRect(0, 0, 22, 22)
  pen.fillStyle = '#fff'
  for (const [y, wide] of [[5, 5], [10, 9], [15, 12]]) pen.fillRect(5, y, wide, 2)
  document.querySelector('link[rel=icon]').href = canvas.toDataURL()
}

const nav = document.getElementById('nav')
nav.append(...GROUPS.map(([title, pages]) => h('div.group', { role: 'group', 'aria-label': title },
  title ? h('span.title', { 'aria-hidden': 'true' }, title) : null,
  Object.entries(pages).map(([name, [icon, label]]) =>
    h(FIRST.includes(name) ? 'a.first' : 'a', { href: `#/${name}`, 'data-page': name },
      h('span.icon', { 'aria-hidden': 'true' }, icon), h('span', {}, label))))),
h('button.more', { type: 'button', 'aria-expanded': 'false', onclick: ({ currentTarget }) =>
  currentTarget.setAttribute('aria-expanded', String(nav.classList.toggle('all'))) },
  h('span.icon', { 'aria-hidden': 'true' }, '☰'), h('span', {}, 'More')))
document.getElementById('theme').onclick = () =>
  theme(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark')
theme()
icon()
addEventListener('hashchange', show)
renew()
