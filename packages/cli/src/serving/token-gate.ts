import { randomBytes, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'

/** The shortest token that a user may choose: one that cannot be guessed by trying. */
export const minTokenLength = 16
/** Sessions that are kept; the oldest is forgotten first. */
const maxSessions = 100

/**
 * Lets in who has the token: the address that the command prints contains it. The first request with it gets a cookie, and is redirected to an address without the token,
 * so that it stays neither in the history of the browser nor in a link that a user copies.
 */
export class TokenGate {
  readonly #reusable: boolean
  readonly #sessions = new Set<string>()
  #token: string | undefined

  /** Without a token it makes one, which is valid once. */
  constructor(token: string | undefined) {
    this.#reusable = token !== undefined
    this.#token = token ?? randomBytes(24).toString('base64url')
  }

  get token(): string {
    return this.#token ?? ''
  }

  /** Whether the request has been answered: it had a token, right or wrong, or could not be read. */
  exchange(request: IncomingMessage, response: ServerResponse): boolean {
    const url = urlOf(request.url ?? '/')
    if (url === undefined) {
      response.writeHead(400, { 'content-type': 'text/plain; charset=utf-8' }).end('The address of the request cannot be read.\n')
      return true
    }
    const given = url.searchParams.get('token')
    if (given === null || request.method !== 'GET') return false
    response.setHeader('cache-control', 'no-store')
    response.setHeader('referrer-policy', 'no-referrer')
    if (this.#token === undefined || !isSame(given, this.#token)) {
      const text = this.#reusable ? 'This token is wrong.' : 'This token is wrong or was used already. Start the command again for another.'
      response.writeHead(401, { 'content-type': 'text/plain; charset=utf-8' }).end(`${text}\n`)
      return true
    }
    if (!this.#reusable) this.#token = undefined
    const session = randomBytes(24).toString('base64url')
    this.#sessions.add(session)
    for (const oldest of this.#sessions) {
      if (this.#sessions.size <= maxSessions) break
      this.#sessions.delete(oldest)
    }
    // With one slash: `//name` would name another host.
    const location = url.pathname.replace(/^\/+/, '/')
    response.writeHead(303, { location, 'set-cookie': `${cookieNameOf(request)}=${session}; HttpOnly; SameSite=Strict; Path=/` }).end()
    return true
  }

  /** By the cookie, or for scripts by `authorization: Bearer <token>` where the token may be used again. */
  admits(request: IncomingMessage): boolean {
    const { cookie = '', authorization = '' } = request.headers
    const start = `${cookieNameOf(request)}=`
    const cookies = cookie.split(';').map((one) => one.trim())
    if (cookies.some((one) => one.startsWith(start) && this.#sessions.has(one.slice(start.length)))) return true
    const bearer = /^Bearer (.+)$/i.exec(authorization)?.[1]
    return this.#reusable && bearer !== undefined && isSame(bearer, this.token)
  }
}

/** `undefined` for a target that is neither a path nor a URL. Not relative to a base: `//name` is a path here. */
function urlOf(target: string): URL | undefined {
  const address = target.startsWith('/') ? `http://localhost${target}` : target
  return URL.canParse(address) ? new URL(address) : undefined
}

/** Browsers send cookies to all ports of a host: a second dashboard must not replace the session of the first. */
function cookieNameOf({ socket }: IncomingMessage): string {
  return `ackord-dashboard-${socket.localPort}`
}

function isSame(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)]
  return a.length === b.length && timingSafeEqual(a, b)
}
