import { abortable } from '@ackord/core/internal'
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

/** Does the work, then commits; rolls back if it rejects, and rejects with its error. */
export async function workInSession<Handle, R>(opened: OpenSession<Handle>, work: (session: Session<Handle>) => Promise<R>): Promise<R> {
  let result: R
  try {
    result = await work(opened.session)
  } catch (error) {
    await opened.rollBack()
    throw error
  }
  await opened.commit()
  return result
}

/** A pool may have no connection to give for a long time; an abort does not wait for it. One that comes later is given back. */
export async function lend<Connection>(
  connecting: Promise<Connection>,
  giveBack: (late: Connection) => unknown,
  signal: AbortSignal,
): Promise<Connection> {
  try {
    return await abortable(connecting, signal)
  } catch (error) {
    connecting.then(giveBack, () => {})
    throw error
  }
}
