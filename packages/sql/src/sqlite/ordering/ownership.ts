import { rootContext } from '@ackord/core'
import type { RunStatement, Session } from '../../contract/driver.ts'
import type { OwnedClaim, OwnedClaimOptions, OwnershipStatements } from '../../contract/ownership-statements.ts'
import type { OwnershipPort } from '../../contract/store-dialect.ts'
import type { Tables } from '../../contract/tables.ts'
import { chooseOwned, type JournalRow, journalText, readJournal } from '../../ordering/owned-claim.ts'
import { type KeepStatements, keepPartitions, readPartition } from '../../ordering/partition-membership.ts'
import { settlesFailures } from '../../records/claimed-record.ts'
import { readContents } from '../claims.ts'
import { byOwner, settlement } from '../settle.ts'
import { now } from '../sql-text.ts'
import { statusSql } from './owned-claim.ts'
import { sqliteOwnedReads } from './owned-reads.ts'

/** One transaction per call, of small statements: in process there is no round trip to save. */
export function sqliteOwnership({ driver, tables, retain, keepsFailures }: OwnershipPort): OwnershipStatements {
  const { relays, partitions, hands, outbox } = tables
  const alone = <R>(work: (session: Session<unknown>) => Promise<R>) => driver.transaction([], work, rootContext().signal)
  const settling = settlement(outbox, retain, byOwner)
  const owning = `SELECT p.partition, CAST(p.epoch AS TEXT) AS epoch FROM ${partitions} AS p JOIN ${relays} AS r ON r.member = p.owner
WHERE p.owner = ? AND r.alive_until > ${now}`
  return {
    keep: (options) => alone(({ run }) => keepPartitions(sqliteKeepStatements(run, tables), options)),

    leave: (member, inFlight) =>
      alone(async ({ run }) => {
        // The relay that removed the member has counted the attempts.
        if ((await run(`DELETE FROM ${relays} WHERE member = ?`, [member])).count === 0) return
        await countAttempts(run, outbox, inFlight)
        await run(`DELETE FROM ${hands} WHERE member = ?`, [member])
        await run(`UPDATE ${partitions} SET owner = NULL, epoch = epoch + 1 WHERE owner = ?`, [member])
      }),

    claim: (options) => alone((session) => claim(session, tables, options)),

    contents: (keys) => alone((session) => readContents(session, outbox, keys)),

    async settle(member, outcomes) {
      const failures = await settlesFailures(outcomes, keepsFailures)
      return await alone(async ({ run, change }) => {
        const { rows } = await run(owning, [member])
        const epochs = new Map(rows.map((row) => [Number(row['partition']), row['epoch']]))
        const settled = new Set<string>()
        for (const { row, outcome } of outcomes) {
          if (epochs.get(row.partition) !== row.epoch) continue
          if ((await change(settling(outcome, [row.seq, row.state, row.destination], failures))) === 1) settled.add(row.seq)
        }
        return settled
      })
    },
  }
}

async function claim({ run }: Session<unknown>, tables: Tables, options: OwnedClaimOptions): Promise<OwnedClaim> {
  const { member, discover, entry } = options
  const { hands } = tables
  const [status] = (await run(statusSql(tables, options), [member])).rows
  if (status === undefined) return { status: undefined, anyKeys: undefined, rows: [], cut: false, progress: [] }
  const { rows, cut, progress, journal } = await chooseOwned(sqliteOwnedReads(run, tables, options), options)
  if (journal.length > 0)
    await run(`INSERT INTO ${hands} (member, note, held) VALUES (?, ?, ?)`, [member, entry.number, journalText(journal)])
  if (entry.done.length > 0) {
    await run(`DELETE FROM ${hands} WHERE member = ? AND note IN (SELECT value FROM json_each(?))`, [member, JSON.stringify(entry.done)])
  }
  const { remaining, live, gone, free = 0 } = status
  return {
    status: { remaining: Number(remaining), live: Number(live), gone: Number(gone), free: Number(free) },
    anyKeys: discover ? Number(status['any_keys']) === 1 : undefined,
    rows,
    cut,
    progress,
  }
}

/** The statements with which a relay keeps its partitions, in its transaction. */
function sqliteKeepStatements(run: RunStatement, { outbox, relays, partitions, hands }: Tables): KeepStatements {
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
  EXISTS (SELECT 1 FROM ${hands} AS h WHERE h.member = p.owner) AS has_entries
FROM ${partitions} AS p LEFT JOIN ${relays} AS r ON r.member = p.owner ORDER BY p.partition`)
      return rows.map(readPartition)
    },

    async removeExpired() {
      await run(`DELETE FROM ${relays} WHERE alive_until <= ${now}`)
    },

    async lostEntries() {
      const { rows } = await run(
        `SELECT member, CAST(note AS TEXT) AS note, held FROM ${hands} WHERE member NOT IN (SELECT member FROM ${relays})`,
      )
      return rows.map((row) => ({ member: String(row['member']), entry: String(row['note']), rows: readJournal(String(row['held'])) }))
    },

    async countLostAttempts({ member, entry, rows }) {
      await countAttempts(run, outbox, rows)
      await run(`DELETE FROM ${hands} WHERE member = ? AND note = CAST(? AS INTEGER)`, [member, entry])
    },

    async release(member, given) {
      await run(
        `UPDATE ${partitions} SET owner = NULL, epoch = epoch + 1 WHERE owner = ? AND partition IN (SELECT value FROM json_each(?))`,
        [member, JSON.stringify(given)],
      )
    },

    async acquire(member, wanted) {
      await run(
        `UPDATE ${partitions} SET owner = ?, epoch = epoch + 1
WHERE (partition, epoch) IN (SELECT value ->> 0, CAST(value ->> 1 AS INTEGER) FROM json_each(?))`,
        [member, JSON.stringify(wanted.map(({ partition, epoch }) => [partition, epoch]))],
      )
    },
  }
}

/** Counts one more attempt for rows that are unchanged since the claim: changed rows have been settled. */
async function countAttempts(run: RunStatement, outbox: string, rows: readonly JournalRow[]): Promise<void> {
  const sql = `UPDATE ${outbox} SET attempts = attempts + 1 WHERE seq = CAST(? AS INTEGER) AND state = ? AND destination = ? AND attempts = ?`
  for (const { seq, state, destination, attempts } of rows) await run(sql, [seq, state, destination, attempts])
}
