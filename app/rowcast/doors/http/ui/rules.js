/** Rules for topics, and why somebody may or may not: the question is asked of the server itself. */
import { ask } from './ask.js'
import { clear, confirmed, h, toast } from './dom.js'
import { badge, badges, refusal, rowsTable, section } from './rows.js'
import { pathOf } from './rowcast.js'

const RULES = '$SYS/rules'
const ACTIONS = ['read', 'subscribe', 'write', 'publish', 'administer', 'all']
const ASKED = ACTIONS.slice(0, 5)
const asked = { action: 'read', topic: '' } // the last question, for when one comes back

export function rulesPage(app, main, [about]) {
  const rules = rowsTable(app, RULES, {
    key: (row) => row.id,
    columns: [
      ['Rule', 'id'], ['Effect', (row) => badge(row.effect || 'allow', row.effect !== 'deny')],
      ['Actions', (row) => row.actions?.join(', ')], ['Topics', (row) => h('code', {}, row.filter || '')],
      ['For', (row) => {
        const named = [...(row.roles || []), ...(row.users || [])]
        return named.length ? badges(named) : 'everybody'
      }],
      ['Attributes', (row) => row.attributes?.join(', ')], ['Why', 'description'],
    ],
    actions: [
      { label: 'Edit', act: (row) => edit(app, row) },
      { label: 'Remove', bad: true, act: async (row) => {
        if (!await confirmed(`Remove the rule ${row.id}? It counts no more at once.`, 'Remove')) return
        await app.rows.delete(`${RULES}/${row.id}`)
        toast(`${row.id} is removed`)
      } },
    ],
    none: h('div', {}, h('b', {}, 'No rules yet.'), h('p', {}, 'What users and roles are granted holds for',
      ' all topics. A rule allows or denies something below some of them; a denial wins. Where a record',
      ' decides, @auth in schema.graphql is the better place.')),
  })
  clear(main, h('div.row.head', {}, h('h1.wide', {}, 'Rules'),
    h('button.main', { type: 'button', onclick: () => edit(app, null) }, 'New rule')),
  question(app, about), section('Rules for topics', rules.node),
  h('p.soft', {}, 'As soon as there is a rule or an @auth, what is below $SYS is for administrators, and',
    ' for those whom a rule allows it.'))
  return () => rules.end()
}

/** "May ana read Dog/1?", answered with what decides it. */
function question(app, about) {
  const names = h('datalist', { id: 'users' })
  app.rows.query('$SYS/users').then(({ rows }) => clear(names, rows.map(({ name }) =>
    h('option', { value: name }))), () => {})
  const user = h('input.wide', { value: about || asked.user || '', placeholder: 'a user',
    'aria-label': 'User', list: 'users', required: true })
  const action = h('select', { 'aria-label': 'Action', value: asked.action },
    ASKED.map((word) => h('option', { value: word }, word)))
  action.value = asked.action
  const topic = h('input.wide.mono', { value: asked.topic, placeholder: 'Dog/1', 'aria-label': 'Topic',
    required: true })
  const answer = h('div', { role: 'status', 'data-part': 'answer' })
  return h('section.card', {}, h('form.row', { onsubmit: async (event) => {
    event.preventDefault()
    Object.assign(asked, { user: user.value, action: action.value, topic: topic.value })
    const path = ['$SYS', 'policy', user.value, action.value, topic.value].join('/')
    try {
      const said = await app.rows.request('GET', pathOf(path))
      const { allowed, because, roles } = await said.json()
      clear(answer, h('p', {}, badge(allowed ? 'yes' : 'no', allowed), ' ', h('b', {}, user.value),
        roles.length ? ` (${roles.join(', ')})` : '', allowed ? ' may ' : ' may not ', action.value, ' ',
        h('code', {}, topic.value), ': ', because))
    } catch (error) {
      clear(answer, h('p.badtext', {}, refusal(error)))
    }
  } }, h('b', {}, 'May'), user, action, topic, h('button', { type: 'submit' }, 'Ask')), names, answer)
}

function edit(app, row) {
  return ask(row ? row.id : 'New rule', [
    ...(row ? [] : [{ name: 'id', label: 'Name', required: true, help: 'What it is for: own-sensors' }]),
    { name: 'effect', label: 'Effect', kind: 'choice', options: ['allow', 'deny'], value: row?.effect },
    { name: 'actions', label: 'Actions', kind: 'checks', options: ACTIONS, value: row?.actions || ['read'] },
    { name: 'filter', label: 'Topics', required: true, value: row?.filter,
      help: 'A filter such as sensors/${username}/#; also ${clientid} and ${user.sites}' },
    { name: 'roles', label: 'Roles', kind: 'names', value: row?.roles },
    { name: 'users', label: 'Users', kind: 'names', value: row?.users,
      help: 'Neither roles nor users: it is for everybody.' },
    { name: 'attributes', label: 'Attributes', kind: 'names', value: row?.attributes,
      help: 'Only these parts of a whole table, Dog/#.' },
    { name: 'description', label: 'Why', value: row?.description },
  ], async (said) => {
    const { id = row?.id, ...members } = said
    const value = Object.fromEntries(Object.entries(members).filter(([, one]) => one.length))
    await app.rows.put(`${RULES}/${id}`, value, row ? {} : { ifNoneMatch: '*' })
    toast(`${id} counts from now on`)
  }, { action: row ? 'Save' : 'Make' })
}
