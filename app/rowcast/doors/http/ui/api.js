/** What the server can be asked, from its OpenAPI document: works without any other host. */
import { clear, command, h } from './dom.js'

const VERBS = ['get', 'put', 'patch', 'post', 'delete', 'head', 'options']

export async function apiPage(app, main, [chosen]) {
  const document = await (await app.rows.request('GET', '/openapi.json')).json()
  const find = h('input.wide', { type: 'search', placeholder: 'Find', 'aria-label': 'Find a path',
    value: chosen || '', oninput: () => draw() })
  const list = h('div')
  const draw = () => clear(list, Object.entries(document.paths)
    .filter(([path]) => path.toLowerCase().includes(find.value.toLowerCase()))
    .map(([path, item]) => pathOf(document, app, path, item)))
  clear(main, h('h1', {}, 'API'),
    h('p', {}, document.info.description || '', ' The document itself: ',
      h('a', { href: '/openapi.json' }, '/openapi.json'), '; what can be watched and sent by MQTT, SSE ',
      'and WebSocket: ', h('a', { href: '/asyncapi.json' }, '/asyncapi.json')), find, list)
  find.style.marginBottom = '12px'
  draw()
}

function pathOf(document, app, path, item) {
  const verbs = VERBS.filter((verb) => item[verb])
  return h('details.card', {}, h('summary', {}, h('b.mono', {}, path), '  ',
    h('span.soft', {}, verbs.join(' ').toUpperCase())),
  verbs.map((verb) => operation(document, app, path, verb, item)))
}

function operation(document, app, path, verb, item) {
  const said = item[verb]
  const own = [...(item.parameters || []), ...(said.parameters || [])]
    .map((one) => follow(document, one))
  const body = schemaOf(document, follow(document, said.requestBody)?.content)
  const answer = schemaOf(document, follow(document, said.responses?.['200'])?.content)
  const data = body && verb !== 'get' ? ` \\\n  -H 'Content-Type: application/json' -d '{…}'` : ''
  return h('section', {}, h('h2', {}, verb.toUpperCase()),
    h('p', {}, said.summary || '', ' ', said.description || ''),
    own.length ? h('ul', {}, own.map((one) => h('li', {}, h('code', {}, one.name),
      h('span.soft', {}, ` ${one.in}${one.required ? ', required' : ''} `), one.description || ''))) : null,
    command(app.curl(`-X ${verb.toUpperCase()} '${app.rows.url}${path}'${data}`)),
    body ? h('details', {}, h('summary', {}, 'What is sent'), pre(body)) : null,
    answer ? h('details', {}, h('summary', {}, 'What comes back'), pre(answer)) : null)
}

const pre = (schema) => h('pre', {}, JSON.stringify(schema, null, 2))

function schemaOf(document, content) {
  const schema = content?.['application/json']?.schema
  if (schema?.items) return { ...schema, items: follow(document, schema.items) }
  return schema && follow(document, schema)
}

/** A part of the document, also where it only says in which other place it is. */
function follow(document, part) {
  if (!part?.$ref) return part
  return part.$ref.slice(2).split('/').reduce((at, name) => at?.[name], document)
}
