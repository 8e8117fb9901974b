/** A dialog of named fields, sent as a whole; what is refused is said in it, and nothing typed is lost. */
import { clear, dialog, h } from './dom.js'

/**
 * Ask for fields, each `{ name, label, kind, value, help, options, required }`; `send(values)` may
 * refuse. Kinds: text, password, area, json, names (a list), choice, checks (a list), switch.
 */
export function ask(title, fields, send, { action = 'Save', intro } = {}) {
  return dialog(title, (box) => {
    const made = fields.map((field) => ({ ...field, ...makers[field.kind || 'text'](field) }))
    const wrong = h('p.badtext', { role: 'alert' })
    const save = h('button.main', { type: 'submit' }, action)
    return h('form', { noValidate: true, onsubmit: async (event) => {
      event.preventDefault()
      wrong.textContent = ''
      save.disabled = true
      try {
        await send(Object.fromEntries(made.map((one) => [one.name, one.read()])))
        box.close('done')
      } catch (error) {
        wrong.textContent = error.message
      }
      save.disabled = false
    } }, intro ? h('p', {}, intro) : null, made.map((one) => one.node), wrong,
    h('div.row', {}, h('span.grow'),
      h('button', { type: 'button', onclick: () => box.close() }, 'Cancel'), save))
  })
}

function labelled(field, input, ...more) {
  input.id ||= `ask-${field.name}`
  return h('div.field', {}, h('label', { htmlFor: input.id }, field.label), input, ...more,
    field.help ? h('div.soft', {}, field.help) : null)
}

function written(field, input, read) {
  if (field.required) input.setAttribute('aria-required', 'true')
  if (field.fixed) input.readOnly = true
  return { node: labelled(field, input), read: () => {
    if (field.required && !input.value.trim()) {
      input.focus()
      throw new Error(`${field.label}: say something here`)
    }
    return read(input.value)
  } }
}

const makers = {
  text: (field) => written(field, h('input', { value: field.value ?? '',
    autocomplete: field.autocomplete || 'off' }), (text) => text.trim()),
  password: (field) => written(field, h('input', { type: 'password', value: '',
    autocomplete: field.autocomplete || 'new-password' }), (text) => text),
  area: (field) => written(field, h('textarea', { rows: 6, value: field.value ?? '' }), (text) => text),
  json: (field) => written(field, h('textarea', { rows: 3, value: field.value === undefined ? ''
    : JSON.stringify(field.value) }), (text) => {
    if (!text.trim()) return undefined
    try {
      return JSON.parse(text)
    } catch {
      throw new Error(`${field.label}: this is no JSON, such as ${field.sample || '{"sites": ["north"]}'}`)
    }
  }),
  choice(field) {
    const input = h('select', {}, field.options.map((word) => h('option', { value: word }, word)))
    input.value = field.value ?? field.options[0]
    return { node: labelled(field, input), read: () => input.value }
  },
  names(field) {
    const input = h('input', { value: (field.value || []).join(', ') })
    const read = () => input.value.split(',').map((word) => word.trim()).filter(Boolean)
    const chips = h('div.chips')
    const draw = () => clear(chips, (field.options || []).map((word) => h('button', { type: 'button',
      'aria-pressed': String(read().includes(word)), onclick: () => {
        const words = read()
        input.value = (words.includes(word) ? words.filter((one) => one !== word)
          : [...words, word]).join(', ')
        draw()
      } }, word)))
    input.addEventListener('input', draw)
    draw()
    return { node: labelled(field, input, chips), read }
  },
  checks(field) {
    const boxes = field.options.map((word) => [word, h('input', { type: 'checkbox',
      checked: field.value.includes(word), id: `ask-${field.name}-${word}` })])
    return {
      node: h('fieldset.field', {}, h('legend', {}, field.label), h('div.row', {}, boxes.map(
        ([word, box]) => h('label.check', { htmlFor: box.id }, box, word))),
      field.help ? h('div.soft', {}, field.help) : null),
      read: () => boxes.filter(([, box]) => box.checked).map(([word]) => word),
    }
  },
  switch(field) {
    const input = h('input', { type: 'checkbox', checked: Boolean(field.value), id: `ask-${field.name}` })
    return { node: h('div.field', {}, h('label.check', { htmlFor: input.id }, input, field.label),
      field.help ? h('div.soft', {}, field.help) : null), read: () => input.checked }
  },
}
