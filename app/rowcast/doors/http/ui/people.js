/** Users and roles: who may sign in, and as what. They are rows below $SYS like others. */
import { ask } from './ask.js'
import { clear, command, confirmed, h, toast } from './dom.js'
import { moment } from './text.js'
import { badge, badges, note, rowsTable, section } from './rows.js'

const USERS = '$SYS/users'
const ROLES = '$SYS/roles'
const GRANTS = ['read', 'write', 'administer']

const granted = (grants) => GRANTS.filter((name) => grants?.[name])
const grants = (names) => Object.fromEntries(GRANTS.map((name) => [name, names.includes(name)]))

export function peoplePage(app, main) {
  const users = rowsTable(app, USERS, {
    key: (row) => row.name,
    columns: [
      ['Name', 'name'], ['State', (row) => badge(row.disabled ? 'disabled' : 'active', !row.disabled)],
      ['Roles', (row) => badges(row.roles || [])], ['May', (row) => granted(row.rights).join(', ')],
      ['Signs in with', (row) => row.signs_in_with?.join(', ') || 'certificate or token'],
      ['Last seen', (row) => (row.last_seen ? `${moment(row.last_seen)} · ${row.last_door}` : '')],
      ['Refused', (row) => row.failures || ''],
      ['Attributes', (row) => (Object.keys(row.attributes || {}).length ? row.attributes : '')],
    ],
    actions: [
      { label: 'Edit', act: (row) => editUser(app, row, words()) },
      { label: 'Rights', act: (row) => {
        location.hash = `#/rules/${encodeURIComponent(row.name)}`
      } },
      { label: (row) => (row.disabled ? 'Enable' : 'Disable'), act: async (row) => {
        const question = `Disable ${row.name}? All that this user has open ends within a second.`
        if (!row.disabled && !await confirmed(question, 'Disable')) return
        await app.rows.patch(`${USERS}/${row.name}`, { disabled: !row.disabled })
        toast(row.disabled ? `${row.name} may sign in again` : `${row.name} is disabled`)
      } },
      { label: 'Remove', bad: true, act: async (row) => {
        const question = `Remove ${row.name}? All that this user has open ends, sessions too.`
        if (!await confirmed(question, 'Remove')) return
        await app.rows.delete(`${USERS}/${row.name}`)
        toast(`${row.name} is removed`)
      } },
    ],
    none: h('div', {}, h('b', {}, 'Nobody has to sign in yet.'),
      h('p', {}, 'Who reaches this server from this machine may do everything. With the first user, who is',
        ' an administrator, MQTT clients must sign in, and callers without a name may not administer.',
        ' It takes the setup code that the server printed when it started.'),
      h('div.row', {}, h('button.main', { type: 'button', onclick: () => firstUser(app) },
        'Make the first user'), h('span.soft', {}, 'or from a terminal:')),
      command('rowcast user add ann --role admin')),
  })
  const roles = rowsTable(app, ROLES, {
    key: (row) => row.name,
    columns: [['Role', 'name'], ['May', (row) => granted(row.grants).join(', ')], ['Note', 'note'],
      ['Users', (row) => String(row.users ?? '')]],
    actions: [
      { label: 'Edit', may: (row) => row.name !== 'admin', act: (row) => editRole(app, row) },
      { label: 'Remove', bad: true, may: (row) => row.name !== 'admin', act: async (row) => {
        if (!await confirmed(`Remove the role ${row.name}? Who has it keeps the word, for rules.`,
          'Remove')) return
        await app.rows.delete(`${ROLES}/${row.name}`)
      } },
    ],
    none: 'No roles yet.',
  })
  const words = () => [...new Set(['admin', ...roles.rows.keys()])]
  clear(main, h('div.row.head', {}, h('h1.wide', {}, 'Users'),
    h('button', { type: 'button', onclick: () => editRole(app, null) }, 'New role'),
    h('button.main', { type: 'button', onclick: () => (users.rows.size ? editUser(app, null, words())
      : firstUser(app)) }, 'New user')),
  users.node, section('Roles', roles.node),
  note(h('span.soft', {}, 'A role grants something to several, or is only a word for rules. What was',
    ' changed by whom is at ', h('a', { href: '#/topics/$AUDIT' }, '$AUDIT'), '.')))
  return () => { users.end(); roles.end() }
}

const PASSWORD = { name: 'password', label: 'Password', kind: 'password' }
const NAME = { name: 'name', label: 'Name', required: true }

/** With the first user everybody has to sign in: so does whoever made it here. */
function firstUser(app) {
  const code = { name: 'setup_code', label: 'Setup code', required: true,
    help: 'The server printed it when it started, as "first administrator".' }
  const fields = [code, { ...NAME, autocomplete: 'username' }, { ...PASSWORD, required: true }]
  return ask('The first user', fields, async ({ name, password, setup_code }) => {
    await app.rows.put(`${USERS}/${name}`, { password, setup_code, roles: ['admin'] })
    await app.signIn(name, password)
  }, { action: 'Make and sign in', intro: 'This user is an administrator, and may make others.' })
}

function editUser(app, row, words) {
  return ask(row ? row.name : 'New user', [
    ...(row ? [] : [NAME]),
    { ...PASSWORD, help: row ? 'Empty: it stays as it is. A new one ends what is open.'
      : 'Empty: a certificate or token lets the user in.' },
    { name: 'roles', label: 'Roles', kind: 'names', value: row?.roles, options: words },
    { name: 'grants', label: 'May, beside what roles grant', kind: 'checks', options: GRANTS,
      value: row ? granted(row.grants) : ['read', 'write'] },
    { name: 'attributes', label: 'Attributes', kind: 'json', value: row?.attributes,
      sample: '{"sites": ["north"]}', help: 'Rules can ask for them: ${user.sites}' },
  ], async (said) => {
    const value = { roles: said.roles, grants: grants(said.grants) }
    if (said.password) value.password = said.password
    const gone = Object.keys(row?.attributes || {}).filter((name) => !(name in (said.attributes || {})))
    value.attributes = { ...Object.fromEntries(gone.map((name) => [name, null])), ...said.attributes }
    if (row) await app.rows.patch(`${USERS}/${row.name}`, value)
    else await app.rows.put(`${USERS}/${said.name}`, value, { ifNoneMatch: '*' })
    toast(row ? 'Saved' : `${said.name} may sign in`)
  }, { action: row ? 'Save' : 'Make' })
}

function editRole(app, row) {
  return ask(row ? row.name : 'New role', [
    ...(row ? [] : [NAME]),
    { name: 'grants', label: 'May', kind: 'checks', options: GRANTS, value: granted(row?.grants),
      help: 'None: a word that rules can name.' },
    { name: 'note', label: 'Note', value: row?.note },
  ], async (said) => {
    await app.rows.put(`${ROLES}/${row ? row.name : said.name}`,
      { grants: grants(said.grants), note: said.note })
    toast('Saved')
  })
}
