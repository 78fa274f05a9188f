import { AckordError } from '@ackord/core'
import { type RedisArgument, type RedisPort, script } from '../../../src/client/port.ts'
import type { QueuedCommand } from '../../../src/client/queued-command.ts'
import { cancelFragment } from '../../../src/outbox/stream/scripts/cancel-fragment.ts'
import type { RedisTransaction } from '../../../src/transaction/transaction.ts'

// ARGV: for each command the number of its words, then the words.
const applyAll = script(`local at = 1
while at <= #ARGV do
  local count = tonumber(ARGV[at])
  redis.call(unpack(ARGV, at + 1, at + count))
  at = at + 1 + count
end`)

const cancelAll = script(`local fragment = {}
${cancelFragment.lua}
return fragment.run('cancel()', 1, 1, #ARGV)`)

/** A transaction for events only, without a middleware: they are written when it commits. */
export class TestTransaction implements RedisTransaction {
  #events: QueuedCommand[] = []
  readonly anchor: RedisArgument | undefined
  #ended = false

  constructor(anchor?: RedisArgument) {
    this.anchor = anchor
  }

  queue(): void {
    throw new Error('It is for events.')
  }

  expect(): void {
    throw new Error('It is for events.')
  }

  expectField(): void {
    throw new Error('It is for events.')
  }

  queueWakeUp(stream: RedisArgument): void {
    this.queueEvent({ name: 'XADD', args: [stream, 'MAXLEN', '~', '1', '*', 'n', '1'], keys: [0], kind: 'stream' })
  }

  queueEvent(command: QueuedCommand): void {
    if (this.#ended) throw new AckordError('ACKORD_SCOPE_ENDED', 'The transaction has ended.')
    const { cancels } = command
    if (cancels !== undefined) this.#events = this.#events.filter((event) => !cancels(event))
    this.#events.push(command)
  }

  end(): void {
    this.#ended = true
  }

  async commit(port: RedisPort): Promise<void> {
    this.end()
    // In chunks: a script accepts a limited number of arguments, and a test may append many records.
    const events = this.#events.filter(({ kind }) => kind !== cancelFragment)
    for (let start = 0; start < events.length; start += 500) {
      const some = events.slice(start, start + 500)
      const keys = [...new Set(some.map(({ args }) => args[0] as RedisArgument))]
      await port.evaluate(
        applyAll,
        keys,
        some.flatMap((command) => wordsOf(command, port.keyPrefix)),
      )
    }
    for (const { kind, args } of this.#events) {
      if (kind === cancelFragment) await port.evaluate(cancelAll, args.slice(0, 6) as string[], args.slice(6))
    }
  }
}

function wordsOf({ name, args }: QueuedCommand, keyPrefix: string): RedisArgument[] {
  const [key = '', ...others] = args
  return [String(args.length + 1), name, keyPrefix + key, ...others]
}
