import type { SqlStore } from '../stores/store.ts'
import { type Check, isDenied, privilegeCheck, runCheck } from './check.ts'

/** The privileges that services and relays need at run time, and a column that an `UPDATE` can name. */
const needed = [
  ['meta', ['SELECT', 'INSERT', 'UPDATE'], 'version'],
  ['inbox', ['SELECT', 'INSERT', 'DELETE'], 'received_at'],
  ['outbox', ['SELECT', 'INSERT', 'UPDATE', 'DELETE'], 'attempts'],
  ['notes', ['SELECT', 'INSERT', 'UPDATE', 'DELETE'], 'value'],
  ['idempotency', ['SELECT', 'INSERT', 'UPDATE', 'DELETE'], 'status'],
  ['process', ['SELECT', 'INSERT', 'UPDATE', 'DELETE'], 'state'],
] as const

/** In addition, with order per key. */
const neededForOrder = [
  ['relays', ['SELECT', 'INSERT', 'UPDATE', 'DELETE'], 'alive_until'],
  ['partitions', ['SELECT', 'UPDATE'], 'epoch'],
  ['hands', ['SELECT', 'INSERT', 'DELETE'], 'held'],
  ['outbox_locks', ['SELECT', 'UPDATE'], 'held'],
] as const

/** Statements that change nothing, even if they were executed. */
function statementOf(privilege: string, table: string, column: string): string {
  if (privilege === 'SELECT') return `SELECT * FROM ${table} WHERE 1 = 0`
  if (privilege === 'INSERT') return `INSERT INTO ${table} SELECT * FROM ${table} WHERE 1 = 0`
  if (privilege === 'UPDATE') return `UPDATE ${table} SET ${column} = ${column} WHERE 1 = 0`
  return `DELETE FROM ${table} WHERE 1 = 0`
}

/** For existing tables. The server checks privileges before it explains a statement, and executes nothing. */
export async function mysqlPrivileges(store: SqlStore, order: 'none' | 'perKey'): Promise<Check> {
  return await runCheck('privileges', async () => {
    const [row] = await store.query('SELECT CURRENT_USER() AS user, DATABASE() AS name')
    const user = accountOf(String(row?.['user']))
    const grants: string[] = []
    for (const [name, privileges, column] of order === 'perKey' ? [...needed, ...neededForOrder] : needed) {
      const table = store.table(name)
      const missing: string[] = []
      for (const privilege of privileges) {
        try {
          await store.query(`EXPLAIN ${statementOf(privilege, table, column)}`)
        } catch (error) {
          if (!isDenied(error)) throw error
          missing.push(privilege)
        }
      }
      // The administrator may be connected to another database.
      const qualified = table.includes('`.`') ? table : `\`${String(row?.['name']).replaceAll('`', '``')}\`.${table}`
      if (missing.length > 0) grants.push(`GRANT ${missing.join(', ')} ON ${qualified} TO ${user};`)
    }
    return privilegeCheck(user, grants)
  })
}

/** `app@%` as a statement needs it. The host has no `@`, the name may. */
function accountOf(user: string): string {
  const at = user.lastIndexOf('@')
  return [user.slice(0, at), user.slice(at + 1)].map((part) => `'${part.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`).join('@')
}
