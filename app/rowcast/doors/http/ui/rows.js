/** The server's own rows as a table that follows them: told over the page's one connection. */
import { calmly, clear, h, steady, trying } from './dom.js'
import { brief } from './text.js'

const DRAW_MS = 200
const NEWS_MS = 700 // between two looks, however much is told
const ROWS_DRAWN = 500 // others are counted
const ROWS_FOUND = 12 // from so many on there is something to find

/**
 * A table of the rows at a path; gives `{ node, look, end }`. Rows that are not told of are looked
 * at anew when something happens at `news`, and `every` so many milliseconds while the page is seen.
 * `order` compares two rows; without it they stay in the server's order.
 * `below(row)` is a sentence that has a line of its own under the row, such as what is wrong with it.
 */
export function rowsTable(app, path, { columns, key, actions = [], none, news, every, below, order }) {
  const box = h('div.tablebox')
  const find = h('input', { type: 'search', placeholder: 'Find', hidden: true, 'aria-label': 'Find a row',
    oninput: () => paint() })
  const rows = new Map()
  const state = { asked: 0, known: false, problem: null, heard: false }
  const draw = calmly(steady(box, paint), DRAW_MS)
  const later = calmly(() => look(), NEWS_MS)

  /** Read the rows; where others are told of they are only `renewed`, for an answer has not all. */
  async function look(renewed = false) {
    const mine = ++state.asked
    try {
      const { rows: found } = await app.rows.query(path)
      if (mine !== state.asked) return
      if (!renewed) rows.clear()
      for (const row of found) {
        const name = String(key(row))
        if (!renewed || rows.has(name)) rows.set(name, row) // else it is gone: that was told before
      }
      Object.assign(state, { known: true, problem: null })
    } catch (error) {
      if (mine === state.asked) state.problem = error
    }
    draw()
  }

  function hear({ kind, topic, value }) {
    if (kind === 'current') state.known = true
    if (kind === 'gap' || kind === 'reset') later()
    else if (topic && news) later()
    else if (topic) {
      const name = topic.slice(path.length + 1)
      if (kind === 'delete') rows.delete(name)
      else rows.set(name, { id: name, ...value })
    }
    draw()
  }

  /** What happened while nobody could tell it is not in the log: look again. */
  function told(now, problem) {
    if (now === 'refused') {
      state.problem = problem
      app.told('ready')
      draw()
    } else app.told(now, problem)
    if (now !== 'live') return
    if (state.heard) look()
    state.heard = true
  }

  function paint() {
    const held = box.contains(document.activeElement) ? document.activeElement.dataset.held : null
    find.hidden = rows.size < ROWS_FOUND
    if (state.problem && state.problem.status !== 404) clear(box, note(refusal(state.problem)))
    else if (rows.size) clear(box, tableOf())
    else clear(box, note(state.known || state.problem ? none : '…'))
    fit(box)
    if (held) [...box.querySelectorAll('button')].find((one) => one.dataset.held === held)?.focus()
  }

  function tableOf() {
    const wanted = find.value.toLowerCase()
    const all = [...rows].filter(([, row]) => !wanted || JSON.stringify(row).toLowerCase().includes(wanted))
    if (order) all.sort(([, one], [, other]) => order(one, other))
    const shown = all.slice(0, ROWS_DRAWN)
    const rest = all.length - shown.length
    const told = columns.map(([title, read]) => [title, shown.map(([, row]) => cell(title, read, row))])
      .filter(([, cells]) => cells.some((one) => one.dataset.none === undefined)) // a column that says nothing
    return [h('table.stacked', {}, h('thead', {}, h('tr', {}, told.map(([title]) => h('th', {}, title)),
      actions.length ? actionsHead() : null)),
    h('tbody', {}, shown.map(([name, row], index) => line(name, row, told.map(([, cells]) => cells[index]))))),
    rest > 0 ? note(`and ${rest} more, which are not drawn`) : []].flat()
  }

  function line(name, row, cells) {
    const buttons = actions.filter(({ may = () => true }) => may(row)).map((one) => {
      const label = typeof one.label === 'function' ? one.label(row) : one.label
      return h(one.bad ? 'button.bad' : 'button', { type: 'button', 'data-held': `${name} ${label}`,
        'aria-label': `${label} ${name}`, onclick: () => trying(async () => {
          await one.act(row)
          look(!news)
        }) }, label)
    })
    const said = below?.(row)
    return [h(said ? 'tr.told' : 'tr', { 'data-row': name }, cells, actions.length ? h('td.end', {}, buttons) : null),
      said ? h('tr.below', { 'data-below': name }, h('td', { colSpan: cells.length + 1 }, said)) : null]
  }

  const heard = (news ? [news].flat() : [`${path}/#`]).map((filter) =>
    app.rows.subscribe(filter, hear, { ...(news ? { start: 'new' } : {}), onState: told }))
  if (news) look()
  const beat = every && setInterval(() => { if (!document.hidden) look(!news) }, every)
  return {
    node: h('div', {}, find, box), look, rows,
    end() {
      clearInterval(beat)
      for (const one of heard) one.close()
    },
  }
}

function cell(title, read, row) {
  const value = typeof read === 'function' ? read(row) : row[read]
  const isNode = value instanceof Node
  const text = isNode ? value.textContent : brief(value ?? '', 160)
  return h(!isNode && text.length > 40 ? 'td.long' : 'td', { title: isNode ? '' : brief(value ?? '', 400),
    'data-label': title,
    'data-none': text === '' }, isNode ? value : text)
}

/** The head of the column of buttons: a name for those who hear the table. */
export const actionsHead = () => h('th.end', {}, h('span.heard', {}, 'Actions'))

/**
 * Draw a table whose columns have no room side by side as one card for each row, so that nothing is
 * beyond the edge, or behind the buttons. One that goes `sideways` is moved there instead; not on a phone.
 */
export function fit(box, sideways = false) {
  const look = () => {
    box.classList.remove('narrow')
    box.classList.toggle('narrow', PHONE.matches || (!sideways && box.scrollWidth > box.clientWidth))
  }
  look()
  if (watched.has(box)) return
  watched.add(box)
  let width = box.clientWidth
  new ResizeObserver(() => {
    if (width === box.clientWidth) return
    width = box.clientWidth
    look()
  }).observe(box)
}
const PHONE = matchMedia('(max-width: 760px)')
const watched = new WeakSet()

/** Why something is not shown, for somebody who did nothing wrong. */
export function refusal(problem) {
  if (problem.status === 401) return 'Sign in to see this.'
  if (problem.status === 403) return `This is not shown to you: ${problem.message}.`
  return problem.message
}

export function note(...said) {
  return h('div.inside', {}, ...said)
}

export const badge = (text, good) =>
  h(good === undefined ? 'span.badge' : good ? 'span.badge.good' : 'span.badge.bad', {}, text)

export const badges = (texts) => h('span.badges', {}, texts.map((text) => badge(text)))

export const section = (title, ...parts) => h('section', {}, h('h2', {}, title), ...parts)
