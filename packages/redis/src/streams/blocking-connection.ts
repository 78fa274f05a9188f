import { AckordError } from '@ackord/core'
import { abortable } from '@ackord/core/internal'
import type { DedicatedPort } from '../port.ts'
import type { RedisInternals } from '../redis.ts'
import { withDeadline } from '../with-deadline.ts'

/** A connection for reads that wait up to `block` milliseconds: on the shared one they would hold up everybody. */
export async function blockingConnection(redis: RedisInternals, block: number, signal: AbortSignal): Promise<DedicatedPort> {
  const { port, runtime, deadline } = redis
  const late = new AbortController()
  const until = AbortSignal.any([signal, late.signal])
  const opening = port.dedicate(until)
  const text = `Redis did not accept another connection within ${deadline} ms.`
  const timer = runtime.setTimeout(() => late.abort(new AckordError('ACKORD_REDIS_UNANSWERED', text)), deadline)
  try {
    return withDeadline(await abortable(opening, until), block + deadline, runtime)
  } catch (error) {
    opening.then((unwanted) => unwanted.close()).catch(() => {})
    throw error
  } finally {
    timer.cancel()
  }
}
