import type { DurabilityCheck } from '@ackord/redis'
import type { RedisStore } from '../stores/store.ts'
import { type Check, check, clockCheck, runCheck } from './check.ts'
import { redisPrivileges } from './redis-privileges.ts'

/** The findings of `checkDurability()` that can lose confirmed writes at any restart or memory shortage, not only when a machine is lost. */
const severe: ReadonlySet<string> = new Set(['appendonly', 'maxmemory-policy'])

/** Checks the settings of Redis that the guarantees depend on. */
export async function redisChecks(store: RedisStore): Promise<readonly Check[]> {
  const { checks } = await store.checkDurability()
  return [
    ...checks.map(durabilityCheck),
    await runCheck('clock', () =>
      clockCheck(async () => {
        const [seconds, microseconds] = (await store.send('TIME')) as [string, string]
        return Number(seconds) * 1000 + Number(microseconds) / 1000
      }),
    ),
    await redisPrivileges(store),
  ]
}

/** With a single server the findings need no server name. */
function durabilityCheck({ name, state, text, server }: DurabilityCheck): Check {
  const found = state === 'violated' ? (severe.has(name) ? 'problem' : 'warning') : state
  return check(name, found, server === 'the server' ? text : `On ${server}: ${text}`)
}
