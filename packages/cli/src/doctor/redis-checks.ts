import { systemRuntime } from '@ackord/core'
import type { DurabilityCheck } from '@ackord/redis'
import { CommandError } from '../output/errors.ts'
import type { RedisStore } from '../stores/store.ts'
import { type Check, check, clockCheck, runCheck } from './check.ts'

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
    await runCheck('privileges', async () => {
      try {
        await store.verify()
      } catch (error) {
        if (!(error instanceof CommandError)) throw error
        return check('privileges', 'problem', `${error.message} ${error.hint ?? ''}`.trim())
      }
      // The key expires after a second.
      const key = `{${store.tag}}:doctor:${systemRuntime.uuid()}`
      try {
        await store.send('EVAL', "return redis.call('SET', KEYS[1], '1', 'PX', 1000)", 1, key)
        return check('privileges', 'ok', 'The user may run scripts and write under the tag of the outbox.')
      } catch (error) {
        const text = `The user may not run scripts, or not write keys that begin with {${store.tag}}: ${error instanceof Error ? error.message : String(error)}. Change its ACL.`
        return check('privileges', 'problem', text)
      }
    }),
  ]
}

/** With a single server the findings need no server name. */
function durabilityCheck({ name, state, text, server }: DurabilityCheck): Check {
  const found = state === 'violated' ? (severe.has(name) ? 'problem' : 'warning') : state
  return check(name, found, server === 'the server' ? text : `On ${server}: ${text}`)
}
