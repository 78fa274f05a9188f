import { isAckordError, type Logger, type Runtime, StoreRefusesWritesError, type Timer } from '@ackord/core'
import { groupBy } from '@ackord/core/internal'
import { Coalescer } from '../client/coalescer.ts'
import type { KeySpace } from '../client/keys.ts'
import { type RedisPort, type Script, script } from '../client/port.ts'
import { releaseScript } from '../client/release-script.ts'
import { callFailureOf, isRefusalOfWrites } from '../client/reply.ts'

export interface Lease {
  readonly marker: string
  readonly token: string
}

/** The state of a marker: `mine` and `free`, or the value that it holds. */
export type Begun = { readonly state: 'mine' | 'free' } | { readonly state: 'held'; readonly held: string; readonly remaining: number }

interface Beginning extends Lease {
  readonly resolve: (begun: Begun) => void
  readonly reject: (error: unknown) => void
}

interface Held extends Lease {
  /** For how many turns of the timer it has been held. */
  turns: number
}

export interface InboxLeasesOptions {
  readonly port: RedisPort
  readonly space: KeySpace
  readonly runtime: Runtime
  readonly logger: Logger
  /** Milliseconds; 0 only reads markers. */
  readonly lease: number
  /** How many messages share a call. */
  readonly size: number
}

const mine: Begun = { state: 'mine' }
const free: Begun = { state: 'free' }

/** The leases on the messages that are being handled. One timer renews all of them; leases of one tick are taken in one call. */
export class InboxLeases {
  readonly #options: InboxLeasesOptions
  readonly #beginnings: Coalescer<Beginning>
  readonly #held = new Set<Held>()
  #timer: Timer | undefined

  constructor(options: InboxLeasesOptions) {
    this.#options = options
    const { port, space, size } = options
    this.#beginnings = new Coalescer({
      size,
      groupOf: ({ marker }) => (port.cluster ? space.slotOf(marker) : 0),
      run: (items) => this.#begin(items),
    })
  }

  /** Takes the lease if it is free. */
  begin(lease: Lease): Promise<Begun> {
    const { marker, token } = lease
    return new Promise((resolve, reject) => this.#beginnings.add({ marker, token, resolve, reject }))
  }

  /** Renews a lease until the function that it returns is called. */
  renew({ marker, token }: Lease): () => void {
    const held: Held = { marker, token, turns: 0 }
    this.#held.add(held)
    this.#timer ??= this.#nextTurn()
    return () => this.#held.delete(held)
  }

  /** Never rejects: a lease that cannot be released expires. */
  async release({ marker, token }: Lease): Promise<void> {
    const { port, logger, lease } = this.#options
    try {
      await port.evaluate(releaseScript, [marker], [token])
    } catch (error) {
      logger.warn(
        { err: error, lease },
        'The lease on a message could not be released. The message is not handled again before the lease expires.',
      )
    }
  }

  #begin(items: readonly Beginning[]): Promise<void> {
    const { port, lease } = this.#options
    const args = [String(lease)]
    for (const { token } of items) args.push(token)
    return port
      .evaluate(
        beginScript,
        items.map(({ marker }) => marker),
        args,
      )
      .then(
        (reply) => {
          const answers = reply as readonly unknown[]
          for (let index = 0; index < items.length; index += 1) answerTo(items[index] as Beginning, String(answers[index]), lease)
        },
        (error: unknown) => {
          // The server may have refused the whole call because of one message.
          if (items.length > 1 && !isAckordError(error, 'ACKORD_REDIS_UNANSWERED')) {
            for (const item of items) void this.#begin([item])
            return
          }
          const { kind, text } = callFailureOf(error)
          for (const item of items) {
            item.reject(kind === 'refusesWrites' ? new StoreRefusesWritesError('Redis', text, { cause: error }) : error)
            // The lease may have been taken all the same, or may be taken later; then it would have no owner.
            if (lease > 0) void this.release(item)
          }
        },
      )
  }

  #nextTurn(): Timer {
    const { runtime, lease } = this.#options
    return runtime.setTimeout(() => this.#turn(), lease / 3, { keepAlive: false })
  }

  /** A lease that has been held for less than a turn has two thirds of its time left, and most are released before. */
  #turn(): void {
    this.#timer = this.#held.size === 0 ? undefined : this.#nextTurn()
    const due: Held[] = []
    for (const held of this.#held) {
      held.turns += 1
      if (held.turns > 1) due.push(held)
    }
    for (const group of this.#groupsOf(due)) void this.#renew(group)
  }

  async #renew(group: readonly Held[]): Promise<void> {
    const { port, logger, lease } = this.#options
    try {
      const args = [String(lease), ...group.map(({ token }) => token)]
      const markers = group.map(({ marker }) => marker)
      const answers = (await port.evaluate(renewScript, markers, args)) as readonly unknown[]
      group.forEach((held, index) => {
        // It may have been committed or released meanwhile.
        if (String(answers[index]) === '1' || !this.#held.delete(held)) return
        // The commit reports the lost lease as an error.
        logger.debug({ lease }, 'The lease on a message was lost while it was handled. Its writes will not be committed.')
      })
    } catch (error) {
      logger.warn({ err: error, messages: group.length, lease }, 'The leases on messages could not be renewed. They are tried again.')
    }
  }

  #groupsOf(due: readonly Held[]): readonly Held[][] {
    const { port, space } = this.#options
    const groups = groupBy(due, ({ marker }) => (port.cluster ? space.slotOf(marker) : 0))
    return groups.flatMap(([, group]) =>
      Array.from({ length: Math.ceil(group.length / renewedPerCall) }, (_, index) =>
        group.slice(index * renewedPerCall, (index + 1) * renewedPerCall),
      ),
    )
  }
}

