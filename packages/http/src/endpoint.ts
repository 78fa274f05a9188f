import { InvalidOptionError } from '@ackord/core'

/** Where a request goes. */
export interface Endpoint {
  /** Without user and password. */
  readonly url: string
  /** What error texts may show: neither password nor query, where tokens are. */
  readonly shown: string
  /** For the user and password of the URL, if it has them. */
  readonly authorization: string | undefined
}

/** Throws, without showing the value, at what is no URL of HTTP. */
export function endpointOf(option: string, value: string | URL): Endpoint {
  const url = typeof value === 'string' || value instanceof URL ? parse(String(value)) : undefined
  if (url === undefined || (url.protocol !== 'https:' && url.protocol !== 'http:')) {
    throw new InvalidOptionError(option, 'must be an absolute URL that begins with https:// or http://.')
  }
  const { username, password } = url
  url.username = ''
  url.password = ''
  url.hash = ''
  const credentials = username === '' && password === '' ? undefined : `${decode(username)}:${decode(password)}`
  return {
    url: url.href,
    shown: `${url.origin}${url.pathname}${url.search === '' ? '' : '?…'}`,
    authorization: credentials === undefined ? undefined : `Basic ${Buffer.from(credentials).toString('base64')}`,
  }
}

function parse(value: string): URL | undefined {
  try {
    return new URL(value)
  } catch {
    return undefined
  }
}

/** URL encodes some characters of a password by itself. */
function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
