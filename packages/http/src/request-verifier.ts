import { InvalidOptionError, type Runtime } from '@ackord/core'
import type { HttpRequest } from './read-events.ts'
import { signatureProblem, signingKeys } from './signature.ts'

/** Why a request is not genuine, in words that may be answered; `undefined` if it is. */
export type RequestVerifier = (request: HttpRequest) => string | undefined | Promise<string | undefined>

export function requestVerifier(
  verify: string | readonly string[] | ((request: HttpRequest) => boolean | Promise<boolean>),
  options: { readonly tolerance: number; readonly runtime: Runtime },
): RequestVerifier {
  const { tolerance, runtime } = options
  if (typeof verify === 'function') {
    // Only `true` lets in: a function that forgets to answer must not.
    return async (request) => ((await verify(request)) === true ? undefined : 'The request is not genuine.')
  }
  if (typeof verify !== 'string' && !Array.isArray(verify))
    throw new InvalidOptionError('verify', 'must be a secret, a list of secrets or a function.')
  const keys = signingKeys('verify', verify)
  return (request) => signatureProblem(keys, request, { now: runtime.now(), tolerance })
}
