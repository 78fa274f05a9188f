import type { Session } from './driver.ts'

/** A transaction on a connection of a pool. */
export interface OpenSession<Handle> {
  readonly session: Session<Handle>
  commit(): Promise<void>
  /** Never rejects. */
  rollBack(): Promise<void>
  /** The connection is not to be used again. */
  breakOff(error: unknown): void
  /** Why, if it is not. */
  broken(): Error | undefined
}

/** Does the work, then commits; rolls back if it rejects, and rejects with its error. `end` comes last, however it ended. */
export async function workInSession<Handle, R>(
  opened: OpenSession<Handle>,
  work: (session: Session<Handle>) => Promise<R>,
  end: () => Promise<void> | undefined,
): Promise<R> {
  try {
    let result: R
    try {
      result = await work(opened.session)
    } catch (error) {
      await opened.rollBack()
      throw error
    }
    await opened.commit()
    return result
  } finally {
    const ending = end()
    if (ending !== undefined) await ending
  }
}

/** A pool may have no connection to give for a long time; an abort does not wait for it. One that comes later is given back. */
export function lend<Connection>(
  connecting: Promise<Connection>,
  giveBack: (late: Connection) => unknown,
  signal: AbortSignal,
): Promise<Connection> {
  return new Promise((resolve, reject) => {
    let isLate = signal.aborted
    const onAbort = () => {
      isLate = true
      reject(signal.reason)
    }
    if (isLate) reject(signal.reason)
    else signal.addEventListener('abort', onAbort, { once: true })
    connecting.then(
      (connection) => {
        signal.removeEventListener('abort', onAbort)
        if (isLate) giveBack(connection)
        else resolve(connection)
      },
      (error: unknown) => {
        signal.removeEventListener('abort', onAbort)
        reject(error)
      },
    )
  })
}
