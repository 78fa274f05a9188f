import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { forbidden, invalid } from './api-failure.ts'

/** The header that a POST has its token in. */
const csrfHeader = 'x-ackord-csrf'

/** Tokens that only this dashboard object can make. They depend on the name of the user, so that no user can use the token of another one. */
export class CsrfTokens {
  readonly #key = randomBytes(32)

  tokenOf(name: string): string {
    return createHmac('sha256', this.#key).update(name).digest('base64url')
  }

  check(headers: Headers, name: string): void {
    const given = Buffer.from(headers.get(csrfHeader) ?? '')
    const expected = Buffer.from(this.tokenOf(name))
    if (given.byteLength === expected.byteLength && timingSafeEqual(given, expected)) return
    throw forbidden('csrf', `The header ${csrfHeader} is missing or does not belong to this session. Reload the page.`)
  }
}

/** Throws if a page of another origin sent the request. Clients other than browsers send neither header; they need the token in any case. */
export function checkSameOrigin(request: Request): void {
  const site = request.headers.get('sec-fetch-site')
  const origin = request.headers.get('origin')
  if ((site === null || site === 'same-origin') && (origin === null || isOwnOrigin(request, origin))) return
  throw forbidden('cross_origin', 'The request comes from a page of another origin.')
}

/** A proxy may have replaced `host`. A page of another origin cannot set any of these headers: `x-forwarded-host` needs a preflight, which is refused. */
function isOwnOrigin(request: Request, origin: string): boolean {
  if (!URL.canParse(origin)) return false
  const { protocol, host } = new URL(origin)
  const forwarded = request.headers.get('x-forwarded-host')?.split(',') ?? []
  const own = [new URL(request.url).host, request.headers.get('host') ?? '', ...forwarded]
  return own.some((each) => {
    // Drops the default port of the protocol, as browsers do.
    const address = `${protocol}//${each.trim()}`
    return host !== '' && URL.canParse(address) && new URL(address).host === host
  })
}

/** A form of another origin cannot send this type without a preflight. */
export function checkJsonType({ headers }: Request): void {
  const type = headers.get('content-type')?.split(';', 1)[0]?.trim().toLowerCase()
  if (type !== 'application/json') throw invalid('A POST must have the header content-type: application/json.')
}
