import type { RunStatement } from '../driver.ts'
import { type KeepStatements, readPartition } from '../keep-partitions.ts'
import { readNote } from '../note-text.ts'
import type { NotedRow } from '../owned-claim.ts'
import type { Tables } from '../tables.ts'
import { now } from './clock.ts'

/** What a relay does to go on owning its partitions, in its transaction. */
export function sqliteKeepStatements(run: RunStatement, { outbox, relays, partitions, hands }: Tables): KeepStatements {
  return {
    async extend({ member, lease, joins }) {
      const sql = joins
        ? `INSERT INTO ${relays} (alive_until, member) VALUES (${now} + ?, ?) ON CONFLICT (member) DO UPDATE SET alive_until = excluded.alive_until`
        : `UPDATE ${relays} SET alive_until = ${now} + ? WHERE member = ? AND alive_until > ${now}`
      return (await run(sql, [Math.ceil(lease), member])).count === 1
    },

    async members() {
      const { rows } = await run(`SELECT member, alive_until > ${now} AS alive FROM ${relays}`)
      return rows.map((row) => ({ member: String(row['member']), alive: Number(row['alive']) === 1 }))
    },

    async partitions() {
      const { rows } = await run(`SELECT p.partition, p.owner, CAST(p.epoch AS TEXT) AS epoch, r.member IS NULL AS free,
  EXISTS (SELECT 1 FROM ${hands} AS h WHERE h.member = p.owner) AS noted
FROM ${partitions} AS p LEFT JOIN ${relays} AS r ON r.member = p.owner ORDER BY p.partition`)
      return rows.map(readPartition)
    },

    async bury() {
      await run(`DELETE FROM ${relays} WHERE alive_until <= ${now}`)
    },

    async lostNotes() {
      const { rows } = await run(
        `SELECT member, CAST(note AS TEXT) AS note, held FROM ${hands} WHERE member NOT IN (SELECT member FROM ${relays})`,
      )
      return rows.map((row) => ({ member: String(row['member']), note: String(row['note']), rows: readNote(String(row['held'])) }))
    },

    async countLost({ member, note, rows }) {
      await countAttempts(run, outbox, rows)
      await run(`DELETE FROM ${hands} WHERE member = ? AND note = CAST(? AS INTEGER)`, [member, note])
    },

    async giveAway(member, given) {
      await run(
        `UPDATE ${partitions} SET owner = NULL, epoch = epoch + 1 WHERE owner = ? AND partition IN (SELECT value FROM json_each(?))`,
        [member, JSON.stringify(given)],
      )
    },

    async take(member, wanted) {
      await run(
        `UPDATE ${partitions} SET owner = ?, epoch = epoch + 1
WHERE (partition, epoch) IN (SELECT value ->> 0, CAST(value ->> 1 AS INTEGER) FROM json_each(?))`,
        [member, JSON.stringify(wanted.map(({ partition, epoch }) => [partition, epoch]))],
      )
    },
  }
}

/** One attempt more for what is as it was noted: what changed since then has been settled. */
export async function countAttempts(run: RunStatement, outbox: string, rows: readonly NotedRow[]): Promise<void> {
  const sql = `UPDATE ${outbox} SET attempts = attempts + 1 WHERE seq = CAST(? AS INTEGER) AND state = ? AND destination = ? AND attempts = ?`
  for (const { seq, state, destination, attempts } of rows) await run(sql, [seq, state, destination, attempts])
}
