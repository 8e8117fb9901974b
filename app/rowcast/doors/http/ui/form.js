/** A form for a record, made of its table's schema; conditional, so that nobody overwrites unseen. */
import { clear, dialog, h, toast } from './dom.js'
import { keyOf, typeOf } from './shape.js'
import { pathOf } from './rowcast.js'
import { parsed, pretty } from './text.js'

/** Edit the record at a topic, or make one below a table if `fresh`. */
export async function editRecord(app, topic, { fresh = false } = {}) {
  const table = topic.split('/')[0]
  const schema = (await app.schemas())[table]
  let record = { value: undefined, cursor: null }
  if (!fresh) {
    try {
      record = schema ? await app.rows.get(topic) : await wholeOf(app, topic)
    } catch (error) {
      if (error.status !== 404) return toast(error.message, true)
    }
  }
  const isMap = record.value && typeof record.value === 'object' && !Array.isArray(record.value)
  const fields = schema && (fresh || record.value === undefined || isMap)
    ? fieldsOf(schema, record.value || {}, fresh ? null : topic.slice(table.length + 1)) : null
  return dialog(fresh ? `New ${table}` : topic, (box) => {
    const view = fields ? formView(fields) : rawView(record)
    const trouble = h('div', { role: 'alert' })
    const save = h('button.main', { type: 'submit' }, 'Save')
    const form = h('form', { noValidate: true, onsubmit: async (event) => {
      event.preventDefault()
      save.disabled = true
      try {
        await send(app, { topic, table, fresh, record, view })
        toast('Saved')
        box.close()
      } catch (error) {
        if (error.status === 412) await conflict(app, { topic, record, view, trouble, box })
        else view.wrong(error, trouble)
      }
      save.disabled = false
    } }, view.node, trouble, h('div.row', {}, h('span.grow'),
      h('button', { type: 'button', onclick: () => box.close() }, 'Cancel'), save))
    return form
  })
}

/** A record of no table, with its JSON as its writer wrote it: a number may have more digits than ours. */
async function wholeOf(app, topic) {
  const answer = await app.rows.request('GET', pathOf(topic))
  const type = answer.headers.get('content-type') || ''
  const cursor = answer.headers.get('etag')?.replace(/^W\/|"/g, '') ?? null
  const bytes = await answer.arrayBuffer()
  let text
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw new Error(`${topic} has ${bytes.byteLength} bytes that are no text; a form cannot edit them`)
  }
  return { text, value: type.includes('json') ? parsed(text) : text, cursor, type }
}

async function send(app, { topic, table, fresh, record, view }) {
  const value = view.value()
  if (fresh) {
    const id = view.id?.()
    if (id !== undefined) return app.rows.put(`${table}/${id}`, value, { ifNoneMatch: '*' })
    return app.rows.create(table, value)
  }
  if (view.raw) {
    const condition = record.cursor ? { 'if-match': `"${record.cursor}"` } : { 'if-none-match': '*' }
    const headers = { 'content-type': view.type(), ...condition }
    return app.rows.request('PUT', pathOf(topic), { body: value, headers })
  }
  if (record.cursor === null) return app.rows.put(topic, value, { ifNoneMatch: '*' })
  return app.rows.patch(topic, view.changes(), { ifMatch: record.cursor })
}

/** Somebody was faster: show what they wrote, and let the user decide. */
async function conflict(app, { topic, record, view, trouble, box }) {
  let theirs = { value: undefined, cursor: null }
  try {
    theirs = await app.rows.get(topic)
  } catch (error) {
    if (error.status !== 404) return toast(error.message, true)
  }
  clear(trouble, h('div.note', {},
    h('b', {}, theirs.cursor ? 'Somebody changed this record meanwhile. It is now:'
      : 'Somebody has deleted this record meanwhile.'),
    theirs.cursor ? h('pre', {}, pretty(theirs.value)) : null,
    h('div.row', {},
      h('button', { type: 'button', onclick: () => {
        box.close()
        editRecord(app, topic)
      } }, 'Begin anew from theirs'),
      h('button.bad', { type: 'button', onclick: () => {
        record.cursor = theirs.cursor
        clear(trouble, h('p', {}, 'Save again to write yours over it.'))
      } }, view.raw ? 'Write mine over it' : 'Put my changes on top'))))
  return undefined
}

