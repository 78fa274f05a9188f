import { usageError } from '../output/errors.ts'
import { shownCredentials } from '../output/secrets.ts'

/** The address of a store or broker, from a URL of the user. */
export interface ServiceUrl {
  /** The URL as it was typed, with its secrets. */
  readonly text: string
  readonly scheme: string
  /** `host:port`, several where the scheme supports them. */
  readonly hosts: readonly string[]
  readonly user: string | undefined
  readonly password: string | undefined
  /** Without the leading slash. */
  readonly path: string
  readonly query: URLSearchParams
  /** For output: with the user name, `***` instead of a password or token, and without the query, which may have a password too. */
  readonly address: string
}

const shape = /^([a-z][a-z0-9+.-]*):(?:\/\/(?:([^/?#]*)@)?([^/?#@]*))?([^?#]*)(?:\?([^#]*))?$/i

/** `option` is named in the error if the URL is invalid; `examples` are valid forms. */
export function parseServiceUrl(option: string, text: string, examples: readonly string[]): ServiceUrl {
  const hint = `Expected one of: ${examples.join(', ')}`
  const found = shape.exec(text.trim())
  if (found === null)
    throw usageError(`${option} is not a valid URL.`, `${hint}. Special characters in a password must be percent-encoded.`)
  const [, scheme = '', credentials, authority = '', path = '', query = ''] = found
  const hosts = authority === '' ? [] : authority.split(',')
  const invalid = hosts.find((host) => !isHost(host))
  if (invalid !== undefined) {
    throw usageError(`${option} has an invalid host or port.`, `${hint}. Special characters in a password must be percent-encoded.`)
  }
  const [user, ...password] = credentials?.split(':') ?? []
  const lower = scheme.toLowerCase()
  const known = { user: decoded(option, user), password: decoded(option, password.join(':')) }
  const shown = shownCredentials(lower, encodeURIComponent((known.user ?? '').toWellFormed()), known.password ?? '')
  return {
    text: text.trim(),
    scheme: lower,
    hosts,
    ...known,
    path: hosts.length > 0 ? path.replace(/^\//, '') : path,
    query: new URLSearchParams(query),
    address: `${lower}:${text.includes('://') ? '//' : ''}${shown}${hosts.join(',')}${path}`,
  }
}

function isHost(host: string): boolean {
  try {
    const { hostname, port } = new URL(`any://${host}`)
    return hostname !== '' && Number(port) <= 65_535
  } catch {
    return false
  }
}

function decoded(option: string, part: string | undefined): string | undefined {
  if (part === undefined || part === '') return undefined
  try {
    return decodeURIComponent(part)
  } catch {
    throw usageError(
      `${option} has a '%' in its user or password that is not followed by a percent-encoded character.`,
      "Write '%' as '%25'.",
    )
  }
}

/** Whether the URL is one of Redis: a server, or a cluster. */
export function isRedisUrl(text: string): boolean {
  return /^rediss?(\+cluster)?:/i.test(text)
}
