import { type Context, isAckordError, Message, rootContext } from '@ackord/core'
import type { ProcessAdmin, ProcessChange, ProcessKey, ProcessQuery, ProcessRecord, ProcessStore, StoredProcess } from '@ackord/outbox'
import { eventLoopTurn } from '../../../src/helpers/virtual-runtime.ts'
import { type OpenProcessWorld, openMemoryProcessWorld, type ProcessWorld } from '../../../src/suites/process/process-world.ts'
import { type Mutant, mutantsOf } from '../../support/mutant.ts'

type Store = ProcessStore & ProcessAdmin

/** Returns the parts of a world that a mutant replaces. Called once per world, with the real one. */
type DecorateWorld = (world: ProcessWorld) => Partial<ProcessWorld>

/** Opens worlds of the in-memory store, decorated. All processes have the defect. */
function decorated(decorate: DecorateWorld): OpenProcessWorld {
  return async () => {
    const world = await openMemoryProcessWorld()
    const changed = { ...world, ...decorate(world) }
    return { ...changed, another: async () => changed }
  }
}

function broken(caughtBy: string, defects: Readonly<Record<string, DecorateWorld>>): Mutant<OpenProcessWorld>[] {
  return mutantsOf(caughtBy, defects, decorated)
}

/** Replaces methods of the store. */
function storing(change: (real: Store, world: ProcessWorld) => Partial<Store>): DecorateWorld {
  return (world) => ({ store: { ...world.store, ...change(world.store, world) } })
}

/** Changes what is saved. */
function saving(change: (change: ProcessChange) => ProcessChange): DecorateWorld {
  return storing((real) => ({ save: (key, given, context) => real.save(key, change(given), context) }))
}

/** Changes what is loaded. */
function loading(change: (stored: StoredProcess) => StoredProcess | undefined): DecorateWorld {
  return storing((real) => ({
    async load(key, context) {
      const stored = await real.load(key, context)
      return stored === undefined ? undefined : change(stored)
    },
  }))
}

/** Changes the keys of all calls. */
function keyed(change: (key: ProcessKey) => ProcessKey): DecorateWorld {
  return storing((real) => ({
    load: (key, context) => real.load(change(key), context),
    save: (key, given, context) => real.save(change(key), given, context),
    get: (key) => real.get(change(key)),
    end: (key, options) => real.end(change(key), options),
  }))
}

/** Writes at once, in a transaction of its own, instead of in that of the message. */
function committedAtOnce(isNow: (change: ProcessChange) => boolean = () => true): DecorateWorld {
  let count = 0
  return storing((real, world) => ({
    async save(key, change, context) {
      if (!isNow(change)) return await real.save(key, change, context)
      await real.load(key, context)
      count += 1
      await direct(world, `mutant${count}`, (inside) => real.save(key, change, inside))
    },
  }))
}

async function direct(world: ProcessWorld, id: string, work: (context: Context) => Promise<void>): Promise<void> {
  const message = new Message(null, { id, type: 'test', source: '/mutant', specversion: '1.0' })
  await world.transactional('mutant')(async (_message, context) => {
    await work(context)
    return []
  })(message, message.context(rootContext()))
}

/** Keeps instances in a map, without versions and without transactions: the last change wins. */
function lastWins(): DecorateWorld {
  const instances = new Map<string, ProcessRecord>()
  const nameOf = ({ process, id }: ProcessKey) => `${process} ${id}`
  return storing(() => ({
    async load(key) {
      const stored = instances.get(nameOf(key))
      await eventLoopTurn()
      return stored
    },
    async save(key, { version, state, stateVersion, timeouts, keep }) {
      await eventLoopTurn()
      const phase = keep === undefined ? 'running' : 'finished'
      instances.set(nameOf(key), {
        ...key,
        version,
        state,
        stateVersion,
        timeouts,
        phase,
        startedAt: 0,
        changedAt: 0,
        expiresAt: undefined,
      })
    },
    get: async (key) => instances.get(nameOf(key)),
  }))
}

/** No inbox: every delivery is a new message. */
const withoutInbox: DecorateWorld = (world) => {
  let count = 0
  return {
    transactional(consumer) {
      const middleware = world.transactional(consumer)
      return (next) => (message, context) => {
        count += 1
        const renamed = message.withAttributes({ id: `${message.id} ${count}` })
        const restored = middleware((given, inside) =>
          next(given.withAttributes({ id: message.id }), given.withAttributes({ id: message.id }).context(inside)),
        )
        return restored(renamed, renamed.context(context))
      }
    },
  }
}

