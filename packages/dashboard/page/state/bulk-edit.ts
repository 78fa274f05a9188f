import type { RecordEdit } from '../../src/api/types.ts'

export const attributeKinds = ['text', 'number', 'boolean', 'removed'] as const

/** A change of one attribute, as texts. */
export interface AttributeChange {
  readonly name: string
  /** What the attribute becomes. Several records may have it with different types, so that the type of the old value says nothing. */
  readonly kind: (typeof attributeKinds)[number]
  readonly value: string
}

/** A change of several records while it is being written. What is empty changes nothing. */
export interface BulkEdit {
  readonly destination: string
  /** The last one is to be filled in. */
  readonly attributes: readonly AttributeChange[]
}

const noChange: AttributeChange = { name: '', kind: 'text', value: '' }

export const emptyBulkEdit: BulkEdit = { destination: '', attributes: [noChange] }

/** With another change at this index, and an empty one at the end. */
export function withAttribute(edit: BulkEdit, index: number, change: AttributeChange): BulkEdit {
  const attributes = edit.attributes.map((each, at) => (at === index ? change : each))
  return { ...edit, attributes: attributes.at(-1)?.name === '' ? attributes : [...attributes, noChange] }
}

/** For the API; `undefined` if it changes nothing. */
export function editOfAll({ destination, attributes }: BulkEdit): RecordEdit | undefined {
  const changes = attributes.filter(({ name }) => name.trim() !== '').map((change) => [change.name.trim(), attributeValue(change)])
  if (destination.trim() === '' && changes.length === 0) return undefined
  return {
    ...(destination.trim() !== '' && { destination: destination.trim() }),
    ...(changes.length > 0 && { attributes: Object.fromEntries(changes) }),
  }
}

/** Why the edit cannot be saved. Empty if it only changes nothing yet, which needs no explanation. */
export function bulkEditProblem(edit: BulkEdit): string | undefined {
  const named = new Set<string>()
  for (const { name: text, kind, value } of edit.attributes) {
    const name = text.trim()
    if (name === '') {
      if (value !== '') return 'The new attribute needs a name.'
      continue
    }
    if (named.has(name)) return `The attribute ${name} is changed twice.`
    named.add(name)
    if (name === 'id') return 'The message id can be edited for one record at a time: consumers would take the records for one message.'
    if (kind === 'number' && (value.trim() === '' || !Number.isFinite(Number(value)))) return `The attribute ${name} must be a number.`
    if (kind === 'boolean' && value !== 'true' && value !== 'false') return `The attribute ${name} must be true or false.`
  }
  return editOfAll(edit) === undefined ? '' : undefined
}

function attributeValue({ kind, value }: AttributeChange): string | number | boolean | null {
  if (kind === 'removed') return null
  if (kind === 'number') return Number(value)
  return kind === 'boolean' ? value === 'true' : value
}
