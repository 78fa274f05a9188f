import { AckordError, describeValue } from '../errors.ts'
import { escapeText } from '../escape-text.ts'

/** Values that CloudEvents supports: strings, numbers, booleans, instants, bytes. */
export type AttributeValue = string | number | boolean | Date | Uint8Array

/** A message's metadata under CloudEvents names. Never changed in place: `message.withAttributes()` returns a copy. */
export interface Attributes {
  /** Unique together with `source`. */
  readonly id?: string | undefined
  readonly type?: string | undefined
  readonly source?: string | undefined
  readonly specversion?: string | undefined
  readonly subject?: string | undefined
  /** An instant, or its RFC 3339 string. */
  readonly time?: Date | string | undefined
  readonly datacontenttype?: string | undefined
  readonly dataschema?: string | undefined
  /** The ordering key: messages with the same key are handled in order, where order is configured. */
  readonly partitionkey?: string | undefined
  readonly correlationid?: string | undefined
  /** The instant from which on the message is no longer worth handling. */
  readonly expirytime?: Date | string | undefined
  readonly traceparent?: string | undefined
  readonly tracestate?: string | undefined
  // Catches common mistakes: CloudEvents names are lower case.
  readonly specVersion?: never
  readonly dataContentType?: never
  readonly dataSchema?: never
  readonly partitionKey?: never
  readonly correlationId?: never
  readonly expiryTime?: never
  readonly traceParent?: never
  readonly traceState?: never
  readonly [extension: string]: AttributeValue | undefined
}

const requiredNames: ReadonlySet<string> = new Set(['id', 'type', 'source', 'specversion'])
// Frozen: shared by all complete messages.
const none: readonly string[] = Object.freeze([])
// One lookup for each attribute of each stored message.
const knownNames: ReadonlyMap<string, 'text' | 'instant' | 'any'> = new Map([
  ['id', 'text'],
  ['type', 'text'],
  ['source', 'text'],
  ['specversion', 'text'],
  ['subject', 'text'],
  ['datacontenttype', 'text'],
  ['dataschema', 'text'],
  ['partitionkey', 'text'],
  ['correlationid', 'text'],
  ['time', 'instant'],
  ['expirytime', 'instant'],
  ['traceparent', 'any'],
  ['tracestate', 'any'],
])

/** Names of the required attributes that are absent or empty. */
export function missingAttributes(attributes: Attributes): readonly string[] {
  let missing: string[] | undefined
  // A list is created only if something is missing: this runs for every stored message.
  for (const name of requiredNames) {
    if (attributes[name] !== undefined && attributes[name] !== '') continue
    missing ??= []
    missing.push(name)
  }
  return missing ?? none
}

/** Throws unless every known attribute has its type and every other one a type that CloudEvents supports. `owner` is called only then. */
export function checkAttributes(
  attributes: Attributes,
  owner: string | (() => string),
  options: { readonly retryable?: boolean } = {},
): void {
  for (const name in attributes) {
    const value: unknown = attributes[name]
    const problem = problemOf(name, value)
    if (problem === undefined) continue
    const whose = typeof owner === 'string' ? owner : owner()
    throw new AckordError('ACKORD_INVALID_ATTRIBUTES', `Attribute '${escapeText(name, 100)}' of ${whose} ${problem}.`, options)
  }
}

function problemOf(name: string, value: unknown): string | undefined {
  const kind = knownNames.get(name)
  if (kind === 'text') {
    return value === undefined || typeof value === 'string' ? undefined : `must be a string; it is ${describeValue(value)}`
  }
  if (kind === 'instant') {
    if (value === undefined || isInstant(value)) return undefined
    const found = typeof value === 'string' ? 'a string of another format' : describeValue(value)
    return `must be a valid Date or an RFC 3339 string; it is ${found}`
  }
  const meant = name.toLowerCase()
  if (meant !== name && knownNames.has(meant)) return `must be written in lower case: '${meant}'`
  if (value === undefined) return undefined
  if (isDataMember(name)) return 'must have another name: CloudEvents reserves it for the data'
  return isAttributeValue(value) ? undefined : `must be a string, number, boolean, Date or bytes; it is ${describeValue(value)}`
}

let lastInstant: unknown

/** Outputs of one millisecond have the same time, and parsing it again would be half the cost of their check. */
function isInstant(value: unknown): boolean {
  if (typeof value === 'string' && value === lastInstant) return true
  if (parseInstant(value) === undefined) return false
  if (typeof value === 'string') lastInstant = value
  return true
}

/** Sets an attribute of a message under construction. The name may come from a sender: an assignment to `__proto__` would replace the object's prototype. */
export function setAttribute(attributes: Record<string, AttributeValue>, name: string, value: AttributeValue): void {
  if (name === '__proto__') Object.defineProperty(attributes, name, { value, enumerable: true, configurable: true, writable: true })
  else attributes[name] = value
}

/** Whether the structured form has the data under this name, so that no attribute can have it. */
export function isDataMember(name: string): boolean {
  return name === 'data' || name === 'data_base64'
}

function isAttributeValue(value: unknown): value is AttributeValue {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return true
    case 'number':
      return Number.isFinite(value)
    default:
      return value instanceof Uint8Array || (value instanceof Date && !Number.isNaN(value.getTime()))
  }
}

const rfc3339 = /^(\d{4})-(\d{2})-(\d{2})[Tt ]\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:[Zz]|[+-]\d{2}:\d{2})$/

/** Parses a Date or an RFC 3339 string as an instant; anything else is `undefined`. */
export function parseInstant(value: unknown): Date | undefined {
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? undefined : value
  const parts = typeof value === 'string' ? rfc3339.exec(value) : null
  if (parts === null) return undefined
  const [text, year, month, day] = parts
  // Date.parse accepts 30 February as 2 March.
  if (Number(day) > 28 && Number(day) > new Date(Date.UTC(Number(year), Number(month), 0)).getUTCDate()) return undefined
  const time = Date.parse(text)
  return Number.isNaN(time) ? undefined : new Date(time)
}
