import { AckordError } from '@ackord/core'
import type { TransactionScope } from '@ackord/core/internal'
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

/** A condition for the commit of a transaction. `field`: of a hash; `null`: the key or field must not exist. */
export interface Guard {
  readonly key: RedisArgument
  readonly field?: RedisArgument | undefined
  readonly value: RedisArgument | null
  /** Whether the value is a fingerprint of the whole key. Default: false. */
  readonly whole?: boolean | undefined
}

/** Shared by the transactions of a client. */
export interface QueueContext {
  readonly space: KeySpace
  readonly known: KnownCommands
}

const none: readonly never[] = []

/** Redis before 7.0 closes the connection at a call with 1,048,576 words; the words of a transaction besides its commands are not counted here. */
const maxArguments = 1_000_000

/** A transaction that has begun: its queued commands, events and guards. */
export class CommandQueue implements RedisTransaction, WriteTarget {
  readonly scope: TransactionScope
  readonly #context: QueueContext
  readonly #owner: () => string
  readonly #commands: QueuedCommand[] = []
  // Created when they are needed: there is a queue per message.
  #events: QueuedCommand[] | undefined
  #guards: Guard[] | undefined
  #wakeUps: Set<RedisArgument> | undefined
  #fragments: CommitFragment[] | undefined
  #checks: Promise<void>[] | undefined
  #writer: RedisWrites | undefined
  #anchor: RedisArgument | undefined
  #ended = false
  #arguments = 0

  /** `owner` names the message or function in errors. */
  constructor(context: QueueContext, scope: TransactionScope, owner: () => string, anchor: RedisArgument | undefined) {
    this.#context = context
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

  /** Streams that get an entry after the commit. */
  get wakeUps(): Iterable<RedisArgument> {
    return this.#wakeUps ?? none
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

  /** The approximate size of all arguments in bytes. */
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

  /** For the writer. */
  run(command: QueuedCommand): Promise<void> {
    this.queue(command)
    return done
  }

  /** For the writer. */
  runUnknown(command: RawCommand): Promise<void> {
    const check = this.#context.known.complete(command)
    // The commit and the caller of the write get the error.
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
    // The cancellations of a nested transaction apply to the events of the outer one.
    const events = cancels === undefined ? (this.#events ?? []) : this.events.filter((event) => !cancels(event))
    this.#add(events, command)
    this.#events = events
  }

  queueWakeUp(stream: RedisArgument): void {
    this.checkKey(stream)
    this.#wakeUps ??= new Set()
    this.#wakeUps.add(stream)
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

  /** Throws if the key cannot be in this transaction. The first key determines the slot. */
  checkKey(key: RedisArgument): void {
    if (this.#ended) throw ended(this.#owner())
    this.#anchor ??= key
    if (!this.#context.space.together(this.#anchor, key)) throw new CrossSlotError(key, this.#anchor)
  }

  /** The checks that the commit must wait for; `undefined` if there are none. Rejects if the transaction must not commit. */
  get checks(): Promise<unknown> | undefined {
    return this.#checks === undefined ? undefined : Promise.all(this.#checks)
  }

  /** A transaction inside of this one, whose writes are added to this one if it succeeds. */
  nested(scope: TransactionScope): CommandQueue {
    return new CommandQueue(this.#context, scope, this.#owner, this.#anchor)
  }

  absorb(inner: CommandQueue): void {
    for (const guard of inner.guards) this.guard(guard)
    for (const command of inner.commands) this.queue(command)
    for (const event of inner.events) this.queueEvent(event)
    for (const stream of inner.wakeUps) this.queueWakeUp(stream)
    for (const check of inner.#checks ?? none) this.#waitFor(check)
  }

  /** Refuses everything from now on. */
  end(): void {
    this.#ended = true
  }

  waitFor(work: Promise<void>): Promise<void> {
    // The commit and the caller get the error.
    work.catch(() => {})
    this.#waitFor(work)
    return work
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
      // A caller that catches the error must not commit the part that fitted.
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

/** Most commands are shorter than this, and need no check. */
const alwaysFits = 1_000

const done: Promise<void> = Promise.resolve()

function ended(owner: string): AckordError {
  return new AckordError(
    'ACKORD_SCOPE_ENDED',
    `A write was made after the transaction of ${owner} had ended. Await every write before the handler or the function of write() returns.`,
  )
}
