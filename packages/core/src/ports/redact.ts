import { causesOf, describeValue } from '../errors.ts'
import { escapeText } from '../escape-text.ts'
import { type Frames, framesOf } from './stack-frames.ts'

/** The maximum length of an error's message. */
const maxMessageLength = 4000
/** The maximum length of a text field in a log line. */
const maxFieldLength = 1000
const maxEntries = 100
const maxDepth = 6
const maxFrames = 50

/** The part after the scheme of a URL in a text, up to a space or a quote; a password may contain quotes. */
const urls = /:\/\/((?:[^\s/?#'"`<>:]*:[^\s/?#]*@)?[^\s'"`<>]+)/g
/** HTTP URLs, also with leading white space, or without slashes: `fetch` accepts them. */
const wholeUrl = /^\s*([a-z][a-z0-9+.-]*:\/\/|https?:[\\/]*)(.*)$/is

/** Reduces every URL in the text to scheme, host and path: user, password, query and fragment may be secrets. */
export function redactUrls(text: string): string {
  return text.includes('://') ? text.replace(urls, (_, rest: string) => `://${withoutSecrets(rest)}`) : text
}

/**
 * A destination in the form for log lines, metric labels, errors and stored texts. With `httpPublisher()` a destination may be a URL with a password
 * or token. Also limited in length and on one line.
 */
export function redactDestination(destination: string): string {
  const [, scheme, rest] = wholeUrl.exec(destination) ?? []
  return escapeText(scheme === undefined || rest === undefined ? redactUrls(destination) : scheme + withoutSecrets(rest))
}

/** `rest` is the part after the first `://`. It may contain further URLs: a list of servers, or a URL in the path of another one. */
function withoutSecrets(rest: string): string {
  const parts = rest.split('://')
  let shown = ''
  for (const [index, part] of parts.entries()) {
    const isLast = index === parts.length - 1
    const host = withoutUser(part, isLast)
    const end = endOf(host, /[?#]/)
    // Everything after a query or fragment belongs to it, whatever it looks like.
    if (end < host.length) return `${shown}${host.slice(0, end)}${host.charAt(end)}…`
    shown += isLast ? host : `${host}://`
  }
  return shown
}

function withoutUser(part: string, isLast: boolean): string {
  const authority = part.slice(0, endOf(part, /[/?#]/))
  const start = authority.lastIndexOf('@') + 1
  // A password with a slash or a question mark in it ends up in the position of the port.
  if (start > 0 || !/:(?!\d*$)/.test(authority) || authority.startsWith('[')) return part.slice(start)
  const end = part.lastIndexOf('@') + 1
  // Without an @ it is the first half of a password that contains ://.
  return end === 0 && !isLast ? '…' : part.slice(end)
}

function endOf(text: string, delimiter: RegExp): number {
  const end = text.search(delimiter)
  return end === -1 ? text.length : end
}

/**
 * Properties in which drivers, query builders and HTTP clients keep statements, parameters, rows, commands and headers: pg's `detail` quotes
 * the row, mysql2's `sql` the whole statement, ioredis' `command` its arguments.
 */
const secretProperties: ReadonlySet<string> = new Set(
  `args arguments authorization bindings body command config cookie cookies data detail details fields headers hint input instance internalquery meta
  options parameters params password payload query rawheaders record req request res response row rows secret sql sqlmessage statement text token
  value values where`.split(/\s+/),
)

/** The message of an error for use outside the process: without the values that databases and query builders quote, limited in length, on one line. */
export function messageOf(error: Error): string {
  const { message } = error
  if (message === '' && error instanceof AggregateError) return innerMessages(error)
  return typeof message === 'string' ? safeText(withoutValues(message, error), maxMessageLength) : ''
}

/** Node's error for a host that refused the connection at each of its addresses has no message of its own. */
function innerMessages({ errors }: AggregateError): string {
  const inner = errors.filter((each) => each instanceof Error && each.message !== '').slice(0, 3)
  return inner.map(messageOf).join('; ')
}

/** Senders choose parts of the text, and it may have megabytes: every step must run in linear time. */
function withoutValues(message: string, error: Error): string {
  const code: unknown = 'code' in error ? error.code : undefined
  // Data exceptions of PostgreSQL quote the value, and its syntax errors a part of the statement; elsewhere it quotes only names.
  let text = typeof code === 'string' && /^(?:22[0-9A-Z]{3}|42601)$/.test(code) ? hideBetween(message, '"', ['"']) : message
  // Drizzle and MariaDB's connector append the parameters.
  text = text.replace(/\n[^\S\n]*(?:params|sql|parameters): [\s\S]*$/, '')
  text = withoutStatement(text)
  // MySQL and MariaDB.
  text = hideBetween(text, "Duplicate entry '", ["' for key"])
  text = hideBetween(text, /incorrect [\w() ]{1,40} value: '/i, ["' for column", "' for function"])
  text = hideBetween(text, "syntax to use near '", ["' at line"])
  // JSON.parse() quotes the text.
  const json = text.lastIndexOf(' is not valid JSON')
  if (json !== -1 && /"(?:\.\.\.)?$/.test(text.slice(Math.max(0, json - 4), json)))
    text = `${text.slice(0, text.indexOf('"')).replace(/\.\.\.$/, '')}"…"${text.slice(json)}`
  // Redis.
  return text.replace(/(with args beginning with: )[\s\S]*$/, '$1…')
}

/** Removes the text between the first `opening` and the last of the closings; everything after `opening` if there is none. */
function hideBetween(text: string, opening: string | RegExp, closings: readonly string[]): string {
  const found = typeof opening === 'string' ? opening : opening.exec(text)?.[0]
  const at = found === undefined ? -1 : text.indexOf(found)
  if (found === undefined || at === -1) return text
  const start = at + found.length
  const end = Math.max(...closings.map((closing) => text.lastIndexOf(closing)))
  return `${text.slice(0, start)}…${end < start ? '' : text.slice(end)}`
}

const statement = /^\s*(?:(?:insert into|replace into|merge into|delete from)\b|update (?=.)|select (?=.)|with (?=.))/i
const keywords: Readonly<Record<string, RegExp>> = { update: /. set\b/is, select: /. from\b/is, with: /. as\b/is }

/** Knex and MikroORM prepend the statement, with its values, to the database's message. */
function withoutStatement(text: string): string {
  const [head] = statement.exec(text) ?? []
  if (head === undefined) return text
  const keyword = keywords[head.trim().toLowerCase()]
  const start = keyword === undefined ? 0 : text.slice(head.length).search(keyword)
  const end = text.lastIndexOf(' - ')
  return start === -1 || end < head.length + start ? text : text.slice(end + 3)
}

/** An error with its causes as one text for use outside the process: for a dead letter or the outbox. "Gave up after ten attempts" alone is not helpful. */
export function describeError(error: Error, limit: number): string {
  const texts: string[] = []
  for (const cause of causesOf(error)) {
    if (!(cause instanceof Error) || texts.length === 4) break
    texts.push(messageOf(cause))
  }
  return escapeText(texts.join(' Cause: '), limit)
}

/**
 * The error for use outside the process: the same object if there is nothing to hide, otherwise a copy of the same class without secrets and values,
 * whose texts are limited in length and on one line. Causes and aggregated errors are treated alike.
 */
export function redactError(error: Error): Error {
  return redactErrorAt(error, 'all', 0)
}

function redactErrorAt(error: Error, frames: Frames, depth: number): Error {
  if (depth > maxDepth) return new Error('Further causes are omitted.')
  const message = messageOf(error)
  let changed = message !== error.message || (frames === 'foreign' && framesOf(error, 'all').length > framesOf(error, frames).length)
  const properties: [name: string, value: unknown, enumerable: boolean][] = []
  for (const name of Object.getOwnPropertyNames(error)) {
    if (name === 'message' || name === 'stack') continue
    if (secretProperties.has(name.toLowerCase())) {
      changed = true
      continue
    }
    const value = read(error, name)
    const safe = redactAt(name, value, frames, depth + 1)
    if (safe !== value) changed = true
    properties.push([name, safe, Object.prototype.propertyIsEnumerable.call(error, name)])
  }
  if (!changed) return error
  // An error also for those who do not look at the prototype, such as `structuredClone()`.
  const copy: Error = Object.setPrototypeOf(new Error(message), Object.getPrototypeOf(error))
  Object.defineProperty(copy, 'stack', { value: stackOf(error, frames, message), configurable: true, writable: true })
  for (const [name, value, enumerable] of properties)
    Object.defineProperty(copy, name, { value, enumerable, configurable: true, writable: true })
  return copy
}

/** A getter may throw, which must not prevent the log line. */
function read(object: object, name: string): unknown {
  try {
    return object[name as keyof object]
  } catch {
    return unreadable
  }
}

const unreadable = Symbol('unreadable')

/** Name and message on one line, then the frames of the stack. */
export function stackOf(error: Error, frames: Frames, message: string = messageOf(error)): string {
  const lines = framesOf(error, frames).slice(0, maxFrames)
  // Each frame starts with a new line and four spaces, so that none of them looks like a log line.
  return headerOf(error.name, message) + lines.map((line) => `\n    ${escapeText(line, maxFieldLength)}`).join('')
}

function headerOf(name: string, message: string): string {
  const shown = escapeText(String(name), 100)
  return message === '' ? shown : `${shown}: ${message}`
}

/** The fields of a log line without secrets, their texts limited in length and on one line; the same object if nothing had to be changed. */
export function redactFields(fields: object, frames: Frames = 'foreign'): object {
  return redactEntries(fields, frames, 0)
}

/** A text for a log line: URLs without secrets, limited in length, on one line. */
export function safeText(text: string, limit: number = maxFieldLength): string {
  if (text.length <= limit) return escapeText(redactUrls(text), limit)
  // A text of megabytes is not searched to its end, but far enough to find the end of a password at the point of truncation.
  return escapeText(redactUrls(text.slice(0, 2 * limit)), limit, text.length)
}

function redactAt(name: string, value: unknown, frames: Frames, depth: number): unknown {
  switch (typeof value) {
    case 'string':
      return name === 'destination' || name === 'deadLetter' ? redactDestination(value) : safeText(value)
    case 'object':
      return value === null ? null : redactObject(name, value, frames, depth)
    case 'function':
      return describeValue(value)
    default:
      return value === unreadable ? '…' : value
  }
}

function redactObject(name: string, value: object, frames: Frames, depth: number): unknown {
  if (value instanceof Error) return redactErrorAt(value, frames, depth)
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return `${value.byteLength} bytes`
  if (depth > maxDepth) return '…'
  if (Array.isArray(value)) {
    const kept = value.length > maxEntries ? [...value.slice(0, maxEntries), `… (${value.length} entries)`] : value
    const single = name === 'destinations' ? 'destination' : ''
    const safe = kept.map((each) => redactAt(single, each, frames, depth + 1))
    return kept === value && safe.every((each, index) => each === value[index]) ? value : safe
  }
  if (value instanceof Date) return value
  if (value instanceof URL) return redactUrls(value.href)
  const prototype: unknown = Object.getPrototypeOf(value)
  // A client or connection object may contain passwords and statements.
  return prototype === Object.prototype || prototype === null ? redactEntries(value, frames, depth) : describeValue(value)
}

function redactEntries(value: object, frames: Frames, depth: number): object {
  let copy: Record<string, unknown> | undefined
  for (const name of Object.keys(value)) {
    const each = read(value, name)
    const secret = depth > 0 && secretProperties.has(name.toLowerCase())
    const safe = secret ? undefined : redactAt(name, each, frames, depth + 1)
    const key = escapeText(name, 100)
    if (safe === each && key === name) continue
    copy ??= Object.fromEntries(Object.keys(value).map((key) => [key, read(value, key)]))
    if (secret || key !== name) delete copy[name]
    if (!secret) copy[key] = safe
  }
  return copy ?? value
}