const querying = (change: (query: ProcessQuery) => ProcessQuery) => storing((real) => ({ list: (query = {}) => real.list(change(query)) }))

/** What the mutants of versions do instead of checking them: they take whichever is there. */
const anyVersion: DecorateWorld = storing((real) => ({
  async save(key, change, context) {
    const stored = await real.load(key, context)
    await real.save(key, { ...change, version: (stored?.version ?? 0) + 1 }, context)
  },
}))

export const processMutants: readonly Mutant<OpenProcessWorld>[] = [
  ...broken('an event that begins a process stores its state and sends messages, for every process of the store', {
    'states are lost': saving((change) => ({ ...change, state: '{"log":[],"text":""}' })),
    'timeouts are lost': saving((change) => ({ ...change, timeouts: {} })),
    'the version of the state is lost': saving((change) => ({ ...change, stateVersion: 0 })),
    'every instance is finished': saving((change) => ({ ...change, keep: 1000 })),
  }),
  ...broken('further events find the state that earlier ones have left, in any process of the store', {
    'only the first state is kept': storing((real) => ({
      async save(key, change, context) {
        const stored = await real.load(key, context)
        await real.save(key, { ...change, state: stored?.state ?? change.state }, context)
      },
    })),
    'nothing is found': loading((stored) => ({ ...stored, phase: 'forgotten' })),
  }),
  ...broken('an event that arrives before the one that begins its process is handled when it is redelivered', {
    'every instance exists': storing((real) => ({
      async load(key, context) {
        return (
          (await real.load(key, context)) ?? { phase: 'running', version: 0, state: '{"log":[],"text":""}', stateVersion: 1, timeouts: {} }
        )
      },
    })),
  }),
  ...broken('a message that is delivered several times is one event', { 'there is no inbox': withoutInbox }),
  ...broken('a step that fails leaves nothing, and its message is handled when it is redelivered', {
    'the step is not in the transaction': (world) => ({
      transactional: (consumer) => (next) => async (message, context) => {
        try {
          return await world.transactional(consumer)(next)(message, context)
        } catch (error) {
          await world.transactional(consumer)(async () => [])(message, context)
          throw error
        }
      },
    }),
  }),
  ...broken('a change whose transaction fails after it was saved leaves nothing', { 'a change is committed at once': committedAtOnce() }),
  ...broken('a finished process ignores every event until it is forgotten, and then begins anew', {
    'finished instances are running': loading((stored) => ({ ...stored, phase: 'running' })),
    'finished instances are forgotten at once': loading((stored) =>
      stored.phase === 'finished' ? { ...stored, phase: 'forgotten' } : stored,
    ),
    'finished instances are never forgotten': loading((stored) =>
      stored.phase === 'forgotten' ? { ...stored, phase: 'finished' } : stored,
    ),
    'an instance that begins anew stays finished': saving((change) =>
      change.begins && change.version > 1 ? { ...change, keep: 1 } : change,
    ),
    'forgotten instances are still shown': (world) => {
      const known = new Map<string, ProcessRecord>()
      return storing((real) => ({
        async get(key) {
          const record = (await real.get(key)) ?? known.get(key.id)
          if (record !== undefined) known.set(key.id, record)
          return record
        },
      }))(world)
    },
  }),
  ...broken('a process that its first event finishes is remembered, too', {
    'it is not stored': storing((real) => ({
      async save(key, change, context) {
        if (change.begins && change.keep !== undefined) return
        await real.save(key, change, context)
      },
    })),
    'it is stored as running': saving((change) => (change.begins ? { ...change, keep: undefined } : change)),
  }),
  ...broken('instances whose ids differ in any way are different, and so are those of other processes', {
    'case is ignored': keyed(({ process, id }) => ({ process, id: id.toLowerCase() })),
    'blanks at the end are ignored': keyed(({ process, id }) => ({ process, id: id.trimEnd() })),
    'names of processes are ignored': keyed(({ id }) => ({ process: 'any', id })),
    'the case of names is ignored': keyed(({ process, id }) => ({ process: process.toLowerCase(), id })),
  }),
  ...broken('a state keeps every character and may be large', {
    'lone surrogates are replaced': saving((change) => ({ ...change, state: change.state.replaceAll('\\ud800', '\ufffd') })),
    'large states are cut': saving((change) => ({
      ...change,
      state: change.state.length > 65_535 ? '{"log":[],"text":""}' : change.state,
    })),
  }),
  ...broken('an instance is neither read nor written outside of a transaction', {
    'it is read outside': storing((real) => ({
      async load(key, context) {
        try {
          return await real.load(key, context)
        } catch (error) {
          if (isAckordError(error, 'ACKORD_TRANSACTION_REQUIRED')) return undefined
          throw error
        }
      },
    })),
  }),
  ...broken('events that arrive at once are all handled, one after the other', { 'the last change wins': (world) => lastWins()(world) }),
  ...broken('of several beginnings at once, one begins the process and the others are events of it', {
    'the last change wins': (world) => lastWins()(world),
  }),
  ...broken('a message that is delivered twice at once is one event', { 'there is no inbox': withoutInbox }),
  ...broken('a change that does not follow the version before it conflicts, and leaves nothing', { 'any version is replaced': anyVersion }),
  ...broken('of a timeout and the event that cancels it, arriving at once, both are handled or only the event', {
    'cancelled timeouts are kept': (world) => {
      const kept = new Map<string, StoredProcess['timeouts']>()
      return storing((real) => ({
        async load(key, context) {
          const stored = await real.load(key, context)
          return stored === undefined ? undefined : { ...stored, phase: 'running', timeouts: kept.get(key.id) ?? stored.timeouts }
        },
        async save(key, change, context) {
          if (Object.keys(change.timeouts).length > 0) kept.set(key.id, change.timeouts)
          await real.save(key, change, context)
        },
      }))(world)
    },
  }),
  ...broken('a timeout is stored as a delayed message to the consumer of the process, and its step is called once', {
    'tokens are lost': loading((stored) => ({ ...stored, timeouts: {} })),
    'there is no inbox, and tokens stay': (world) => ({
      ...withoutInbox(world),
      ...keepsTokens(world),
    }),
  }),
  ...broken('a cancelled timeout is ignored', { 'tokens stay': keepsTokens }),
  ...broken('a timeout that is set again replaces the one before', {
    'the first token stays': storing((real) => ({
      async save(key, change, context) {
        const stored = await real.load(key, context)
        await real.save(key, { ...change, timeouts: { ...change.timeouts, ...stored?.timeouts } }, context)
      },
    })),
  }),
  ...broken('a timeout that is due after its process has finished is ignored, also when the process has begun anew', {
    'finished instances keep their tokens': (world) => {
      const tokens = new Map<string, StoredProcess['timeouts']>()
      return storing((real) => ({
        async load(key, context) {
          const stored = await real.load(key, context)
          if (stored?.phase !== 'finished') return stored
          return { ...stored, phase: 'running', timeouts: tokens.get(key.id) ?? {} }
        },
        async save(key, change, context) {
          if (change.keep === undefined) tokens.set(key.id, change.timeouts)
          await real.save(key, change, context)
        },
      }))(world)
    },
    'the first token of an id stays': keepsTokens,
  }),
  ...broken('operators list instances page by page, by process and phase', {
    'the process is ignored': querying(({ process: _, ...query }) => query),
    'the phase is ignored': querying(({ phase: _, ...query }) => query),
    'the age is ignored': querying(({ idleFor: _, ...query }) => query),
    'there is one page': storing((real) => ({ list: async (query) => ({ ...(await real.list(query)), next: undefined }) })),
  }),
  ...broken('an instance that an operator ends keeps its state and ignores events and timeouts', {
    'nothing ends': storing(() => ({ end: async () => true })),
    'it is forgotten at once': storing((real) => ({ end: (key) => real.end(key, { keep: 1e-9 }) })),
    'it is remembered for ever': storing((real) => ({ end: (key) => real.end(key, { keep: 1e15 }) })),
  }),
  ...broken('the cleanup deletes forgotten instances, and no others', {
    'nothing is deleted': () => ({ clean: async () => 0 }),
    'finished instances are deleted at once': (world) => ({
      async clean() {
        await world.advance(4_000_000)
        return (await world.clean?.()) ?? 0
      },
    }),
  }),
]

/** Tokens of timeouts are only added. */
function keepsTokens(world: ProcessWorld): Partial<ProcessWorld> {
  const tokens = new Map<string, StoredProcess['timeouts']>()
  return storing((real) => ({
    async load(key, context) {
      const stored = await real.load(key, context)
      return stored === undefined ? undefined : { ...stored, timeouts: tokens.get(key.id) ?? stored.timeouts }
    },
    async save(key, change, context) {
      tokens.set(key.id, { ...change.timeouts, ...tokens.get(key.id) })
      await real.save(key, change, context)
    },
  }))(world)
}
