import { InvalidOptionError } from '@ackord/core'
import type { StatementResult } from '../driver.ts'

/** Asks a connection, where its answers do not tell. */
export async function checkAutocommit(send: (sql: string) => Promise<StatementResult>, adapter: string): Promise<void> {
  const { rows } = await send('SELECT @@SESSION.autocommit AS autocommit')
  if (Number(rows[0]?.['autocommit']) !== 1) throw withoutAutocommit(adapter)
}

/** Our statements outside of transactions would stay uncommitted, and keep their locks. */
export function withoutAutocommit(adapter: string): InvalidOptionError {
  return new InvalidOptionError(
    adapter,
    'was given a pool whose connections have autocommit off. Leave it on: transactions are begun by name.',
  )
}
