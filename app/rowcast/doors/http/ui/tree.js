/** The tree of topics with values that change. What is drawn is bounded; what is not, is counted. */
import { calmly, clear, command, h } from './dom.js'
import { amount, brief } from './text.js'
import { showTopic } from './detail.js'
import { Rowcast } from './rowcast.js'
import { note, refusal } from './rows.js'

const LINE = 30 // pixels of one line
const TOPICS_MAX = 50_000 // that the tree keeps; others are only counted
const UNFOLDED_MAX = 40 // topics that are shown at once, without turning branches
const DRAW_MS = 200
const FRESH_MS = 900 // how long a change is lit
const NEWEST = 1000 // events of the log, where topics are found at which nothing is retained
const QUIET_MS = 3000 // after the last of them
const PAGE = 1000 // topics that were written to: so many are asked for at a time,
const SEEN_MAX = 5000 // and so many all together

class Branch {
  constructor(name, topic, parent) {
    Object.assign(this, { name, topic, parent, children: null, open: false, at: 0, count: 0 })
    this.depth = parent ? parent.depth + 1 : -1
  }

  child(name) {
    this.children ||= new Map()
    let found = this.children.get(name)
    if (!found) {
      found = new Branch(name, this.parent ? `${this.topic}/${name}` : name, this)
      this.children.set(name, found)
    }
    return found
  }

  /** Take away a topic that is gone, and the branches that only led to it. */
  drop() {
    this.has = false
    for (let one = this; one.parent && !one.has && !one.children?.size; one = one.parent) {
      one.parent.children.delete(one.name)
    }
    for (let one = this; one; one = one.parent) one.count -= 1
  }

  /** The lines that are to be seen, in the order of their names. */
  * lines() {
    if (!this.children) return
    this.sorted = this.sorted?.length === this.children.size ? this.sorted
      : [...this.children.values()].sort((a, b) => a.name.localeCompare(b.name, 'en', NUMERIC))
    for (const child of this.sorted) {
      yield child
      if (child.open) yield* child.lines()
    }
  }
}
const position = (cursor) => Number(cursor.split(':')[1])
const NUMERIC = { numeric: true }

