import { AckordError } from '@ackord/core'
import type { Driver, Session } from '../contract/driver.ts'
import type { QueryTracker } from '../contract/query-tracker.ts'

/** Changes that an ORM keeps in memory until they are flushed. */
export interface UnitOfWork {
  /** Whether there are unflushed changes. */
  changed(): boolean
  /** Sends the changes, also after the end of the scope in which they were made. */
  flush(): Promise<void>
}

interface OpenUnit {
  readonly tracker: QueryTracker
  readonly unit: UnitOfWork
}

/**
 * Wraps a driver for handles with a unit of work. Changes left in a unit when its scope ends (a message, or a savepoint) are flushed before the
 * savepoint is released or the transaction committed; they are dropped if it is rolled back.
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
      // Includes the release of a savepoint.
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

/** The units of a transaction whose scopes are open, or have ended without a flush. */
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

  /**
   * In a group the next message would not see the unflushed changes of the previous one, and would overwrite them. Handled alone, each message is
   * flushed.
   */
  checkFlushed(): void {
    if (!this.#units.some((open) => hasEnded(open) && open.unit.changed())) return
    throw new AckordError(
      'ACKORD_TRANSACTION_ABORTED',
      'A message of a group left unflushed changes. The group is dissolved; flush in the handler to avoid this.',
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
