import { AckordError, type TransactionScope } from '@ackord/core'
import { type RedisKey, type RedisValue, toArgument, toKey } from '../client/argument.ts'
import type { KeySpace } from '../client/keys.ts'
import type { KnownCommands, RawCommand } from '../client/known-commands.ts'
import type { RedisArgument } from '../client/port.ts'
import type { CommitFragment, QueuedCommand } from '../client/queued-command.ts'
import { CommandTooLongError, CrossSlotError } from '../errors.ts'
import { createWriter, type WriteTarget } from './redis-writer.ts'
import type { RedisWrites } from './redis-writes.ts'
import { splitCommand } from './split-command.ts'
import type { RedisTransaction } from './transaction.ts'

/** What must be so for a transaction to commit. `field` only where it is about one of a hash; `null`: there must be nothing. */
export interface Guard {
  readonly key: RedisArgument
  readonly field?: RedisArgument | undefined
  readonly value: RedisArgument | null
  /** Whether the value is a fingerprint of all that the key holds. Default: false. */
  readonly whole?: boolean | undefined
}

/** What the transactions of a client share. */
export interface QueueHome {
  readonly space: KeySpace
  readonly known: KnownCommands
}

const none: readonly never[] = []

/** Redis before 7.0 closes the connection at a call of 1,048,576 words; what a transaction brings along besides its commands is left out here. */
const maxArguments = 1_000_000

/** The writes of a transaction that has begun. */
export class CommandQueue implements RedisTransaction, WriteTarget {
  readonly scope: TransactionScope
  readonly #home: QueueHome
  readonly #owner: () => string
  readonly #commands: QueuedCommand[] = []
  // Made when they are needed: a queue is made per message.
  #events: QueuedCommand[] | undefined
  #guards: Guard[] | undefined
  #fragments: CommitFragment[] | undefined
  #checks: Promise<void>[] | undefined
  #writer: RedisWrites | undefined
  #anchor: RedisArgument | undefined
  #ended = false
  #arguments = 0

  /** `owner` names the message or function in texts. */
  constructor(home: QueueHome, scope: TransactionScope, owner: () => string, anchor: RedisArgument | undefined) {
    this.#home = home
    this.scope = scope
    this.#owner = owner
    this.#anchor = anchor
  }

  get anchor(): RedisArgument | undefined {
    return this.#anchor
  }

  get commands(): readonly QueuedCommand[] {
    return this.#commands
  }

  get events(): readonly QueuedCommand[] {
    return this.#events ?? none
  }

  get guards(): readonly Guard[] {
    return this.#guards ?? none
  }

  get isEmpty(): boolean {
    return this.#commands.length === 0 && this.#events === undefined && this.#guards === undefined
  }

  /** The Lua that its commands bring to the commit script. */
  get fragments(): readonly CommitFragment[] {
    return this.#fragments ?? none
  }

  /** Passes on what the commit answered to the commands of fragments, in their order, with blanks between the answers. */
  stored(answers: string): void {
    const parts = answers.split(' ')
    let next = 0
    for (const list of [this.#commands, this.events]) {
      for (const { kind, onStored } of list) {
        if (typeof kind === 'string') continue
        const answer = parts[next]
        next += 1
        if (answer !== undefined && answer !== '') onStored?.(answer)
      }
    }
  }

  /** How many bytes all arguments take, about. */
  get weight(): number {
    let weight = 4 * this.#arguments
    for (const { args } of this.#commands) for (const argument of args) weight += argument.length
    for (const { args } of this.events) for (const argument of args) weight += argument.length
    return weight
  }

  get writer(): RedisWrites {
    this.#writer ??= createWriter(this)
    return this.#writer
  }

  /** The writer's. */
  run(command: QueuedCommand): Promise<void> {
    this.queue(command)
    return done
  }

  /** The writer's. */
  runUnknown(command: RawCommand): Promise<void> {
    const check = this.#home.known.complete(command)
    // Told at the commit, and to whoever awaits the write.
    check?.catch(() => {})
    this.queue(command)
    if (check === undefined) return done
    this.#waitFor(check)
    return check
  }

  queue(command: QueuedCommand): void {
    this.#check(command)
    this.#add(this.#commands, command)
  }

  queueEvent(command: QueuedCommand): void {
    this.#check(command)
    const { cancels } = command
    // A nested transaction brings its cancellations along, and they hold for the events of the outer one.
    const events = cancels === undefined ? (this.#events ?? []) : this.events.filter((event) => !cancels(event))
    this.#add(events, command)
    this.#events = events
  }

  expect(key: RedisKey, value: RedisValue | null): void {
    this.guard({ key: toKey('expect()', key), value: value === null ? null : toArgument('expect()', value) })
  }

  expectField(key: RedisKey, field: RedisValue, value: RedisValue | null): void {
    this.guard({
      key: toKey('expectField()', key),
      field: toArgument('expectField()', field),
      value: value === null ? null : toArgument('expectField()', value),
    })
  }

  guard(guard: Guard): void {
    this.checkKey(guard.key)
    this.#guards ??= []
    this.#guards.push(guard)
  }

  /** Throws if the key cannot be in this transaction. The first one decides where it is. */
  checkKey(key: RedisArgument): void {
    if (this.#ended) throw ended(this.#owner())
    this.#anchor ??= key
    if (!this.#home.space.together(this.#anchor, key)) throw new CrossSlotError(key, this.#anchor)
  }

  /** What the commit has to wait for; `undefined` if there is nothing. Rejects if it must not be. */
  get checks(): Promise<unknown> | undefined {
    return this.#checks === undefined ? undefined : Promise.all(this.#checks)
  }

  /** A transaction inside of this one, whose writes come into this one if it succeeds. */
  nested(scope: TransactionScope): CommandQueue {
    return new CommandQueue(this.#home, scope, this.#owner, this.#anchor)
  }

  absorb(inner: CommandQueue): void {
    for (const guard of inner.guards) this.guard(guard)
    for (const command of inner.commands) this.queue(command)
    for (const event of inner.events) this.queueEvent(event)
    for (const check of inner.#checks ?? none) this.#waitFor(check)
  }

  /** From now on it refuses everything. */
  end(): void {
    this.#ended = true
  }

  #waitFor(check: Promise<void>): void {
    this.#checks ??= []
    this.#checks.push(check)
  }

  #check({ args, keys }: QueuedCommand): void {
    for (const index of keys) this.checkKey(args[index] as RedisArgument)
    if (this.#ended) throw ended(this.#owner())
  }

  /** Adds it as one command or as several. Adds nothing if it throws. */
  #add(list: QueuedCommand[], command: QueuedCommand): void {
    const { length } = command.args
    const parts = length <= alwaysFits ? undefined : splitCommand(command)
    this.#arguments += length + 2
    if (this.#arguments > maxArguments) {
      const error = new CommandTooLongError(undefined, this.#arguments, maxArguments)
      // Whoever catches it must not commit the part that fitted.
      const failed = Promise.reject(error)
      failed.catch(() => {})
      this.#waitFor(failed)
      throw error
    }
    const { kind } = command
    if (typeof kind !== 'string' && this.#fragments?.includes(kind) !== true) this.#fragments = [...this.fragments, kind]
    if (parts === undefined) list.push(command)
    else for (const part of parts) list.push(part)
  }
}

/** Most commands are this short, and need no look. */
const alwaysFits = 1_000

const done: Promise<void> = Promise.resolve()

function ended(owner: string): AckordError {
  return new AckordError(
    'ACKORD_SCOPE_ENDED',
    `A write was made after the transaction of ${owner} had ended. Await every write before its function returns.`,
  )
}
