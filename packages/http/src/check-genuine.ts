import type { Logger, Runtime } from '@ackord/core'
import { abortable, linkedController } from '@ackord/core/internal'
import { answer, unavailable } from './answers.ts'
import type { HttpRequest } from './read-events.ts'
import type { RequestVerifier } from './request-verifier.ts'

export interface CheckOptions {
  /** Milliseconds that the verifier has. */
  readonly timeout: number
  /** Aborted when the client has gone. */
  readonly client: AbortSignal
  readonly runtime: Runtime
  readonly logger: Logger
}

/** The answer to a request that is not genuine, or of which nobody said in time whether it is; `undefined` if it is. Rejects if the verifier does. */
export async function checkGenuine(verifier: RequestVerifier, request: HttpRequest, options: CheckOptions): Promise<Response | undefined> {
  const { timeout, client, runtime, logger } = options
  using limit = linkedController(client)
  const timer = runtime.setTimeout(() => limit.abort(tooLong), timeout)
  try {
    const problem = await abortable(verifier(request), limit.signal)
    if (problem === undefined) return undefined
    logger.debug({ reason: problem }, 'A request was refused: it is not signed as it should be.')
    return answer(401, problem)
  } catch (error) {
    if (!limit.signal.aborted) throw error
    if (limit.signal.reason !== tooLong) return unavailable('The client has gone.')
    logger.warn({ timeout }, "A request was refused: the function 'verify' did not answer within bodyTimeout.")
    return unavailable('The request was not verified in time.')
  } finally {
    timer.cancel()
  }
}

const tooLong = Symbol('too long')
