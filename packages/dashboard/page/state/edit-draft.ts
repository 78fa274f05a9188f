import type { RecordDetail, RecordEdit } from '../../src/api/types.ts'
import { compactJson, indentedJson, jsonProblem } from '../text/json-text.ts'
import { visibleLines } from '../text/visible-text.ts'

/** A record as its fields are being edited, as texts. */
export interface EditDraft {
  readonly destination: string
  readonly attributes: Readonly<Record<string, string>>
  readonly added: { readonly name: string; readonly value: string }
  /** `undefined` if it cannot be edited. */
  readonly payload: string | undefined
}

export function startDraft({ destination, attributes, payload }: RecordDetail): EditDraft {
  return {
    destination,
    attributes: Object.fromEntries(Object.entries(attributes).map(([name, value]) => [name, String(value)])),
    added: { name: '', value: '' },
    payload: payload === undefined || payload.truncated || payload.kind === 'binary' ? undefined : editable(payload.kind, payload.content),
  }
}

/** In JSON the escapes of invisible characters have the same meaning as the characters. */
function editable(kind: 'json' | 'text', content: string): string {
  return kind === 'json' ? visibleLines(indentedJson(content)) : content
}

/** The changes; `undefined` if there are none. */
export function editOf(record: RecordDetail, draft: EditDraft): RecordEdit | undefined {
  const start = startDraft(record)
  const attributes: Record<string, string | number | boolean> = {}
  for (const [name, value] of Object.entries(draft.attributes))
    if (value !== start.attributes[name]) attributes[name] = typed(value, record.attributes[name])
  if (draft.added.name.trim() !== '') attributes[draft.added.name.trim()] = draft.added.value
  const { payload } = record
  const edit: RecordEdit = {
    ...(draft.destination !== start.destination && { destination: draft.destination }),
    ...(Object.keys(attributes).length > 0 && { attributes }),
    ...(payload !== undefined &&
      draft.payload !== undefined &&
      draft.payload !== start.payload && { payload: { kind: payload.kind, content: written(payload, draft.payload) } }),
  }
  return Object.keys(edit).length > 0 ? edit : undefined
}

/** A payload that had one line keeps one. */
function written({ kind, content }: { readonly kind: string; readonly content: string }, edited: string): string {
  return kind === 'json' && !content.includes('\n') ? compactJson(edited) : edited
}

/** Why the draft cannot be saved. */
export function editProblem(record: RecordDetail, draft: EditDraft): string | undefined {
  if (draft.destination.trim() === '') return 'The destination must not be empty.'
  if (draft.added.name.trim() === '' && draft.added.value !== '') return 'The new attribute needs a name.'
  for (const [name, value] of Object.entries(draft.attributes)) {
    const original = record.attributes[name]
    if (typeof original === 'number' && (value.trim() === '' || !Number.isFinite(Number(value))))
      return `The attribute ${name} must be a number.`
    if (typeof original === 'boolean' && value !== 'true' && value !== 'false') return `The attribute ${name} must be true or false.`
  }
  const problem = record.payload?.kind === 'json' && draft.payload !== undefined ? jsonProblem(draft.payload) : undefined
  return problem === undefined ? undefined : `The payload is not valid JSON: ${problem}`
}

/** An edited attribute keeps its type. */
function typed(value: string, original: string | number | boolean | undefined): string | number | boolean {
  if (typeof original === 'number') return Number(value)
  return typeof original === 'boolean' ? value === 'true' : value
}
