import { AckordError } from '@ackord/core'
import { type RedisArgument, type RedisPort, script } from '../../../src/client/port.ts'
import type { QueuedCommand } from '../../../src/client/queued-command.ts'
import { cancelFragment } from '../../../src/outbox/stream/scripts/cancel-fragment.ts'
import { appendFragment } from '../../../src/outbox/stream/scripts/index-scripts.ts'
import type { RedisTransaction } from '../../../src/transaction/transaction.ts'

// KEYS: those of each command. ARGV: for each command its name, the numbers of its keys and of its further words, then these.
const applyAll = script(`local fragment = {}
${appendFragment.lua}
local function newId() return '*' end
local k, a = 1, 1
while a <= #ARGV do
  local name, keys, argc = ARGV[a], tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2])
  a = a + 3
  if ARGV[a] == '*' then ARGV[a] = newId() end
  if keys == 2 then
    local reply = fragment.run(name, k, a, argc)
    if type(reply) == 'table' then return reply end
  else redis.call(name, KEYS[k], unpack(ARGV, a, a + argc - 1)) end
  k, a = k + keys, a + argc
end`)

const cancelAll = script(`local fragment = {}
${cancelFragment.lua}
return fragment.run('cancel()', 1, 1, #ARGV)`)

/** A transaction for events only, without a middleware: they are written when it commits. */
export class TestTransaction implements RedisTransaction {
  #events: QueuedCommand[] = []
  readonly #checks: Promise<void>[] = []
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

  waitFor(work: Promise<void>): Promise<void> {
    work.catch(() => {})
    this.#checks.push(work)
    return work
  }

  end(): void {
    this.#ended = true
  }

  async commit(port: RedisPort): Promise<void> {
    await Promise.all(this.#checks)
    this.end()
    // In chunks: a script accepts a limited number of arguments, and a test may append many records.
    const events = this.#events.filter(({ kind }) => kind !== cancelFragment)
    for (let start = 0; start < events.length; start += 500) {
      const some = events.slice(start, start + 500)
      await port.evaluate(
        applyAll,
        some.flatMap(({ args, keys }) => args.slice(0, keys.length)),
        some.flatMap(({ name, args, keys }) => [name, String(keys.length), String(args.length - keys.length), ...args.slice(keys.length)]),
      )
    }
    for (const { kind, args } of this.#events) {
      if (kind === cancelFragment) await port.evaluate(cancelAll, args.slice(0, 6) as string[], args.slice(6))
    }
  }
}
