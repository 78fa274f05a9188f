import { systemRuntime } from '@ackord/core'
import { aborted } from './stopping.ts'

/** Longer than it takes a server that answers, shorter than those wait who told the command to stop. */
const limit = 5000

/** Waits until it is closed, but not for a server that does not answer any more: what is open then ends with the process. */
export async function closeWithin(close: () => Promise<void>): Promise<void> {
  const late = new AbortController()
  const timer = systemRuntime.setTimeout(() => late.abort(), limit)
  try {
    await Promise.race([close(), aborted(late.signal)])
  } finally {
    timer.cancel()
  }
}
