import { AckordError, type Logger } from '@ackord/core'
import { abortable } from '@ackord/core/internal'
import { withDeadline } from '../../client/evaluate.ts'
import type { DedicatedPort } from '../../client/port.ts'
import { says } from '../../client/reply.ts'
import type { RedisInternals } from '../../transaction/redis-internals.ts'
import type { DeliveredEntry, StreamGroup } from './stream-group.ts'

export interface FreshSettings {
  readonly redis: RedisInternals
  readonly group: StreamGroup
  readonly from: '0' | '$'
  readonly block: number
  readonly logger: Logger
}

/** Reads entries that no consumer of the group has received, on a connection of its own. Creates the group, and creates it again if it is lost. */
export class FreshEntries {
  readonly #settings: FreshSettings
  readonly #signal: AbortSignal
  #from: '0' | '$'
  #created = false
  /** Whether the loss of the group was logged since the last successful read. */
  #isReported = false
  #connection: DedicatedPort | undefined

  /** An abort closes the connection, also while it waits. */
  constructor(settings: FreshSettings, signal: AbortSignal) {
    this.#settings = settings
    this.#signal = signal
    this.#from = settings.from
    signal.addEventListener('abort', () => this.#close(), { once: true })
  }

  async createGroup(): Promise<void> {
    if (this.#created) return
    await this.#settings.group.create(this.#from)
    this.#created = true
  }

  /** Waits for the first entry, up to `block`. Rejects if Redis cannot be reached or refuses; the next call tries again. */
  async read(count: number): Promise<readonly DeliveredEntry[]> {
    const { redis, group, block } = this.#settings
    try {
      await this.createGroup()
      this.#connection ??= await blockingConnection(redis, block, this.#signal)
      // An abort before the connection was stored has not closed it.
      this.#signal.throwIfAborted()
      const entries = await group.read(this.#connection, count, block)
      this.#isReported = false
      return entries
    } catch (error) {
      if (!says(error, 'NOGROUP', 'UNBLOCKED')) this.#close()
      throw error
    }
  }

  /** Whether the error says that the group does not exist. The next read creates it again: from the first entry on, whatever `start` says. */
  isGone(error: unknown): boolean {
    if (!says(error, 'NOGROUP', 'UNBLOCKED')) return false
    const { stream, group } = this.#settings.group
    const text = 'The consumer group or its stream was deleted. The group is created again, from the first entry on.'
    if (!this.#isReported) this.#settings.logger.warn({ stream, group }, text)
    this.#isReported = true
    this.#created = false
    this.#from = '0'
    return true
  }

  #close(): void {
    this.#connection?.close().catch(() => {})
    this.#connection = undefined
  }
}

/** A connection for reads that wait up to `block` milliseconds: on the shared connection they would block all other commands. */
async function blockingConnection(redis: RedisInternals, block: number, signal: AbortSignal): Promise<DedicatedPort> {
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
