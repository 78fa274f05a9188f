import { InvalidOptionError, type Logger, type Runtime } from '@ackord/core'
import { structuredContentType } from '@ackord/core/broker'
import { abortable, linkedController } from '@ackord/core/internal'
import { contentMode } from '../cloudevents/content-mode.ts'
import { decodeText } from '../cloudevents/headers.ts'
import { idHeader, signatureProblem, signingKeys } from '../cloudevents/signature.ts'
import { answer, unavailable } from './answers.ts'
import type { HttpRequest } from './read-request.ts'

/** Why a request is not genuine, as text for the answer; `undefined` if it is genuine. */
export type RequestVerifier = (request: HttpRequest) => Promise<string | undefined>

export interface VerifierOptions {
  readonly tolerance: number
  /**
   * Whether attributes may come in headers, which are not signed. `foreign`: requests are no CloudEvents, and a function determines their attributes.
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
    // Only `true` accepts the request: a function without a return value must not.
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

/** A signature covers `webhook-id` and the body. An attacker who has seen a request could send both again as another event, if the attributes are in headers. */
function headersProblem(headers: Headers, unsignedAttributes: boolean): string | undefined {
  if (contentMode(headers.get('content-type')) !== 'binary') return undefined
  if (!unsignedAttributes) return `Attributes in headers are not signed, and not accepted here. Send ${structuredContentType}.`
  const [id, signed] = [headers.get('ce-id'), headers.get(idHeader)]
  if (id !== null && signed !== null && decodeText(id) === decodeText(signed)) return undefined
  return `The headers ce-id and ${idHeader} must be the same: only ${idHeader} is signed.`
}

export interface CheckOptions {
  /** The time limit of the verifier in milliseconds. */
  readonly timeout: number
  /** Aborted when the client has disconnected. */
  readonly client: AbortSignal
  readonly runtime: Runtime
  readonly logger: Logger
}

/** The answer to a request that is not genuine or was not verified in time; `undefined` if it is genuine. Rejects if the verifier does. */
export async function checkGenuine(verifier: RequestVerifier, request: HttpRequest, options: CheckOptions): Promise<Response | undefined> {
  const { timeout, client, runtime, logger } = options
  using limit = linkedController(client)
  const timer = runtime.setTimeout(() => limit.abort(timedOut), timeout)
  try {
    const problem = await abortable(verifier(request), limit.signal)
    if (problem === undefined) return undefined
    logger.debug({ reason: problem }, 'A request was refused: its signature is not valid.')
    return answer(401, problem)
  } catch (error) {
    if (!limit.signal.aborted) throw error
    if (limit.signal.reason !== timedOut) return unavailable('The client has disconnected.')
    logger.warn({ timeout }, "A request was refused: the function 'verify' did not answer within bodyTimeout.")
    return unavailable('The request was not verified in time.')
  } finally {
    timer.cancel()
  }
}

const timedOut = Symbol('timed out')
