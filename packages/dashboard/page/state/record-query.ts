import type { OutboxState, RecordQuery } from '../../src/api/types.ts'

export const states: readonly OutboxState[] = ['ready', 'waiting', 'leased', 'parked', 'published']

const texts = ['destination', 'type', 'id', 'messageId', 'orderingKey', 'error', 'cause', 'after'] as const
const numbers = ['minAge', 'maxAge', 'limit'] as const

/** Fields with other names or values than the API knows are ignored. */
export function parseRecordQuery(search: string): RecordQuery {
  const parameters = new URLSearchParams(search)
  const query: Record<string, string | number> = {}
  const state = states.find((known) => known === parameters.get('state'))
  if (state !== undefined) query['state'] = state
  for (const name of texts) {
    const value = parameters.get(name)
    if (value) query[name] = value
  }
  for (const name of numbers) {
    const value = Number(parameters.get(name))
    if (Number.isSafeInteger(value) && value > 0) query[name] = value
  }
  return query
}

/** `?state=parked&type=…`, or an empty string. */
export function formatRecordQuery(query: RecordQuery): string {
  const parameters = new URLSearchParams()
  for (const name of ['state', ...texts, ...numbers] as const) {
    const value = query[name]
    if (value !== undefined && value !== '') parameters.set(name, String(value))
  }
  return withMark(parameters)
}

/** A query string with its question mark; without those values that are undefined or empty. */
export function queryString(values: Readonly<Record<string, string | undefined>>): string {
  return withMark(new URLSearchParams(Object.entries(values).filter((entry): entry is [string, string] => Boolean(entry[1]))))
}

function withMark(parameters: URLSearchParams): string {
  return parameters.size === 0 ? '' : `?${parameters}`
}

/** The filter that is sent with an action on all matching records: the query without its page. */
export function filterOf(query: RecordQuery): Omit<RecordQuery, 'id' | 'after' | 'limit'> {
  const { id: _id, after: _after, limit: _limit, ...filter } = query
  return filter
}

/** Whether the query excludes records by anything else than their state. */
export function isNarrowed(query: RecordQuery): boolean {
  const { state: _state, ...filter } = filterOf(query)
  return query.id !== undefined || Object.values(filter).some((value) => value !== undefined)
}