const renewedPerCall = 500
const defaultRetryAfter = 1_000

function answerTo({ resolve, reject }: Beginning, answer: string, lease: number): void {
  if (answer === '+') resolve(mine)
  else if (answer === '') resolve(free)
  else if (answer.startsWith('=')) {
    const space = answer.indexOf(' ')
    const left = Number(answer.slice(1, space))
    // A marker without an expiry, which another client wrote, has no time left.
    const remaining = left > 0 ? left : defaultRetryAfter
    // If the server's clock was set back, the marker expires that much later. Its holder renews it or releases it within a lease.
    resolve({ state: 'held', held: answer.slice(space + 1), remaining: lease > 0 ? Math.min(remaining, lease) : remaining })
  } else reject(refusedToRecord(answer.slice(1)))
}

function refusedToRecord(text: string): Error {
  if (isRefusalOfWrites(text)) return new StoreRefusesWritesError('Redis', text)
  return new Error(`Redis refused to record a message: ${text}`)
}

/**
 * Takes the lease on each message that has none.
 *
 *     KEYS: markers. ARGV: lease, then the token of each; a lease of 0 only reads
 *
 * The answer for each: '+' if the lease is ours, '' if it is free, '=' with the remaining time and the value of the marker, '-' with an error.
 */
export const beginScript: Script = script(`
local lease, answers = ARGV[1], {}
for n = 1, #KEYS do
  local taken = lease ~= '0' and redis.pcall('SET', KEYS[n], ARGV[n + 1], 'NX', 'PX', lease)
  if taken and taken.ok then answers[n] = '+'
  elseif taken and taken.err then answers[n] = '-' .. taken.err
  else
    local held = redis.pcall('GET', KEYS[n])
    if type(held) == 'table' then answers[n] = '-' .. held.err
    elseif not held then answers[n] = ''
    elseif held == ARGV[n + 1] then answers[n] = '+'
    else answers[n] = '=' .. redis.call('PTTL', KEYS[n]) .. ' ' .. held end
  end
end
return answers`)

/** KEYS: markers. ARGV: lease, then the token of each. Answers 1 for each lease that was still held, 0 for the others. The expiry of a done marker is not changed. */
const renewScript: Script = script(`
local answers = {}
for n = 1, #KEYS do
  answers[n] = redis.pcall('GET', KEYS[n]) == ARGV[n + 1] and redis.call('PEXPIRE', KEYS[n], ARGV[1]) or 0
end
return answers`)
