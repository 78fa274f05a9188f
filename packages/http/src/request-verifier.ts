import { InvalidOptionError, type Runtime } from '@ackord/core'
import { decodeHeader } from './attribute-headers.ts'
import { contentMode, structuredType } from './content-mode.ts'
import type { HttpRequest } from './read-events.ts'
import { idHeader, signatureProblem, signingKeys } from './signature.ts'

/** Why a request is not genuine, in words that may be answered; `undefined` if it is. */
export type RequestVerifier = (request: HttpRequest) => Promise<string | undefined>

export interface VerifierOptions {
  readonly tolerance: number
  /**
   * Whether attributes may come in headers, which no secret signs. `foreign`: requests are no CloudEvents, and what their attributes are made
   * of is not known here.
   */
  readonly unsignedAttributes: boolean | 'foreign'
  readonly runtime: Runtime
}

export function requestVerifier(
  verify: string | readonly string[] | ((request: HttpRequest) => boolean | Promise<boolean>),
  options: VerifierOptions,
): RequestVerifier {
  const { tolerance, unsignedAttributes, runtime } = options
  if (typeof verify === 'function') {
    // Only `true` lets in: a function that forgets to answer must not.
    return async (request) => ((await verify(request)) === true ? undefined : 'The request is not genuine.')
  }
  if (typeof verify !== 'string' && !Array.isArray(verify))
    throw new InvalidOptionError('verify', 'must be a secret, a list of secrets or a function.')
  const keys = signingKeys('verify', verify)
  return async (request) => {
    const problem = signatureProblem(keys, request, { now: runtime.now(), tolerance })
    if (problem !== undefined || unsignedAttributes === 'foreign') return problem
    return headersProblem(request.headers, unsignedAttributes)
  }
}

/** A signature is over `webhook-id` and the body. Whoever overhears it can send both again, as another event, if the rest is in headers. */
function headersProblem(headers: Headers, unsignedAttributes: boolean): string | undefined {
  if (contentMode(headers.get('content-type')) !== 'binary') return undefined
  if (!unsignedAttributes) return `Attributes in headers are not signed, and not taken here. Send ${structuredType}.`
  const [id, signed] = [headers.get('ce-id'), headers.get(idHeader)]
  if (id !== null && signed !== null && decodeHeader(id) === decodeHeader(signed)) return undefined
  return `The headers ce-id and ${idHeader} must be the same: only ${idHeader} is signed.`
}
