import { systemRuntime } from '@ackord/core'
import { formatDuration } from '../settings/duration.ts'

/** One thing that was looked at. */
export interface Check {
  readonly name: string
  /** `warning`: it works, and somebody should know. `unknown`: it could not be found out. */
  readonly state: 'ok' | 'warning' | 'problem' | 'unknown'
  /** What was found, and what to do about it. */
  readonly text: string
}

export function check(name: string, state: Check['state'], text: string): Check {
  return { name, state, text }
}

/** Looks; what it fails with is a finding, too. */
export async function look(name: string, find: () => Promise<Check>): Promise<Check> {
  try {
    return await find()
  } catch (error) {
    return check(name, 'unknown', `It could not be found out: ${messageOf(error)}`)
  }
}

/** The same for what services and relays do themselves: if the user may not do it, neither may they. */
export async function lookAsUser(name: string, find: () => Promise<Check>): Promise<Check> {
  return await look(name, async () => {
    try {
      return await find()
    } catch (error) {
      if (!isDenied(error)) throw error
      return check(name, 'problem', `The user has not the privileges that services and relays need: ${messageOf(error)}`)
    }
  })
}

/** Whether the database refused it because of who asked: SQLSTATE 42501 of PostgreSQL, the errors of MySQL and MariaDB for denied access. */
export function isDenied(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const { code } = error as { readonly code?: unknown }
  return code === '42501' || /ACCESS_DENIED/.test(String(code)) || isDenied(error.cause)
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

const tolerated = 1000

/** Compares the server's clock with ours, as far as the time that the question takes allows. `ask` gives milliseconds since the epoch. */
export async function clockCheck(ask: () => Promise<number>): Promise<Check> {
  let best = { took: Infinity, difference: 0 }
  for (let attempt = 0; attempt < 3; attempt += 1) {
    const before = systemRuntime.now()
    const startedAt = systemRuntime.monotonic()
    const theirs = await ask()
    const took = systemRuntime.monotonic() - startedAt
    if (took < best.took) best = { took, difference: theirs - (before + took / 2) }
  }
  const off = Math.max(0, Math.abs(best.difference) - best.took / 2)
  if (off <= tolerated) return check('clock', 'ok', 'The clocks of the server and of this machine agree.')
  const direction = best.difference > 0 ? 'ahead of' : 'behind'
  const text = `The server is ${formatDuration(Math.abs(best.difference))} ${direction} this machine. Leases and delays do not mind, they are by the server's clock; \`expirytime\` does. Keep both in step with NTP.`
  return check('clock', 'warning', text)
}
