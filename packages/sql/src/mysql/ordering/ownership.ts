import { groupBy } from '@ackord/core/internal'
import type { Driver, RunStatement } from '../../contract/driver.ts'
import type { InFlightRow, OwnedClaim, OwnedClaimOptions, OwnershipStatements } from '../../contract/ownership-statements.ts'
import type { OwnershipPort } from '../../contract/store-dialect.ts'
import type { Tables } from '../../contract/tables.ts'
import { chooseOwned, journalText, readJournal } from '../../ordering/owned-claim.ts'
import { type KeepStatements, keepPartitions, readPartition } from '../../ordering/partition-membership.ts'
import { ClaimWidth } from '../../records/claim-bytes.ts'
import { settlesFailures } from '../../records/claimed-record.ts'
import { DestinationFinder } from '../destinations.ts'
import { applyOutcomes } from '../settle.ts'
import { fromNow, keyOf, keysSql, readRow, type SqlPart } from '../sql-text.ts'
import { retryConflicts, storeTransaction } from '../transaction-control.ts'
import { KeyWalker, runUnion } from './key-walker.ts'
import { anyKeySql, contentsSql, type PendingState, statusSql } from './owned-claim.ts'
import { mysqlOwnedReads } from './owned-reads.ts'

/**
 * A claim changes no row of the outbox and takes six round trips: the status of the members, the rows, the ends of their windows, their contents, and
 * the journal entry; with keys three more, and more for many long keys. Settling takes six.
 *
 * No lock of an owner is held across a round trip: a process that stalls between two statements would block all the others.
 */
export function mysqlOwnership({ driver, tables, retain, keepsFailures }: OwnershipPort): OwnershipStatements {
  const { outbox, relays, partitions, hands } = tables
  const run: RunStatement = (sql, parameters = []) => retryConflicts(() => driver.run(driver.pool, sql, parameters))
  const send = ({ sql, parameters }: SqlPart) => run(sql, parameters)
  const keeping = mysqlKeepStatements(driver, run, tables)
  const finder = new DestinationFinder(outbox)
  const walker = new KeyWalker()
  const width = new ClaimWidth()

  /** Resolves to `false` if the member's lease has expired. */
  async function writeEntry({ member, entry: { number, done } }: OwnedClaimOptions, text: string | undefined): Promise<boolean> {
    if (text !== undefined) {
      const inserting = `INSERT INTO ${hands} (member, note, held) SELECT r.member, ${number}, ? FROM ${relays} AS r
WHERE r.member = ? AND r.alive_until > UTC_TIMESTAMP(6)`
      if ((await run(inserting, [text, member])).count === 0) return false
    }
    // Deleted after the new entry is written, which may carry over their remaining rows.
    if (done.length > 0) await run(`DELETE FROM ${hands} WHERE member = ? AND note IN (${done.join(', ')})`, [member])
    return true
  }

  return {
    keep: (options) => keepPartitions(keeping, options),

    async leave(member, inFlight) {
      // The records in flight become the member's only journal entry, and the entry of a member that is gone: no other relay claims them before the
      // attempt is counted, whatever happens in between.
      await storeTransaction(driver, async (inside) => {
        await inside(`DELETE FROM ${hands} WHERE member = ?`, [member])
        if (inFlight.length > 0)
          await inside(`INSERT INTO ${hands} (member, note, held) VALUES (?, ${lastEntry}, ?)`, [member, journalText(inFlight)])
      })
      await run(`DELETE FROM ${relays} WHERE member = ?`, [member])
      if (inFlight.length > 0) await keeping.countLostAttempts({ member, entry: lastEntry, rows: inFlight })
      await run(`UPDATE ${partitions} SET owner = NULL, epoch = epoch + 1 WHERE owner = ?`, [member])
    },

    async claim(asked) {
      const options = { ...asked, limit: width.of(asked.limit) }
      const [status] = (await send(statusSql(tables, options))).rows
      if (status === undefined) return timeOver
      const pairs = options.discover ? await finder.find(run) : []
      const anyKeys = pairs.map(({ state, destination }) => anyKeySql(outbox, state as PendingState, destination))
      const keyFound = (await runUnion(run, anyKeys)).length > 0
      const destinations = pairs.map(({ destination }) => destination)
      const reads = mysqlOwnedReads(run, options, { table: outbox, walker, destinations })
      const { rows, cut, progress, journal } = await chooseOwned(reads, options)
      width.record(cut ? Infinity : rows.length, rows.length)
      if (!(await writeEntry(options, journal.length === 0 ? undefined : journalText(journal)))) return timeOver
      const { remaining, live, gone, free = 0 } = status
      return {
        status: { remaining: Number(remaining), live: Number(live), gone: Number(gone), free: Number(free) },
        anyKeys: options.discover ? keyFound : undefined,
        rows,
        cut,
        progress,
      }
    },

    contents: async (keys) => (await send(contentsSql(outbox, keys))).rows.map(readRow),

    async settle(member, outcomes) {
      const held = outcomes.map((one) => one.row)
      // Checked first: a member that has lost the partitions must not even lock the rows, because counting lost attempts skips rows that are being
      // settled.
      const owned = new Set((await send(fenceSql(tables, member, held))).rows.map((row) => Number(row['partition'])))
      const ours = outcomes.filter((one) => owned.has(one.row.partition))
      if (ours.length === 0) return new Set()
      const failures = await settlesFailures(ours, keepsFailures)
      return await storeTransaction(driver, async (inside) => {
        const { sql, parameters } = ownedRowsSql(
          tables,
          member,
          ours.map((one) => one.row),
        )
        const seqs = new Set((await inside(sql, parameters)).rows.map((row) => String(row['seq'])))
        const applied = ours.filter((one) => seqs.has(one.row.seq)).map((one) => ({ ...one.row, outcome: one.outcome }))
        await applyOutcomes(inside, outbox, applied, { retain, counts: true, failures })
        return seqs
      })
    },
  }
}

