import { isAckordError, type Logger, type Runtime, StoreRefusesWritesError, type Timer } from '@ackord/core'
import { callFailureOf, isRefusalOfWrites } from '../client/call-failure.ts'
import { Coalescer } from '../client/coalescer.ts'
import type { KeySpace } from '../client/keys.ts'
import { type RedisPort, type Script, script } from '../client/port.ts'

export interface Lease {
  readonly marker: string
  readonly token: string
}

/** What a marker said: `mine`, or what it holds. */
export type Begun = { readonly state: 'mine' | 'free' } | { readonly state: 'held'; readonly held: string; readonly remaining: number }

interface Beginning extends Lease {
  readonly resolve: (begun: Begun) => void
  readonly reject: (error: unknown) => void
}

interface Held extends Lease {
  /** Since when it has been held, in turns of the timer. */
  turns: number
}

export interface InboxLeasesOptions {
  readonly port: RedisPort
  readonly space: KeySpace
  readonly runtime: Runtime
  readonly logger: Logger
  /** Milliseconds; 0 only looks at markers. */
  readonly lease: number
  /** How many share a call. */
  readonly size: number
}

const mine: Begun = { state: 'mine' }
const free: Begun = { state: 'free' }

/** The leases on the messages in hand. One timer renews all of them; those of one tick are taken together. */
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

  /** Takes the lease if nobody has it. */
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

  /** Never rejects: if it cannot be given up, it runs out. */
  async release({ marker, token }: Lease): Promise<void> {
    const { port, logger, lease } = this.#options
    try {
      await port.evaluate(releaseScript, [marker], [token])
    } catch (error) {
      logger.warn(
        { err: error, lease },
        'The lease on a message could not be given up. The message is not handled again before it runs out.',
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
          for (let index = 0; index < items.length; index += 1) answerTo(items[index] as Beginning, String(answers[index]))
        },
        (error: unknown) => {
          // The server may have refused all because of one.
          if (items.length > 1 && !isAckordError(error, 'ACKORD_REDIS_UNANSWERED')) {
            for (const item of items) void this.#begin([item])
            return
          }
          const { kind, text } = callFailureOf(error)
          for (const item of items) {
            item.reject(kind === 'refusesWrites' ? new StoreRefusesWritesError('Redis', text, { cause: error }) : error)
            // It may have been taken all the same, or be so later, by nobody.
            if (lease > 0) void this.release(item)
          }
        },
      )
  }

  #nextTurn(): Timer {
    const { runtime, lease } = this.#options
    return runtime.setTimeout(() => this.#turn(), lease / 3, { keepAlive: false })
  }

  /** One that has been held for less than a turn has two thirds of its time left, and most are given up before. */
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
        // It may have been committed or given up meanwhile.
        if (String(answers[index]) === '1' || !this.#held.delete(held)) return
        // Its commit says so too, and louder.
        logger.debug({ lease }, 'The lease on a message was lost while it was handled. Its writes will not be committed.')
      })
    } catch (error) {
      logger.warn({ err: error, messages: group.length, lease }, 'The leases on messages could not be renewed. They are tried again.')
    }
  }

  #groupsOf(due: readonly Held[]): readonly Held[][] {
    const { port, space } = this.#options
    const groups = new Map<number, Held[]>()
    for (const held of due) {
      const number = port.cluster ? space.slotOf(held.marker) : 0
      const group = groups.get(number)
      if (group === undefined) groups.set(number, [held])
      else group.push(held)
    }
    return [...groups.values()].flatMap((group) =>
      Array.from({ length: Math.ceil(group.length / renewedAtOnce) }, (_, index) =>
        group.slice(index * renewedAtOnce, (index + 1) * renewedAtOnce),
      ),
    )
  }
}

const renewedAtOnce = 500
const untilTheNextLook = 1_000

function answerTo({ resolve, reject }: Beginning, answer: string): void {
  if (answer === '+') resolve(mine)
  else if (answer === '') resolve(free)
  else if (answer.startsWith('=')) {
    const space = answer.indexOf(' ')
    const remaining = Number(answer.slice(1, space))
    // One that somebody made without an end.
    resolve({ state: 'held', held: answer.slice(space + 1), remaining: remaining > 0 ? remaining : untilTheNextLook })
  } else reject(refusedToRecord(answer.slice(1)))
}

function refusedToRecord(text: string): Error {
  if (isRefusalOfWrites(text)) return new StoreRefusesWritesError('Redis', text)
  return new Error(`Redis refused to record a message: ${text}`)
}

/**
 * Takes the lease on each message that nobody has.
 *
 *     KEYS: markers. ARGV: lease, then the token for each; a lease of 0 only looks
 *
 * The answer to each: '+' if it is ours, '' if nobody has it, '=' and the rest of the lease and what the marker holds, '-' and an error.
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

/** KEYS: markers. ARGV: lease, then the token for each. 1 for each that was still held, 0 for the others. A marker that is done keeps its own time. */
const renewScript: Script = script(`
local answers = {}
for n = 1, #KEYS do
  answers[n] = redis.pcall('GET', KEYS[n]) == ARGV[n + 1] and redis.call('PEXPIRE', KEYS[n], ARGV[1]) or 0
end
return answers`)

/** KEYS: a marker. ARGV: its token. Gives the lease up if it is still held. */
const releaseScript: Script = script(`
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`)
