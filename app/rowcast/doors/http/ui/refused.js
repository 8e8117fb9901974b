/** What was refused, the newest first: a value that does not fit, or a caller without the right. */
import { calmly, clear, command, h, time } from './dom.js'
import { amount, brief } from './text.js'
import { note, refusal, section } from './rows.js'

export const REFUSED = '$AUDIT/refused'
const KEPT = 100
const DRAW_MS = 200

/** Give `{ node, close }`; nothing for a user who may not read it. */
export function refusedSection(app) {
  if (!app.reads(REFUSED)) return { node: null, close() {} }
  const box = h('div', {}, none())
  const kept = []
  const draw = calmly(() => clear(box, h('div.card', {}, h('ul.log', {}, kept.toReversed().map(line)))), DRAW_MS)
  const heard = app.rows.subscribe(`${REFUSED}/#`, (event) => {
    if (!event.value?.reason) return
    kept.push(event.value)
    kept.splice(0, Math.max(0, kept.length - KEPT))
    draw()
  }, { last: KEPT, onState: (now, problem) => {
    if (now === 'refused') clear(box, inBox(refusal(problem)))
    else app.told(now)
  } })
  const node = section('Refused', box)
  node.dataset.part = 'refused'
  return { node, close: () => heard.close() }
}

function line({ at, action, client_id, user, door, peer, topic, reason, more }) {
  const who = client_id || (user === 'anonymous' ? peer : user) || ''
  const rest = [reason, door, more && `${amount(more)} more since the one before`].filter(Boolean).join(' · ')
  return h('li', {}, time(Date.parse(at)), h('span.kind', {}, action),
    h('span.body', {}, h('span.at', {}, [who, topic].filter(Boolean).join(' at ')), ' ', brief(rest, 400)))
}

const none = () => inBox(h('b', {}, 'Nothing was refused.'), h('p', {},
  'A message that does not fit its table is listed here with the reason, which its client is not told',
  ' before MQTT 5; so is who may not read, write, administer or sign in.'),
command('rowcast tail --refused'))

const inBox = (...said) => h('div.tablebox', {}, note(...said))
