import { type Context, type Runtime, systemRuntime, TransactionRequiredError } from '@ackord/core'
import { checkDuration, rejectUnknownOptions } from '@ackord/core/internal'
import {
  checkProcessKey,
  checkProcessQuery,
  type ProcessAdmin,
  type ProcessKey,
  type ProcessPhase,
  type ProcessRecord,
  type ProcessStore,
  processConflict,
  type StoredProcess,
} from '@ackord/outbox'
import type { MemoryStore, MemoryTable } from './memory-store.ts'

export interface MemoryProcessesOptions {
  /** Default: `systemRuntime`. */
  readonly runtime?: Runtime | undefined
}

/** The instances of processes in memory. */
export interface MemoryProcesses extends ProcessStore, ProcessAdmin {}

interface Instance extends Omit<StoredProcess, 'phase'> {
  readonly startedAt: number
  readonly changedAt: number
  readonly expiresAt: number | undefined
}

const prefix = 'ackord.process '

/**
 * Keeps the instances of processes in a `MemoryStore`, for the tests of services: `router.handleAll(...orderProcess.handlers(memoryProcesses(store)))`. They are entries of its table,
 * and commit with the message. Of two messages that change an instance at once, one fails at its commit and is redelivered.
 */
export function memoryProcesses(store: MemoryStore, options: MemoryProcessesOptions = {}): MemoryProcesses {
  const { runtime = systemRuntime, ...unknown } = options
  rejectUnknownOptions('memoryProcesses()', unknown)

  function tableOf(context: Context): MemoryTable {
    const transaction = store.transaction(context)
    if (transaction === undefined) throw new TransactionRequiredError('memoryProcesses()')
    return transaction
  }

  // Only this function's values are under its names.
  const find = (table: MemoryTable, key: ProcessKey) => table.get(nameOf(key)) as Instance | undefined

  function phaseOf({ expiresAt }: Instance): ProcessPhase {
    if (expiresAt === undefined) return 'running'
    return expiresAt > runtime.now() ? 'finished' : 'forgotten'
  }

  function recordOf(key: ProcessKey, instance: Instance): ProcessRecord | undefined {
    const phase = phaseOf(instance)
    return phase === 'forgotten' ? undefined : { ...key, ...instance, phase }
  }

  return {
    async load(key, context) {
      const instance = find(tableOf(context), checkProcessKey(key))
      if (instance === undefined) return undefined
      const { version, state, stateVersion, timeouts } = instance
      return { phase: phaseOf(instance), version, state, stateVersion, timeouts }
    },

    async save(key, { version, state, stateVersion, timeouts, begins, keep }, context) {
      const table = tableOf(context)
      const before = find(table, checkProcessKey(key))
      if ((before?.version ?? 0) !== version - 1) throw processConflict(key)
      const now = runtime.now()
      const startedAt = begins ? now : (before?.startedAt ?? now)
      const expiresAt = keep === undefined ? undefined : now + keep
      const instance: Instance = { version, state, stateVersion, timeouts: { ...timeouts }, startedAt, changedAt: now, expiresAt }
      table.set(nameOf(key), instance)
    },

    async list(query = {}) {
      const { process, phase, idleFor = -Infinity, limit, after } = checkProcessQuery(query)
      const names = store
        .executor()
        .entries()
        .filter(([name]) => name.startsWith(prefix) && (after === undefined || name > after))
      const read = names.slice(0, limit)
      const processes = read.flatMap(([name, value]) => {
        const record = recordOf(keyOf(name), value as Instance)
        const matches =
          record !== undefined &&
          (process ?? record.process) === record.process &&
          (phase ?? record.phase) === record.phase &&
          runtime.now() - record.changedAt >= idleFor
        return matches ? [record] : []
      })
      return { processes, next: read.length < names.length ? read.at(-1)?.[0] : undefined }
    },

    async get(key) {
      const instance = find(store.executor(), checkProcessKey(key))
      return instance === undefined ? undefined : recordOf(key, instance)
    },

    async end(key, { keep }) {
      checkProcessKey(key)
      checkDuration('keep', keep, { min: 1 })
      return await store.write(async (table) => {
        const instance = find(table, key)
        if (instance === undefined || instance.expiresAt !== undefined) return false
        const now = runtime.now()
        const ended: Instance = { ...instance, version: instance.version + 1, timeouts: {}, changedAt: now, expiresAt: now + keep }
        table.set(nameOf(key), ended)
        return true
      })
    },
  }
}

function nameOf({ process, id }: ProcessKey): string {
  return prefix + JSON.stringify([process, id])
}

function keyOf(name: string): ProcessKey {
  // As nameOf() wrote it.
  const [process, id] = JSON.parse(name.slice(prefix.length)) as readonly [string, string]
  return { process, id }
}
