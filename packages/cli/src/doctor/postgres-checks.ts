import { formatDuration } from '../settings/duration.ts'
import type { SqlStore } from '../stores/store.ts'
import { type Check, check, clockCheck, runCheck } from './check.ts'

const oldTransaction = 600_000

/** Checks the settings of PostgreSQL that the guarantees depend on. */
export async function postgresChecks(store: SqlStore): Promise<readonly Check[]> {
  const show = async (name: string) => String((await store.query(`SELECT current_setting('${name}') AS value`))[0]?.['value'])
  return [
    await runCheck('server', async () => {
      const recovering = (await store.query('SELECT pg_is_in_recovery() AS value'))[0]?.['value'] === true
      const readOnly = (await show('transaction_read_only')) === 'on'
      const version = await show('server_version')
      if (recovering) return check('server', 'problem', `PostgreSQL ${version} is a standby: it accepts no writes. Connect to the primary.`)
      if (readOnly)
        return check(
          'server',
          'problem',
          `PostgreSQL ${version} is read-only: default_transaction_read_only is on. Turn it off for this user.`,
        )
      return check('server', 'ok', `PostgreSQL ${version}.`)
    }),
    await runCheck('durability', async () => {
      const [commit, fsync] = [await show('synchronous_commit'), await show('fsync')]
      if (fsync === 'off') return check('durability', 'problem', 'fsync is off: a power cut can destroy the database. Set fsync = on.')
      if (commit === 'off') {
        const text =
          'synchronous_commit is off: a crash of the server can lose commits whose messages are acked already. Set it to on for this user or database.'
        return check('durability', 'problem', text)
      }
      return check('durability', 'ok', `A commit is on disk before it is confirmed (synchronous_commit is ${commit}).`)
    }),
    await runCheck('clock', () =>
      clockCheck(async () => Number((await store.query('SELECT extract(epoch FROM clock_timestamp()) * 1000 AS now'))[0]?.['now'])),
    ),
    await runCheck('snapshots', async () => {
      const [row] = await store.query(
        `SELECT extract(epoch FROM max(clock_timestamp() - xact_start)) * 1000 AS age, pg_has_role('pg_read_all_stats', 'USAGE') AS seesothers
         FROM pg_stat_activity WHERE backend_type = 'client backend'`,
      )
      const age = Number(row?.['age'] ?? 0)
      const others =
        row?.['seesothers'] === true ? '' : ' of this user. It does not see those of others: that takes the role pg_read_all_stats'
      if (age < oldTransaction) return check('snapshots', 'ok', `There is no long-running transaction${others}.`)
      const text = `A transaction has been open for ${formatDuration(age)}: meanwhile dead rows cannot be removed, and claims become slower. Find it in pg_stat_activity and end it.`
      return check('snapshots', 'warning', text)
    }),
    await runCheck('notifications', async () => {
      if ((await store.receivesNotifications?.()) === true)
        return check('notifications', 'ok', 'NOTIFY works: `ackord relay --listen` is supported here.')
      const text =
        'NOTIFY is not delivered, as with a connection pooler in transaction mode. Polling works; for --listen connect to the server directly.'
      return check('notifications', 'warning', text)
    }),
  ]
}
