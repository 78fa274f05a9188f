import { type Attributes, type Context, enter, Message, type Middleware, type Process, silentLogger } from '@ackord/core'
import { TransactionScope, transactionScopeKey } from '@ackord/core/internal'
import { MemoryStore } from '../../../src/helpers/memory-store.ts'
import type { OpenTransactionWorld, TransactionWorld } from '../../../src/suites/transaction/transaction-world.ts'
import { memoryStoreWorld } from '../../support/memory-store-world.ts'
import { type Mutant, mutantsOf } from '../../support/mutant.ts'

/** Returns the parts of a world that a mutant replaces. Called once per world, with the real one and its store. */
export type DecorateStore = (world: TransactionWorld, store: MemoryStore) => Partial<TransactionWorld>

/** Opens worlds of the in-memory store, decorated. */
export function decoratedMemoryStore(decorate: DecorateStore): OpenTransactionWorld {
  return async () => {
    const store = new MemoryStore()
    const world = memoryStoreWorld(store)
    return { ...world, ...decorate(world, store) }
  }
}

/** The transaction or inbox mutants that one scenario must catch. */
export function brokenStore(caughtBy: string, defects: Readonly<Record<string, DecorateStore>>): Mutant<OpenTransactionWorld>[] {
  return mutantsOf(caughtBy, defects, decoratedMemoryStore)
}

/** Wraps the transaction, alone and with inbox and outbox. */
export function wrapping(wrap: (real: Middleware, world: TransactionWorld, store: MemoryStore) => Middleware): DecorateStore {
  return (world, store) => ({
    transaction: () => wrap(world.transaction(), world, store),
    transactional: (consumer) => wrap(world.transactional(consumer), world, store),
  })
}

/** Code that runs inside of the real transaction. `outer` is the context outside of it. */
type Inside = (message: Message, inside: Context, next: Process, outer: Context) => Promise<readonly Message[]>

/** Runs other code inside of the real transaction. */
export function insideOf(real: Middleware, run: Inside): Middleware {
  return (next) => (message, context) => real((_, inside) => run(message, inside, next, context))(message, context)
}

/** The same, and the transaction does not hold the verdicts of the message. */
export function detachedFrom(real: Middleware, run: Inside): Middleware {
  return (next) => (message, context) => real((_, inside) => run(message, inside, next, context))(standIn(message), context)
}

/** The real transaction and inbox see another message. The verdicts of the message itself are held as usual. */
export function seeing(real: Middleware, substitute: (message: Message) => Message): Middleware {
  return (next) => (message, context) => {
    const run: Process = (_, inside) => {
      inside.get(transactionScopeKey)?.hold(message)
      return next(message, inside)
    }
    return real(run)(substitute(message), context)
  }
}

/** A copy of the message. Its verdicts are those of the message itself, unless `ack` is replaced. */
export function standIn(message: Message, attributes: Attributes = {}, ack = () => message.ack()): Message {
  return new Message(
    message.data,
    { ...message.attributes, ...attributes },
    {
      acking: {
        ack: async () => void (await ack()),
        nack: async (error, options) => void (await message.nack(error, options)),
        reject: async (error) => void (await message.reject(error)),
      },
    },
  )
}

/** A transaction whose callbacks and verdicts depend on a scope that the mutant ends, inside of the real one. */
export function withOwnScope(end: (scope: TransactionScope, failed: boolean) => Promise<void> | undefined): DecorateStore {
  return wrapping((real) =>
    detachedFrom(real, async (message, inside, next, outer) => {
      const scope = new TransactionScope(outer, { logger: silentLogger })
      scope.hold(message)
      const context = inside.with(transactionScopeKey, scope)
      let failed = true
      try {
        const outputs = await enter(context, () => next(message, context))
        failed = false
        return outputs
      } finally {
        await end(scope, failed)
      }
    }),
  )
}

/** The business writes of a world, in order. */
export class WriteJournal {
  readonly writes: { readonly key: string; readonly value: string }[] = []

  recording(world: TransactionWorld): Pick<TransactionWorld, 'write'> {
    return {
      write: async (context, key, value) => {
        this.writes.push({ key, value })
        await world.write(context, key, value)
      },
    }
  }

  async writeAll(world: TransactionWorld, context: Context): Promise<void> {
    for (const { key, value } of this.writes) await world.write(context, key, value)
  }
}
