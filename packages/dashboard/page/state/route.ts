import type { RecordQuery } from '../../src/api/types.ts'
import { formatRecordQuery, parseRecordQuery, queryString } from './record-query.ts'

/** A page and what it shows. `undefined` for a store, an inbox or a dead letter queue: the first. */
export type Route =
  | { readonly page: 'overview' }
  | { readonly page: 'records'; readonly store: string; readonly query: RecordQuery }
  | { readonly page: 'record'; readonly store: string; readonly id: string }
  | {
      readonly page: 'inbox'
      readonly inbox?: string | undefined
      readonly id?: string | undefined
      readonly consumer?: string | undefined
      readonly source?: string | undefined
    }
  | { readonly page: 'dead-letters'; readonly name?: string | undefined }
  | { readonly page: 'dead-letter'; readonly name: string; readonly id: string }
  | { readonly page: 'audit'; readonly store?: string | undefined }
  | { readonly page: 'doctor' }
  | { readonly page: 'unknown' }

/** Reads the part of the address from its `#` on. */
export function parseRoute(hash: string): Route {
  const [path = '', search = ''] = splitOnce(hash.replace(/^#?\/?/, ''), '?')
  const parts = decodedParts(path)
  if (parts === undefined) return { page: 'unknown' }
  const [first, store, third, id] = parts
  const parameters = new URLSearchParams(search)
  const value = (name: string) => parameters.get(name) || undefined

  if (first === 'stores' && store && third === 'records') {
    if (parts.length === 3) return { page: 'records', store, query: parseRecordQuery(search) }
    if (parts.length === 4 && id) return { page: 'record', store, id }
  }
  if (first === 'dead-letters' && store && third && parts.length === 3) return { page: 'dead-letter', name: store, id: third }
  if (parts.length > 1) return { page: 'unknown' }
  if (first === '') return { page: 'overview' }
  if (first === 'inbox')
    return { page: 'inbox', inbox: value('inbox'), id: value('id'), consumer: value('consumer'), source: value('source') }
  if (first === 'dead-letters') return { page: 'dead-letters', name: value('name') }
  if (first === 'audit') return { page: 'audit', store: value('store') }
  if (first === 'doctor') return { page: 'doctor' }
  return { page: 'unknown' }
}

export function formatRoute(route: Route): string {
  switch (route.page) {
    case 'records':
      return `#/stores/${encodeURIComponent(route.store)}/records${formatRecordQuery(route.query)}`
    case 'record':
      return `#/stores/${encodeURIComponent(route.store)}/records/${encodeURIComponent(route.id)}`
    case 'inbox': {
      const { inbox, id, consumer, source } = route
      return `#/inbox${queryString({ inbox, id, consumer, source })}`
    }
    case 'dead-letters':
      return `#/dead-letters${queryString({ name: route.name })}`
    case 'dead-letter':
      return `#/dead-letters/${encodeURIComponent(route.name)}/${encodeURIComponent(route.id)}`
    case 'audit':
      return `#/audit${queryString({ store: route.store })}`
    case 'doctor':
      return '#/doctor'
    default:
      return '#/'
  }
}

function splitOnce(text: string, separator: string): readonly string[] {
  const at = text.indexOf(separator)
  return at === -1 ? [text] : [text.slice(0, at), text.slice(at + 1)]
}

/** `undefined` for a path that is not valid percent-encoding. */
function decodedParts(path: string): readonly string[] | undefined {
  try {
    return path.replace(/\/$/, '').split('/').map(decodeURIComponent)
  } catch {
    return undefined
  }
}
