import type { SqlStore } from '../stores/store.ts'
import { type Check, check, clockCheck, runCheck } from './check.ts'

/** Checks the settings of MySQL or MariaDB that the guarantees depend on. */
export async function mysqlChecks(store: SqlStore): Promise<readonly Check[]> {
  const ask = async (expression: string) => (await store.query(`SELECT ${expression} AS value`))[0]?.['value']
  return [
    await runCheck('server', async () => {
      const version = String(await ask('VERSION()'))
      if (Number(await ask('@@read_only')) === 1)
        return check('server', 'problem', `${version} is read-only: read_only is on. Connect to the primary.`)
      return check('server', 'ok', `${/maria/i.test(version) ? 'MariaDB' : 'MySQL'} ${version}.`)
    }),
    await runCheck('durability', async () => {
      const flush = Number(await ask('@@innodb_flush_log_at_trx_commit'))
      const binlog = Number(await ask('@@log_bin')) === 1 ? Number(await ask('@@sync_binlog')) : 1
      if (flush !== 1) {
        const text = `innodb_flush_log_at_trx_commit is ${flush}: a crash can lose commits whose messages are acked already. Set it to 1.`
        return check('durability', 'problem', text)
      }
      if (binlog !== 1)
        return check('durability', 'warning', `sync_binlog is ${binlog}: after a crash replicas may lack the last commits. Set it to 1.`)
      return check('durability', 'ok', 'A commit is on disk before it is confirmed.')
    }),
    await runCheck('clock', () => clockCheck(async () => Number(await ask('UNIX_TIMESTAMP(NOW(6)) * 1000')))),
  ]
}