export function topicsPage(app, main, [chosen]) {
  const state = { lines: [], at: 0, changes: 0, uncounted: 0, filter: '#', search: '', changed: true }
  let root = new Branch('', '', null)
  let end = () => {}
  let heard = null
  let past = null
  const box = h('div.card.tree', { role: 'tree', tabIndex: 0, 'aria-label': 'Topics' })
  const space = h('div', { role: 'presentation' })
  const blank = h('div.blank', { role: 'status', hidden: true })
  box.append(space)
  const detail = h('div.card.detail')
  const split = h('div.split', {}, h('div.left', {}, box, blank), detail)
  const counts = h('span.soft', { role: 'status' })
  const filter = h('input.wide', { value: '#', 'aria-label': 'Topic filter', list: 'filters' })
  const search = h('input.wide', { placeholder: 'Find', type: 'search', 'aria-label': 'Find a topic' })

  const draw = calmly(() => {
    if (state.changed) relist()
    paint()
  }, DRAW_MS)

  function relist() {
    state.changed = false
    const wanted = state.search.toLowerCase()
    state.lines = wanted ? found(root, wanted) : [...root.lines()]
    space.style.height = `${state.lines.length * LINE}px`
  }

  function paint() {
    const first = Math.max(0, Math.floor(box.scrollTop / LINE) - 2)
    const shown = state.lines.slice(first, first + Math.ceil(box.clientHeight / LINE) + 4)
    const now = performance.now()
    space.style.position = 'relative'
    const isBlank = !state.lines.length && Boolean(state.problem || state.known)
    box.hidden = isBlank
    blank.hidden = !isBlank
    if (isBlank && state.said !== sayable()) {
      state.said = sayable()
      clear(blank, state.problem ? note(refusal(state.problem))
        : state.search ? note(`No topic has “${state.search}” in its name.`) : empty(app, state.filter))
    }
    clear(space, shown.map((one, index) => entry(one, first + index, now)))
    if (shown.some((one) => now - one.at < FRESH_MS)) setTimeout(draw, FRESH_MS)
  }

  const sayable = () => `${state.problem?.message} ${state.search} ${state.filter}`

  function entry(one, index, now) {
    const node = h('div.line', {
      role: 'treeitem', id: `line-${index}`, 'aria-level': one.depth + 1,
      'aria-expanded': one.children ? String(one.open) : undefined, 'data-topic': one.topic,
      onclick: () => pick(index, one),
    },
    h('span.turn', { 'aria-hidden': 'true', onclick: (event) => {
      event.stopPropagation()
      turn(one)
    } }, one.children?.size ? (one.open ? '▾' : '▸') : ''),
    h('span.name', { title: one.topic }, state.search ? one.topic : one.name || '(empty)'),
    h(one.kept === false ? 'span.value.passing' : 'span.value', {
      title: one.has && one.kept === false ? 'Nothing is retained here.' : undefined,
    }, one.has ? (one.kept === false && one.value === undefined ? 'no value' : brief(one.value, 120))
      : `${one.count} topic${one.count === 1 ? '' : 's'}`))
    node.style.top = `${index * LINE}px`
    node.style.paddingLeft = `${8 + (state.search ? 0 : one.depth * 16)}px`
    if (index === state.at) box.setAttribute('aria-activedescendant', node.id)
    if (one.topic === chosen) node.classList.add('chosen')
    if (one.at && now - one.at < FRESH_MS) node.lastChild.classList.add('fresh')
    return node
  }

  function turn(one) {
    if (one.children?.size) one.open = !one.open
    state.changed = true
    draw()
  }

  function pick(index, one) {
    state.at = index
    if (one.has) open(one.topic)
    else turn(one)
  }

  function open(topic) {
    end()
    chosen = topic
    split.classList.add('open')
    history.replaceState(null, '', `#/topics/${encodeURIComponent(topic)}`)
    end = showTopic(app, detail, topic, { onClose: close })
    draw()
  }

  function close() {
    end()
    end = () => {}
    chosen = null
    split.classList.remove('open')
    history.replaceState(null, '', '#/topics')
    clear(detail, h('p.soft', {}, 'Choose a topic to see its value, its past and what comes.'))
    box.focus()
    draw()
  }

  /** Show a little tree as a whole, and the way to the topic that was asked for. */
  function unfold() {
    const all = root.count <= UNFOLDED_MAX
    const walk = (one) => one.children?.forEach((child) => {
      child.open ||= all || Boolean(chosen?.startsWith(`${child.topic}/`))
      if (child.open) walk(child)
    })
    walk(root)
    state.changed = true
    draw()
  }

  const settle = calmly(unfold, DRAW_MS)

  function hear(event) {
    if (event.kind === 'current') {
      state.known = true
      unfold()
      others(event.cursor).catch(unread)
    }
    if (event.kind === 'gap') state.uncounted += event.gap.count || 0
    if (event.kind === 'reset') { root = new Branch('', '', null); state.changed = true }
    if (!event.topic || event.kind === 'stale' || event.kind === 'fresh') return
    if (event.kind !== 'snapshot') state.changes += 1
    let one = root
    for (const name of event.topic.split('/')) one = one.child(name)
    if (event.kind === 'delete') {
      if (!one.has) admit(one)
      if (one.has) one.drop()
      state.changed = true
    } else {
      if (!one.has) admit(one)
      if (one.has) {
        one.value = event.value
        one.kept = event.kind === 'message' ? Boolean(one.kept) : true
        if (event.kind !== 'snapshot') one.at = performance.now()
      }
    }
    draw()
  }

  /** Put a topic in at which nothing is retained, with the last message there if it is known. */
  function pass(topic, value) {
    let one = root
    for (const name of topic.split('/')) one = one.child(name)
    if (one.has && (one.kept || value === undefined)) return
    if (!one.has) admit(one)
    if (one.has) Object.assign(one, { value, kept: false })
    settle()
  }

  /** The topics that have no record: of the newest messages, and those that the server has seen. */
  async function others(until) {
    const mine = heard
    past?.close()
    past = newest(app, state.filter, until, pass)
    if (state.filter !== '#' || !app.reads('$SYS/topics')) return
    for (let from = 0; from < SEEN_MAX; from += PAGE) {
      const { rows } = await app.rows.query('$SYS/topics',
        `table=sw=mqtt_&select(topic,table)&limit(${from},${from + PAGE})`)
      if (mine !== heard) return
      for (const { topic } of rows) pass(topic)
      if (rows.length < PAGE) return
    }
  }

  /** Show why they were refused; where no answer came, the stream begins anew, and asks again. */
  function unread(problem) {
    if (!problem.status) return
    state.problem = problem
    draw()
  }

  function admit(one) {
    one.has = true
    for (let up = one; up; up = up.parent) up.count += 1
    state.changed = true
    if (root.count > TOPICS_MAX) {
      one.drop()
      state.uncounted += 1
    }
  }

  function listen() {
    heard?.close()
    root = new Branch('', '', null)
    Object.assign(state, { changed: true, changes: 0, uncounted: 0, filter: filter.value.trim() || '#',
      known: false, problem: null, said: null })
    heard = app.rows.subscribe(state.filter, hear, { onState: told })
    draw()
  }

  function told(now, problem) {
    state.problem = now === 'refused' ? problem : null
    app.told(now, problem?.status === 401 ? problem : undefined)
    draw()
  }

  const keys = {
    ArrowDown: () => move(1), ArrowUp: () => move(-1), PageDown: () => move(12),
    PageUp: () => move(-12), Home: () => move(-1e9), End: () => move(1e9),
    ArrowRight: (one) => !one.open && turn(one), ArrowLeft: (one) => one.open && turn(one),
    Enter: (one) => pick(state.at, one), ' ': (one) => pick(state.at, one),
  }
  function move(step) {
    state.at = Math.max(0, Math.min(state.lines.length - 1, state.at + step))
    const top = state.at * LINE
    if (top < box.scrollTop) box.scrollTop = top
    if (top + LINE > box.scrollTop + box.clientHeight) box.scrollTop = top + LINE - box.clientHeight
    paint()
    for (const node of space.children) node.classList.toggle('chosen', node.id === `line-${state.at}`)
  }
  box.addEventListener('keydown', (event) => {
    const one = state.lines[state.at]
    if (!keys[event.key] || !one) return
    event.preventDefault()
    keys[event.key](one)
  })
  box.addEventListener('scroll', () => requestAnimationFrame(paint))
  search.addEventListener('input', () => {
    state.search = search.value.trim()
    state.changed = true
    draw()
  })
  clear(main, h('h1.heard', {}, 'Topics'), h('form.row', { onsubmit: (event) => { event.preventDefault(); listen() } },
    filter, h('button', { type: 'submit' }, 'Show'), search, counts,
    h('datalist', { id: 'filters' }, ['#', '$SYS/#', '$AUDIT/#'].map((value) => h('option', { value })))),
  split)
  main.children[1].style.marginBottom = '10px'
  const beat = setInterval(() => {
    counts.textContent = `${amount(root.count)} topic${root.count === 1 ? '' : 's'} · ${amount(state.changes)} changes/s` +
      (state.uncounted ? ` · ${amount(state.uncounted)} not shown` : '')
    state.changes = 0
  }, 1000)
  listen()
  if (chosen) open(chosen)
  else clear(detail, h('p.soft', {}, 'Choose a topic to see its value, its past and what comes.'))
  return () => { end(); heard.close(); past?.close(); clearInterval(beat) }
}