/**
 * What may be written, by the schema, and what the record has beside it. What the server sets is left
 * out, and the key of a record that is there (`id`) is only shown: it is the record's place.
 */
function fieldsOf(schema, value, id) {
  const key = keyOf(schema)
  const names = [...Object.keys(schema.properties || {})]
  for (const name of Object.keys(value)) if (!names.includes(name)) names.push(name)
  return names.map((name) => {
    const said = schema.properties?.[name] || {}
    const types = [said.type].flat().filter((type) => type && type !== 'null')
    const required = schema.required?.includes(name)
    const { description = '', readOnly, enum: words } = said
    const isKey = name === key
    const fixed = isKey && id !== null
    return { name, description, readOnly, words, required, type: types[0], kind: typeOf(said), isKey, fixed,
      old: fixed ? value[name] ?? id : value[name] }
  }).filter((field) => !field.readOnly)
}

function formView(fields) {
  const inputs = fields.map((field) => ({ ...field, ...inputOf(field) }))
  const told = ({ name }) => inputs.find((one) => name === one.name || name.startsWith(`${one.name}.`) ||
    name.startsWith(`${one.name}[`))
  return {
    node: h('div', {}, inputs.map((one) => one.node)),
    id: () => inputs.find(({ isKey }) => isKey)?.read(),
    value: () => Object.fromEntries(inputs.filter(({ fixed }) => !fixed).map((one) => [one.name, one.read()])
      .filter(([, value]) => value !== undefined)),
    changes: () => Object.fromEntries(inputs.filter((one) => one.changed())
      .map((one) => [one.name, one.read() ?? null])),
    wrong(error, trouble) {
      for (const one of inputs) one.complain('')
      const rest = []
      for (const { path, message } of error.problems || []) {
        const one = told({ name: path })
        if (one) one.complain(message)
        else rest.push(`${path} ${message}`)
      }
      const general = error.problems?.length ? rest.join('; ') : error.message
      clear(trouble, general ? h('p.badtext', {}, general) : '')
      inputs.find((one) => one.node.classList.contains('wrong'))?.input.focus()
    },
  }
}

function inputOf({ name, description, type, kind, words, required, isKey, fixed, old }) {
  const id = `field-${name}`
  const isJson = !['string', 'integer', 'number', 'boolean'].includes(type) && !words
  const text = old === undefined || old === null ? ''
    : typeof old === 'string' && !isJson ? old : JSON.stringify(old)
  const options = words || (type === 'boolean' ? ['true', 'false'] : null)
  const input = options
    ? h('select', { id }, ['', ...options].map((word) => h('option', { value: word }, word || '–')))
    : isJson ? h('textarea', { id, rows: 2, placeholder: 'JSON' })
      : h('input', { id, inputMode: type === 'integer' || type === 'number' ? 'decimal' : 'text' })
  input.value = text
  const help = h('span.badtext', { id: `${id}-wrong`, 'aria-live': 'polite' })
  input.setAttribute('aria-describedby', help.id)
  if (fixed) input.readOnly = true
  const hint = fixed ? 'the key, which stays' : isKey ? `${kind}; empty: the server makes one` : kind
  const node = h('div.field', {}, h('label', { htmlFor: id }, name, required ? ' *' : '',
    h('span.soft', {}, `  ${hint}`)), input, help, description ? h('div.soft', {}, description) : null)
  return {
    input, node,
    changed: () => input.value !== text,
    complain(message) {
      node.classList.toggle('wrong', Boolean(message))
      help.textContent = message
    },
    read() {
      const said = input.value
      if (said === '') return undefined
      if (words) return said
      if (type === 'string') return said
      try {
        return JSON.parse(said)
      } catch {
        return said // the server says what it should be
      }
    },
  }
}

function rawView({ text, value, type = '' }) {
  const isJson = type === '' || type.includes('json')
  const area = h('textarea', { rows: 10, 'aria-label': 'Value' })
  const isOurs = isJson && JSON.stringify(value) === text // then nothing changes when it is laid out
  area.value = isOurs ? JSON.stringify(value, null, 2) : text ?? ''
  const isText = () => isJson && parsed(area.value) === undefined
  return {
    raw: true,
    node: h('div.field', {}, area),
    type: () => (isJson ? type || 'application/json' : type),
    value: () => (isText() ? JSON.stringify(area.value) : area.value),
    wrong: (error, trouble) => clear(trouble, h('p.badtext', {}, error.message)),
  }
}
