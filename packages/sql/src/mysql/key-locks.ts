import { createHash } from 'node:crypto'
import type { Statement } from '../driver.ts'
import type { OutboxRow } from '../outbox-row.ts'

/** In characters. */
const longestName = 64

/** The table of locks that belongs to an outbox, which is beside it. Both names are quoted. */
export function keyLocksOf(outbox: string): string {
  const [, schema = '', name = ''] = /^(`(?:[^`]|``)*`\.)?`((?:[^`]|``)*)`$/s.exec(outbox) ?? []
  const own = `${name}_locks`
  if (own.replaceAll('``', '`').length <= longestName) return `${schema}\`${own}\``
  return `${schema}\`ackord_locks_${createHash('sha256').update(name).digest('hex').slice(0, 32)}\``
}

/**
 * Makes writers of a key wait for each other until they commit: it comes before the number of a row is taken, so that numbers are in the order of the commits. A
 * row per partition is locked, as there is nothing smaller that is there for every key; in their order, so that no two transactions wait for each other in a
 * circle because of one call. An update that changes nothing: it looks at what is there now, whatever the transaction has seen, and gives no rows.
 */
export function lockKeys(outbox: string, rows: readonly OutboxRow[]): readonly Statement[] {
  const partitions = new Set(rows.filter(({ ordered }) => ordered).map(({ partition }) => partition))
  if (partitions.size === 0) return []
  const listed = [...partitions].sort((one, other) => one - other).join(', ')
  return [{ sql: `UPDATE ${keyLocksOf(outbox)} SET held = held WHERE \`partition\` IN (${listed}) ORDER BY \`partition\`` }]
}
