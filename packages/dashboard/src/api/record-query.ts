import type { OutboxFilter, OutboxState } from '@ackord/outbox'
import { invalid } from '../http/api-failure.ts'
import { type Fields, optional, readChoice, readFields, readNumber, readText } from './read-input.ts'

export const maxIdLength = 1000
const maxTextLength = 2000
/** A text that is encrypted is longer. */
export const maxReferenceLength = 4000
/** A hundred years. */
const maxAgeLimit = 100 * 365 * 24 * 60 * 60 * 1000
const defaultLimit = 50
const maxLimit = 200

const states: readonly OutboxState[] = ['ready', 'waiting', 'leased', 'parked', 'published']
const texts = ['destination', 'type', 'orderingKey', 'messageId', 'cause', 'error'] as const
const ages = ['minAge', 'maxAge'] as const
const filterFields: readonly string[] = ['state', ...texts, ...ages]

/** Returns the text that a reference stands for; see `SealedTexts`. */
export type Resolve = (reference: string) => string

/** The filter of an action. */
export function readFilter(value: unknown, resolve: Resolve): OutboxFilter {
  return filterOf(readFields(value, 'filter', filterFields), resolve)
}

function filterOf(fields: Fields, resolve: Resolve): OutboxFilter {
  const filter: Record<string, string | number> = {}
  const add = (name: string, value: string | number | undefined) => {
    if (value !== undefined) filter[name] = value
  }
  add(
    'state',
    optional(fields['state'], (value) => readChoice(value, 'state', states)),
  )
  for (const name of texts)
    add(
      name,
      optional(fields[name], (value) => readText(resolve(readText(value, name, maxReferenceLength)), name, maxTextLength)),
    )
  for (const name of ages)
    add(
      name,
      optional(fields[name], (value) => readNumber(value, name, { min: 0, max: maxAgeLimit })),
    )
  return filter
}

export interface ReadRecordQuery {
  readonly filter: OutboxFilter
  readonly id: string | undefined
  readonly after: string | undefined
  readonly limit: number
}

/** The query of a list. Empty parameters count as missing. */
export function readRecordQuery(parameters: URLSearchParams, resolve: Resolve): ReadRecordQuery {
  const fields = readFields(fieldsOf(parameters), 'The query', [...filterFields, 'id', 'after', 'limit'])
  return {
    filter: filterOf(fields, resolve),
    id: optional(fields['id'], (value) => readText(value, 'id', maxIdLength)),
    after: optional(fields['after'], (value) => readText(value, 'after', maxTextLength)),
    limit: optional(fields['limit'], (value) => readNumber(value, 'limit', { min: 1, max: maxLimit })) ?? defaultLimit,
  }
}

const numbers: ReadonlySet<string> = new Set([...ages, 'limit'])

/** The parameters with numbers where the API has them. A parameter that is given twice is refused: only one of the values could be meant. */
function fieldsOf(parameters: URLSearchParams): Fields {
  const fields: Record<string, string | number> = {}
  for (const [name, value] of parameters) {
    if (Object.hasOwn(fields, name)) throw invalid(`The query has the parameter ${JSON.stringify(name)} twice.`)
    if (value === '') continue
    Object.defineProperty(fields, name, { value: numbers.has(name) ? Number(value) : value, enumerable: true })
  }
  return fields
}
