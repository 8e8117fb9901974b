/** The server's own rows as a table that follows them: told over the page's one connection. */
import { brief, calmly, clear, h, trying } from './dom.js'

const DRAW_MS = 200
const NEWS_MS = 700 // between two looks, however much is told
const ROWS_DRAWN = 500 // others are counted
const ROWS_FOUND = 12 // from so many on there is something to find

/**
 * A table of the rows at a path; gives `{ node, look, end }`. Rows that are not told of are looked
 * at anew when something happens at `news`, and `every` so many milliseconds while the page is seen.
 */
export function rowsTable(app, path, { columns, key, actions = [], none, news, every }) {
  const box = h('div.tablebox')
  const find = h('input', { type: 'search', placeholder: 'Find', hidden: true, 'aria-label': 'Find a row',
    oninput: () => paint() })
  const rows = new Map()
  const state = { asked: 0, known: false, problem: null, heard: false }
  const draw = calmly(paint, DRAW_MS)
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
    if (held) [...box.querySelectorAll('button')].find((one) => one.dataset.held === held)?.focus()
  }

  function tableOf() {
    const wanted = find.value.toLowerCase()
    const all = [...rows].filter(([, row]) => !wanted || JSON.stringify(row).toLowerCase().includes(wanted))
    const shown = all.slice(0, ROWS_DRAWN)
    const rest = all.length - shown.length
    return [h('table.stacked', {}, h('thead', {}, h('tr', {}, columns.map(([name]) => h('th', {}, name)),
      actions.length ? h('th', {}, '') : null)),
    h('tbody', {}, shown.map(([name, row]) => line(name, row)))),
    rest > 0 ? note(`and ${rest} more, which are not drawn`) : []].flat()
  }

  function line(name, row) {
    const buttons = actions.filter(({ may = () => true }) => may(row)).map((one) => {
      const label = typeof one.label === 'function' ? one.label(row) : one.label
      return h(one.bad ? 'button.bad' : 'button', { type: 'button', 'data-held': `${name} ${label}`,
        'aria-label': `${label} ${name}`, onclick: () => trying(async () => {
          await one.act(row)
          look(!news)
        }) }, label)
    })
    return h('tr', { 'data-row': name }, columns.map(([title, read]) => cell(title, read, row)),
      actions.length ? h('td.end', {}, buttons) : null)
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
