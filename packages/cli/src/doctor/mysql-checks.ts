import type { SqlStore } from '../stores/store.ts'
import { type Check, check, clockCheck, isDenied, runCheck, runPrivilegeCheck } from './check.ts'

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

/** For existing tables. The server checks privileges before it explains a statement, and executes nothing. */
export async function mysqlPrivileges(store: SqlStore): Promise<Check> {
  const [inbox, outbox, meta] = [store.table('inbox'), store.table('outbox'), store.table('meta')]
  const statements = [
    ['SELECT', meta, `SELECT * FROM ${meta} WHERE 1 = 0`],
    ['SELECT', outbox, `SELECT * FROM ${outbox} WHERE 1 = 0`],
    ['INSERT', outbox, `INSERT INTO ${outbox} SELECT * FROM ${outbox} WHERE 1 = 0`],
    ['UPDATE', outbox, `UPDATE ${outbox} SET attempts = attempts WHERE 1 = 0`],
    ['DELETE', outbox, `DELETE FROM ${outbox} WHERE 1 = 0`],
    ['SELECT', inbox, `SELECT * FROM ${inbox} WHERE 1 = 0`],
    ['INSERT', inbox, `INSERT INTO ${inbox} SELECT * FROM ${inbox} WHERE 1 = 0`],
    ['DELETE', inbox, `DELETE FROM ${inbox} WHERE 1 = 0`],
  ] as const
  return await runPrivilegeCheck('privileges', async () => {
    const missing: string[] = []
    for (const [privilege, table, statement] of statements) {
      try {
        await store.query(`EXPLAIN ${statement}`)
      } catch (error) {
        if (!isDenied(error)) throw error
        missing.push(`GRANT ${privilege} ON ${table}`)
      }
    }
    if (missing.length === 0) return check('privileges', 'ok', 'The user has all privileges that a service and a relay need.')
    return check('privileges', 'problem', `Privileges are missing. Run: ${missing.map((grant) => `${grant} TO …`).join('; ')}`)
  })
}
