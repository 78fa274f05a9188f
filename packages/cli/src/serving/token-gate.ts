import { randomBytes, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'

const cookieName = 'ackord-dashboard'
/** Sessions that are kept; the oldest is forgotten first. */
const maxSessions = 100

/**
 * Lets in who has the token: the address that the command prints contains it. The first request with it gets a cookie, and is redirected to an address without the token,
 * so that it stays neither in the history of the browser nor in a link that somebody copies.
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

  /** Whether the request has been answered: it had a token, right or wrong. */
  exchange(request: IncomingMessage, response: ServerResponse): boolean {
    const url = new URL(request.url ?? '/', 'http://localhost')
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
    response.writeHead(303, { location: url.pathname, 'set-cookie': `${cookieName}=${session}; HttpOnly; SameSite=Strict; Path=/` }).end()
    return true
  }

  /** By the cookie, or for scripts by `authorization: Bearer <token>` where the token may be used again. */
  admits(headers: Headers): boolean {
    const cookies = (headers.get('cookie') ?? '').split(';').map((one) => one.trim())
    const session = cookies.find((one) => one.startsWith(`${cookieName}=`))?.slice(cookieName.length + 1)
    if (session !== undefined && this.#sessions.has(session)) return true
    const bearer = /^Bearer (.+)$/i.exec(headers.get('authorization') ?? '')?.[1]
    return this.#reusable && bearer !== undefined && isSame(bearer, this.token)
  }
}

function isSame(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)]
  return a.length === b.length && timingSafeEqual(a, b)
}
