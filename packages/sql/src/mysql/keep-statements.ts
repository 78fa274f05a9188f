import type { Driver, RunStatement } from '../driver.ts'
import { type KeepStatements, readPartition } from '../keep-partitions.ts'
import { readNote } from '../note-text.ts'
import type { Tables } from '../tables.ts'
import { fromNow, readRow } from './outbox-rows.ts'
import { keyOf, keysSql } from './row-keys.ts'
import { groupBy } from './sql-part.ts'
import { storeTransaction } from './store-transaction.ts'

/** What a relay does to go on owning its partitions. A statement each, which holds no lock when it has answered; only what is lost is counted in a transaction. */
export function mysqlKeepStatements(
  driver: Driver<unknown>,
  run: RunStatement,
  { outbox, relays, partitions, hands }: Tables,
): KeepStatements {
  return {
    async extend({ member, lease, joins }) {
      const until = fromNow(lease)
      const sql = joins
        ? `INSERT INTO ${relays} (member, alive_until) VALUES (?, ${until}) ON DUPLICATE KEY UPDATE alive_until = VALUES(alive_until)`
        : `UPDATE ${relays} SET alive_until = ${until} WHERE member = ? AND alive_until > UTC_TIMESTAMP(6)`
      // One that was there counts as two.
      return (await run(sql, [member])).count > 0
    },

    async members() {
      const { rows } = await run(`SELECT member, alive_until > UTC_TIMESTAMP(6) AS alive FROM ${relays}`)
      return rows.map(readRow).map((row) => ({ member: String(row['member']), alive: Number(row['alive']) === 1 }))
    },

    async partitions() {
      const { rows } = await run(`SELECT p.\`partition\`, p.owner, CAST(p.epoch AS CHAR) AS epoch, r.member IS NULL AS free,
  EXISTS (SELECT 1 FROM ${hands} AS h WHERE h.member = p.owner) AS noted
FROM ${partitions} AS p LEFT JOIN ${relays} AS r ON r.member = p.owner ORDER BY p.\`partition\``)
      return rows.map(readRow).map(readPartition)
    },

    async bury() {
      await run(`DELETE FROM ${relays} WHERE alive_until <= UTC_TIMESTAMP(6)`)
    },

    async lostNotes() {
      const { rows } = await run(`SELECT h.member, CAST(h.note AS CHAR) AS note, CAST(h.held AS BINARY) AS held
FROM ${hands} AS h LEFT JOIN ${relays} AS r ON r.member = h.member WHERE r.member IS NULL`)
      return rows
        .map(readRow)
        .map((row) => ({ member: String(row['member']), note: String(row['note']), rows: readNote(String(row['held'])) }))
    },

    countLost: ({ member, note, rows }) =>
      storeTransaction(driver, async (inside) => {
        const place = `member = ? AND note = ${BigInt(note)}`
        // Somebody else has it, or had it.
        const mine = await inside(`SELECT note FROM ${hands} WHERE ${place} FOR UPDATE SKIP LOCKED`, [member])
        if (mine.rows.length === 0) return
        let left = false
        for (const group of groupBy(rows, ({ attempts }) => String(attempts))) {
          const { sql, parameters } = keysSql(group)
          // What changed since it was claimed has been settled, and what is locked may be settled just now.
          const asNoted = `FROM ${outbox} AS o FORCE INDEX (PRIMARY) WHERE ${sql} AND o.attempts = ${group[0].attempts}`
          const found = await inside(
            `SELECT CAST(o.seq AS CHAR) AS seq, o.state, o.destination ${asNoted} FOR UPDATE SKIP LOCKED`,
            parameters,
          )
          const all = await inside(`SELECT COUNT(*) AS n ${asNoted}`, parameters)
          left ||= Number(all.rows[0]?.['n']) > found.rows.length
          if (found.rows.length === 0) continue
          const locked = keysSql(found.rows.map(readRow).map(keyOf))
          await inside(`UPDATE ${outbox} AS o FORCE INDEX (PRIMARY) SET o.attempts = o.attempts + 1 WHERE ${locked.sql}`, locked.parameters)
        }
        // Whoever had it may be too late to settle it, and then it is to be counted the next time.
        if (!left) await inside(`DELETE FROM ${hands} WHERE ${place}`, [member])
      }),

    async giveAway(member, given) {
      await run(
        `UPDATE ${partitions} SET owner = NULL, epoch = epoch + 1 WHERE \`partition\` IN (${given.join(', ')}) AND owner = ? ORDER BY \`partition\``,
        [member],
      )
    },

    async take(member, wanted) {
      const same = wanted.map(({ partition, epoch }) => `(\`partition\` = ${partition} AND epoch = ${BigInt(epoch)})`)
      await run(`UPDATE ${partitions} SET owner = ?, epoch = epoch + 1 WHERE ${same.join(' OR ')} ORDER BY \`partition\``, [member])
    },
  }
}
