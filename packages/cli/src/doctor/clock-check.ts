import { systemRuntime } from '@ackord/core'
import { formatDuration } from '../duration.ts'
import { type Check, check } from './check.ts'

const tolerated = 1000

/** Compares the server's clock with ours, as far as the time that the question takes allows. `ask` gives milliseconds since the epoch. */
export async function clockCheck(ask: () => Promise<number>): Promise<Check> {
  let best = { took: Infinity, difference: 0 }
  for (let attempt = 0; attempt < 3; attempt += 1) {
    const before = systemRuntime.now()
    const theirs = await ask()
    const took = systemRuntime.now() - before
    if (took < best.took) best = { took, difference: theirs - (before + took / 2) }
  }
  const off = Math.max(0, Math.abs(best.difference) - best.took / 2)
  if (off <= tolerated) return check('clock', 'ok', 'The clocks of the server and of this machine agree.')
  const direction = best.difference > 0 ? 'ahead of' : 'behind'
  const text = `The server is ${formatDuration(Math.abs(best.difference))} ${direction} this machine. Leases and delays do not mind, they are by the server's clock; \`expirytime\` does. Keep both in step with NTP.`
  return check('clock', 'warning', text)
}
