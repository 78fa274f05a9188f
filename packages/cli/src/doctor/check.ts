import { systemRuntime } from '@ackord/core'
import { causesOf } from '@ackord/core/internal'
import { formatDuration } from '../settings/duration.ts'

/** The result of one check. */
export interface Check {
  readonly name: string
  /** `warning`: it works, but needs attention. `unknown`: the check failed to run. */
  readonly state: 'ok' | 'warning' | 'problem' | 'unknown'
  /** The finding, and how to fix it. */
  readonly text: string
  /** Statements that fix it, ready to be pasted into a client of the server, in the session of an administrator. Default: none. */
  readonly statements?: readonly string[] | undefined
}

export function check(name: string, state: Check['state'], text: string, statements?: readonly string[]): Check {
  return { name, state, text, ...(statements !== undefined && { statements }) }
}

/** A user that lacks privileges, with the statements that grant them; if there are none, the user has all. */
export function privilegeCheck(user: string, statements: readonly string[]): Check {
  if (statements.length === 0) return check('privileges', 'ok', 'The user has all privileges that a service and a relay need.')
  const text = `The user ${user} lacks privileges that services and relays need. As an administrator, run:`
  return check('privileges', 'problem', text, statements)
}

/** Runs a check; its failure is a finding, too. */
export async function runCheck(name: string, find: () => Promise<Check>): Promise<Check> {
  try {
    return await find()
  } catch (error) {
    return check(name, 'unknown', `The check failed: ${messageOf(error)}`)
  }
}

/** Runs a statement that services and relays need themselves: if the user lacks the privilege for it, so do they. */
export async function runPrivilegeCheck(name: string, find: () => Promise<Check>): Promise<Check> {
  return await runCheck(name, async () => {
    try {
      return await find()
    } catch (error) {
      if (!isDenied(error)) throw error
      return check(name, 'problem', `The user lacks privileges that services and relays need: ${messageOf(error)}`)
    }
  })
}

/** Whether the server denied access: SQLSTATE 42501 of PostgreSQL, the access errors of MySQL and MariaDB, or NOPERM of Redis. */
export function isDenied(error: unknown): boolean {
  for (const cause of causesOf(error)) {
    const { code } = cause as { readonly code?: unknown }
    if (code === '42501' || /ACCESS_DENIED/.test(String(code)) || (cause instanceof Error && cause.message.startsWith('NOPERM')))
      return true
  }
  return false
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

const tolerated = 1000

/** Compares the server's clock with the local one, as precisely as the round trip allows. `ask` returns milliseconds since the epoch. */
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
  const text = `The server is ${formatDuration(Math.abs(best.difference))} ${direction} this machine. Leases and delays are not affected, they use the server's clock; \`expirytime\` is. Synchronise both with NTP.`
  return check('clock', 'warning', text)
}