/**
 * Tell of the newest messages, up to a cursor: on a connection of its own, for one has a filter once.
 * Nothing says that they were all, so it ends with the first event behind them, or when it is quiet.
 */
function newest(app, filter, until, tell) {
  const rows = new Rowcast(app.rows.url, { transport: app.rows.transport })
  let timer
  const end = () => { clearTimeout(timer); heard.close() }
  const later = () => { clearTimeout(timer); timer = setTimeout(end, QUIET_MS) }
  const heard = rows.subscribe(filter, ({ kind, topic, value, cursor }) => {
    if (!cursor || position(cursor) > position(until)) return end()
    if (kind === 'message' && topic) tell(topic, value)
    return later()
  }, { last: NEWEST, onState: (now) => now === 'live' && later() })
  return { close: end }
}

function found(root, wanted) {
  const lines = []
  const walk = (one) => {
    if (one.has && one.topic.toLowerCase().includes(wanted)) lines.push(one)
    if (lines.length < 2000) one.children?.forEach(walk)
  }
  walk(root)
  return lines
}

function empty(app, filter) {
  if (!app.may('write')) {
    return note(h('h2', {}, 'No topics yet'), `Nothing at ${filter} yet; what comes is shown here.`)
  }
  const node = h('div', {}, h('h2', {}, 'No topics yet'),
    h('p', {}, filter === '#' ? 'Write the first one from a terminal; it appears here at once:'
      : `Nothing at ${filter} yet; what comes is shown here.`),
    command(app.mosquitto('pub', '-t home/kitchen/temperature -r -m 21.5')),
    command(app.curl(`-X PUT ${app.rows.url}/home/kitchen/light -d '"on"' ` +
      "-H 'Content-Type: application/json'")))
  node.style.padding = '4px 16px'
  return node
}
