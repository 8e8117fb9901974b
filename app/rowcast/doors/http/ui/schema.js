/** What is declared: each table as schema.graphql says it, its attributes, and where it is. */
import { clear, command, h } from './dom.js'
import { typeOf } from './shape.js'
import { amount } from './text.js'
import { badge, note } from './rows.js'

export async function schemaPage(app, main) {
  const [tables, schemas, rows] = await Promise.all([app.tables(), app.schemas(), declared(app)])
  const own = tables.filter((name) => !name.startsWith('mqtt_'))
  clear(main, h('h1', {}, 'Schema'),
    own.length ? null : note('No tables are declared. Write schema.graphql, and start the server again:',
      command('type Dog @table @export {\n  id: ID @primaryKey\n  name: String!\n}')),
    own.map((name) => card(app, name, schemas[name] || {}, rows?.get(name))),
    rows ? null : h('p.soft', {}, 'Directives are shown to administrators, who may see who may do what.'))
}

/** The declarations, by the path where each table is; null for those who may not see them. */
async function declared(app) {
  if (!app.reads('$SYS/schema')) return null
  try {
    const { rows } = await app.rows.query('$SYS/schema')
    return new Map(rows.filter((row) => row.path !== null).map((row) => [row.path, row]))
  } catch (error) {
    if ([401, 403, 404].includes(error.status)) return null
    throw error
  }
}

function card(app, name, schema, row) {
  const count = h('span.soft')
  app.rows.query(name, 'count').then(({ rows }) => {
    count.textContent = `${amount(rows.count)} record${rows.count === 1 ? '' : 's'}`
  }, () => {})
  const required = schema.required || []
  const lines = Object.entries(schema.properties || {})
  return h('section.card', { 'data-table': name },
    h('div.row', {}, h('h2.wide', {}, h('a', { href: `#/records/${encodeURIComponent(name)}` }, name)), count),
    schema.description ? h('p', {}, schema.description) : null,
    lines.length ? h('table.attributes', {}, h('tbody', {}, lines.map(([attribute, said]) => {
      const facts = row?.attributes?.find((one) => one.name === attribute)
      return h('tr', {}, h('td', {}, h('b', {}, attribute), required.includes(attribute) ? ' *' : ''),
        h('td', {}, h('code', {}, facts?.type || typeOf(said))),
        h('td', {}, (facts?.directives || []).map((one) => [badge(one), ' '])), h('td', {},
          said.description || ''))
    }))) : note('It takes any content.'),
    row?.text ? h('details', {}, h('summary', {}, 'As it is declared'), h('pre', {}, row.text)) : null)
}
