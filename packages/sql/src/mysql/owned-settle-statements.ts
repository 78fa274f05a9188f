import type { InHand } from '../ownership-statements.ts'
import type { Tables } from '../tables.ts'
import { keysSql } from './row-keys.ts'
import { groupBy, type SqlPart } from './sql-part.ts'

/** Which of the partitions of these rows are the member's, with that epoch, while it lives. Locks nothing. */
export function fenceSql({ partitions, relays }: Tables, member: string, held: readonly InHand[]): SqlPart {
  const epochs = groupBy(held, ({ partition }) => String(partition)).map(
    ([{ partition, epoch }]) => `(p.\`partition\` = ${partition} AND p.epoch = ${BigInt(epoch)})`,
  )
  return {
    sql: `SELECT p.\`partition\` FROM ${partitions} AS p JOIN ${relays} AS r ON r.member = p.owner
WHERE p.owner = ? AND r.alive_until > UTC_TIMESTAMP(6) AND (${epochs.join(' OR ')})`,
    parameters: [member],
  }
}

/** The seqs of those rows that are where they were, if the fence holds still. Locks them, and nothing else. */
export function ownedRowsSql(tables: Tables, member: string, held: readonly InHand[]): SqlPart {
  const keys = keysSql(held)
  const fence = fenceSql(tables, member, held)
  return {
    sql: `SELECT CAST(o.seq AS CHAR) AS seq FROM ${tables.outbox} AS o FORCE INDEX (PRIMARY)
WHERE ${keys.sql} AND o.\`partition\` IN (${fence.sql}) FOR UPDATE`,
    parameters: [...keys.parameters, ...fence.parameters],
  }
}
