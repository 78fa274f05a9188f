import { AckordError } from '@ackord/core'
import type { RedisArgument, RedisPort } from '../../src/port.ts'
import { script } from '../../src/script.ts'
import type { QueuedCommand, RedisTransaction } from '../../src/transaction.ts'

// ARGV: per command how many words it has, then the words.
const applyAll = script(`local at = 1
while at <= #ARGV do
  local count = tonumber(ARGV[at])
  redis.call(unpack(ARGV, at + 1, at + count))
  at = at + 1 + count
end`)

/** The events of a transaction, without a middleware around it: they are written when it commits. */
export class TestTransaction implements RedisTransaction {
  readonly #events: QueuedCommand[] = []
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

  queueEvent(command: QueuedCommand): void {
    if (this.#ended) throw new AckordError('ACKORD_SCOPE_ENDED', 'The transaction has ended.')
    this.#events.push(command)
  }

  end(): void {
    this.#ended = true
  }

  async commit(port: RedisPort): Promise<void> {
    this.end()
    // A script has only so many words, and a test may have many records.
    for (let start = 0; start < this.#events.length; start += 500) {
      const some = this.#events.slice(start, start + 500)
      const keys = [...new Set(some.map(({ args }) => args[0] as RedisArgument))]
      await port.evaluate(
        applyAll,
        keys,
        some.flatMap((command) => wordsOf(command, port.keyPrefix)),
      )
    }
  }
}

function wordsOf({ name, args }: QueuedCommand, keyPrefix: string): RedisArgument[] {
  const [key = '', ...others] = args
  return [String(args.length + 1), name, keyPrefix + key, ...others]
}