/** The number of the journal entry of a member that leaves: claims use numbers from 1 on. */
const lastEntry = '0'

const timeOver: OwnedClaim = { status: undefined, anyKeys: undefined, rows: [], cut: false, progress: [] }

/** The partitions of these rows that the live member still owns, with that epoch. Takes no locks. */
export function fenceSql({ partitions, relays }: Tables, member: string, held: readonly InFlightRow[]): SqlPart {
  const epochs = groupBy(held, ({ partition }) => partition).map(
    ([partition, [{ epoch }]]) => `(p.\`partition\` = ${partition} AND p.epoch = ${BigInt(epoch)})`,
  )
  return {
    sql: `SELECT p.\`partition\` FROM ${partitions} AS p JOIN ${relays} AS r ON r.member = p.owner
WHERE p.owner = ? AND r.alive_until > UTC_TIMESTAMP(6) AND (${epochs.join(' OR ')})`,
    parameters: [member],
  }
}

/** The seqs of the rows that are unchanged, if the fence still holds. Locks these rows only. */
export function ownedRowsSql(tables: Tables, member: string, held: readonly InFlightRow[]): SqlPart {
  const keys = keysSql(held)
  const fence = fenceSql(tables, member, held)
  return {
    sql: `SELECT CAST(o.seq AS CHAR) AS seq FROM ${tables.outbox} AS o FORCE INDEX (PRIMARY)
WHERE ${keys.sql} AND o.\`partition\` IN (${fence.sql}) FOR UPDATE`,
    parameters: [...keys.parameters, ...fence.parameters],
  }
}

/**
 * The statements with which a relay keeps its partitions. Each is a single statement and holds no lock after its answer; only lost attempts are
 * counted in a transaction.
 */
function mysqlKeepStatements(driver: Driver<unknown>, run: RunStatement, { outbox, relays, partitions, hands }: Tables): KeepStatements {
  return {
    async extend({ member, lease, joins }) {
      const until = fromNow(lease)
      const sql = joins
        ? `INSERT INTO ${relays} (member, alive_until) VALUES (?, ${until}) ON DUPLICATE KEY UPDATE alive_until = VALUES(alive_until)`
        : `UPDATE ${relays} SET alive_until = ${until} WHERE member = ? AND alive_until > UTC_TIMESTAMP(6)`
      // An existing row counts as two.
      return (await run(sql, [member])).count > 0
    },

    async members() {
      const { rows } = await run(`SELECT member, alive_until > UTC_TIMESTAMP(6) AS alive FROM ${relays}`)
      return rows.map(readRow).map((row) => ({ member: String(row['member']), alive: Number(row['alive']) === 1 }))
    },

    async partitions() {
      const { rows } = await run(`SELECT p.\`partition\`, p.owner, CAST(p.epoch AS CHAR) AS epoch, r.member IS NULL AS free,
  EXISTS (SELECT 1 FROM ${hands} AS h WHERE h.member = p.owner) AS has_entries
FROM ${partitions} AS p LEFT JOIN ${relays} AS r ON r.member = p.owner ORDER BY p.\`partition\``)
      return rows.map(readRow).map(readPartition)
    },

    async removeExpired() {
      await run(`DELETE FROM ${relays} WHERE alive_until <= UTC_TIMESTAMP(6)`)
    },

    async lostEntries() {
      const { rows } = await run(`SELECT h.member, CAST(h.note AS CHAR) AS note, CAST(h.held AS BINARY) AS held
FROM ${hands} AS h LEFT JOIN ${relays} AS r ON r.member = h.member WHERE r.member IS NULL`)
      return rows
        .map(readRow)
        .map((row) => ({ member: String(row['member']), entry: String(row['note']), rows: readJournal(String(row['held'])) }))
    },

    countLostAttempts: ({ member, entry, rows }) =>
      storeTransaction(driver, async (inside) => {
        const own = `member = ? AND note = ${BigInt(entry)}`
        // Another relay has the entry, or had it.
        const mine = await inside(`SELECT note FROM ${hands} WHERE ${own} FOR UPDATE SKIP LOCKED`, [member])
        if (mine.rows.length === 0) return
        let left = false
        for (const [attempts, group] of groupBy(rows, (row) => row.attempts)) {
          const { sql, parameters } = keysSql(group)
          // A row that changed since it was claimed has been settled, and a locked row may be being settled right now.
          const asNoted = `FROM ${outbox} AS o FORCE INDEX (PRIMARY) WHERE ${sql} AND o.attempts = ${attempts}`
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
        // Its previous owner may be too late to settle it; the attempt is then counted the next time.
        if (!left) await inside(`DELETE FROM ${hands} WHERE ${own}`, [member])
      }),

    async release(member, given) {
      await run(
        `UPDATE ${partitions} SET owner = NULL, epoch = epoch + 1 WHERE \`partition\` IN (${given.join(', ')}) AND owner = ? ORDER BY \`partition\``,
        [member],
      )
    },

    async acquire(member, wanted) {
      const same = wanted.map(({ partition, epoch }) => `(\`partition\` = ${partition} AND epoch = ${BigInt(epoch)})`)
      await run(`UPDATE ${partitions} SET owner = ?, epoch = epoch + 1 WHERE ${same.join(' OR ')} ORDER BY \`partition\``, [member])
    },
  }
}
