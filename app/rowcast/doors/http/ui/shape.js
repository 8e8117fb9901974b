/** What a table's schema in the OpenAPI document says of its attributes. */

/** The key's attribute: the only one that is neither null nor asked for; of others it is their first. */
export function keyOf(schema) {
  const all = Object.entries(schema.properties || {})
  const found = all.find(([name, { type, readOnly }]) =>
    typeof type === 'string' && !readOnly && !schema.required?.includes(name))
  return found?.[0] ?? all[0]?.[0] ?? 'id'
}

/** The name of a type, as schema.graphql's reader knows it: an inner type by its own name. */
export function typeOf({ type, format, $ref, items, anyOf }) {
  if (anyOf) return typeOf(anyOf[0])
  if ($ref) return $ref.split('/').at(-1)
  const known = [type].flat().filter((one) => one && one !== 'null')[0] || 'any'
  if (known === 'array') return `[${typeOf(items || {})}]`
  return format && format !== 'int32' ? `${known} (${format})` : known
}
