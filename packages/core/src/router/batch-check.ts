import { AckordError, InvalidOptionError } from '../errors.ts'
import type { BatchSettings } from '../handler/batch.ts'
import type { Middleware } from '../middleware/middleware.ts'
import type { RouterSettings } from './router-options.ts'

/** Rejects a batch handler that the router and the middleware around it cannot serve. `chain` is the middleware of the handler, outermost first. */
export function checkBatchHandler(
  chain: readonly Middleware[],
  handler: string,
  { size }: BatchSettings,
  { concurrency, ackStrategy }: Pick<RouterSettings, 'concurrency' | 'ackStrategy'>,
): void {
  const parts = chain.flatMap(withParts)
  if (!parts.some(({ gathersBatches }) => gathersBatches === true)) {
    const isLeased = parts.some(({ role }) => role === 'leasedInbox')
    throw new AckordError('ACKORD_BATCH_UNSUPPORTED', `The batch handler '${handler}' ${isLeased ? onRedis : withoutTransaction}`)
  }
  if (ackStrategy === 'manual') {
    const problem = `of a router with the batch handler '${handler}' must not be 'manual': its messages are acked when their batch has committed.`
    throw new InvalidOptionError('ackStrategy', problem)
  }
  if (concurrency < size) {
    throw new InvalidOptionError(
      'concurrency',
      `of the router is ${concurrency}, and the batch handler '${handler}' has the size ${size}: its batches could never be full, and all of them would wait. Raise it to ${size} or more, and the prefetch of the source with it.`,
    )
  }
}

const withoutTransaction =
  'has no middleware around it that handles several messages in one transaction. Add transactional() of @ackord/sql to the router; inboxMiddleware() and transactionMiddleware() by themselves handle each message in a transaction of its own.'

const onRedis =
  'requires transactional() of @ackord/sql: on Redis a batch cannot be rolled back for one of its messages, because each message has a lease and a commit script of its own. Use eventHandler(): the commits of messages that are handled at the same time share a call anyway.'

function withParts(part: Middleware): readonly Middleware[] {
  return [part, ...(part.parts ?? []).flatMap(withParts)]
}
