import { systemRuntime } from '@ackord/core'
import type { DurabilityCheck } from '@ackord/redis'
import { CommandError } from '../output/errors.ts'
import type { RedisStore } from '../stores/store.ts'
import { type Check, check, clockCheck, look } from './check.ts'

/** Those of `checkDurability()` that can lose what is confirmed at any restart or shortage, not only in the loss of a machine. */
const severe: ReadonlySet<string> = new Set(['appendonly', 'maxmemory-policy'])

/** What of Redis' settings the promise rests on. */
export async function redisChecks(store: RedisStore): Promise<readonly Check[]> {
  const { checks } = await store.checkDurability()
  return [
    ...checks.map(durabilityCheck),
    await look('clock', () =>
      clockCheck(async () => {
        const [seconds, microseconds] = (await store.send('TIME')) as [string, string]
        return Number(seconds) * 1000 + Number(microseconds) / 1000
      }),
    ),
    await look('privileges', async () => {
      try {
        await store.verify()
      } catch (error) {
        if (!(error instanceof CommandError)) throw error
        return check('privileges', 'problem', `${error.message} ${error.hint ?? ''}`.trim())
      }
      // It goes by itself after a second.
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

/** Of one server there is nothing to tell apart. */
function durabilityCheck({ name, state, text, server }: DurabilityCheck): Check {
  const found = state === 'violated' ? (severe.has(name) ? 'problem' : 'warning') : state
  return check(name, found, server === 'the server' ? text : `On ${server}: ${text}`)
}
