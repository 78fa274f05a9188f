import { AckordError } from '@ackord/core'
import type { Driver, Session } from '../contract/driver.ts'
import type { QueryTracker } from '../contract/query-tracker.ts'

/** Changes that an ORM keeps in memory until they are flushed. */
export interface UnitOfWork {
  /** Whether there are any. */
  changed(): boolean
  /** Sends them, also after the end of the scope that they were made in. */
  flush(): Promise<void>
}

interface OpenUnit {
  readonly tracker: QueryTracker
  readonly unit: UnitOfWork
}

/**
 * The same driver for handles with a unit of work. What is left in one when its scope ends (a message, or a savepoint) is flushed before the
 * savepoint is released or the transaction committed; if it is rolled back, that is forgotten.
 */
export function flushingDriver<Handle>(driver: Driver<Handle>, unitOf: (handle: Handle) => UnitOfWork): Driver<Handle> {
  return {
    ...driver,
    async transaction(settings, work, signal) {
      return await driver.transaction(
        settings,
        async function workAndFlush(session) {
          const units = new Units()
          const result = await work(flushingSession(session, units, unitOf))
          await units.flushEnded()
          return result
        },
        signal,
      )
    },
  }
}

function flushingSession<Handle>(session: Session<Handle>, units: Units, unitOf: (handle: Handle) => UnitOfWork): Session<Handle> {
  return {
    ...session,
    async run(sql, parameters) {
      // The release of a savepoint comes here.
      await units.flushEnded()
      return await session.run(sql, parameters)
    },
    async script(sql) {
      if (sql.startsWith('ROLLBACK TO SAVEPOINT')) units.takeEnded()
      await session.script(sql)
    },
    track(tracker) {
      units.checkFlushed()
      const handle = session.track(tracker)
      units.add({ tracker, unit: unitOf(handle) })
      return handle
    },
  }
}

/** Those of a transaction whose scopes are open, or have ended and were not flushed. */
class Units {
  #units: OpenUnit[] = []

  add(unit: OpenUnit): void {
    this.#units.push(unit)
  }

  takeEnded(): readonly OpenUnit[] {
    const ended = this.#units.filter(hasEnded)
    this.#units = this.#units.filter((unit) => !ended.includes(unit))
    return ended
  }

  async flushEnded(): Promise<void> {
    for (const { unit } of this.takeEnded()) await unit.flush()
  }

  /** In a group the next message would not see what the one before has left, and would overwrite it. Alone, each is flushed. */
  checkFlushed(): void {
    if (!this.#units.some((open) => hasEnded(open) && open.unit.changed())) return
    throw new AckordError(
      'ACKORD_TRANSACTION_ABORTED',
      'A message of a group has left changes that were not flushed. The group is dissolved; flush in the handler to keep it together.',
    )
  }
}

function hasEnded({ tracker }: OpenUnit): boolean {
  try {
    tracker.checkOpen()
    return false
  } catch {
    return true
  }
}
