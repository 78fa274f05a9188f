import type { RunStatement } from '../driver.ts'
import { keepPartitions } from '../keep-partitions.ts'
import { noteText } from '../note-text.ts'
import { chooseOwned } from '../owned-claim.ts'
import type { OwnedClaim, OwnedClaimOptions, OwnershipPort, OwnershipStatements } from '../ownership-statements.ts'
import { applyOutcomes } from './apply-outcomes.ts'
import { mysqlKeepStatements } from './keep-statements.ts'
import { runUnion } from './key-rows.ts'
import { KeyWalker } from './key-walker.ts'
import { mysqlOwnedReads } from './mysql-owned-reads.ts'
import { anyKeySql, type PendingState, statusSql } from './owned-claim-statements.ts'
import { fenceSql, ownedRowsSql } from './owned-settle-statements.ts'
import { PlaceFinder } from './place-finder.ts'
import type { SqlPart } from './sql-part.ts'
import { retryConflicts, storeTransaction } from './store-transaction.ts'

/**
 * A claim changes no row of the outbox and takes six round trips: how it is with the members, the rows, how far they go, what is in them, and the note of them;
 * with keys three more, and more for many long ones. Settling takes six.
 *
 * No lock of an owner is held over a round trip: a process that stands still between two statements would keep all the others from what it has.
 */
export function mysqlOwnership({ driver, tables, retain }: OwnershipPort): OwnershipStatements {
  const { outbox, relays, partitions, hands } = tables
  const run: RunStatement = (sql, parameters = []) => retryConflicts(() => driver.run(driver.pool, sql, parameters))
  const send = ({ sql, parameters }: SqlPart) => run(sql, parameters)
  const keeping = mysqlKeepStatements(driver, run, tables)
  const finder = new PlaceFinder(outbox)
  const walker = new KeyWalker()

  /** `undefined` if the member's time is over. */
  async function note({ member, note: { number, done } }: OwnedClaimOptions, text: string | undefined): Promise<boolean> {
    if (text !== undefined) {
      const noting = `INSERT INTO ${hands} (member, note, held) SELECT r.member, ${number}, ? FROM ${relays} AS r
WHERE r.member = ? AND r.alive_until > UTC_TIMESTAMP(6)`
      if ((await run(noting, [text, member])).count === 0) return false
    }
    // After the new one, which may have what is left of them.
    if (done.length > 0) await run(`DELETE FROM ${hands} WHERE member = ? AND note IN (${done.join(', ')})`, [member])
    return true
  }

  return {
    keep: (options) => keepPartitions(keeping, options),

    async leave(member, inHand) {
      // What it has in hand becomes its only note, and that of one who is gone: nobody gets it before it is counted, whatever happens in between.
      await storeTransaction(driver, async (inside) => {
        await inside(`DELETE FROM ${hands} WHERE member = ?`, [member])
        if (inHand.length > 0)
          await inside(`INSERT INTO ${hands} (member, note, held) VALUES (?, ${lastNote}, ?)`, [member, noteText(inHand)])
      })
      await run(`DELETE FROM ${relays} WHERE member = ?`, [member])
      if (inHand.length > 0) await keeping.countLost({ member, note: lastNote, rows: inHand })
      await run(`UPDATE ${partitions} SET owner = NULL, epoch = epoch + 1 WHERE owner = ?`, [member])
    },

    async claim(options) {
      const [status] = (await send(statusSql(tables, options))).rows
      if (status === undefined) return timeOver
      const places = options.discover ? await finder.find(run) : []
      const anyKeys = places.map(({ state, destination }) => anyKeySql(outbox, state as PendingState, destination))
      const keyFound = (await runUnion(run, anyKeys)).length > 0
      const destinations = places.map(({ destination }) => destination)
      const { rows, progress, noted } = await chooseOwned(mysqlOwnedReads(run, options, { table: outbox, walker, destinations }), options)
      if (!(await note(options, noted.length === 0 ? undefined : noteText(noted)))) return timeOver
      const { remaining, live, gone, free = 0 } = status
      return {
        status: { remaining: Number(remaining), live: Number(live), gone: Number(gone), free: Number(free) },
        anyKeys: options.discover ? keyFound : undefined,
        rows,
        progress,
      }
    },

    async settle(member, outcomes) {
      const held = outcomes.map((one) => one.held)
      // Looked at first: one who has lost them must not even lock them, as whoever counts what was lost passes by what is being settled.
      const owned = new Set((await send(fenceSql(tables, member, held))).rows.map((row) => Number(row['partition'])))
      const ours = outcomes.filter((one) => owned.has(one.held.partition))
      if (ours.length === 0) return new Set()
      return await storeTransaction(driver, async (inside) => {
        const { sql, parameters } = ownedRowsSql(
          tables,
          member,
          ours.map((one) => one.held),
        )
        const seqs = new Set((await inside(sql, parameters)).rows.map((row) => String(row['seq'])))
        const applied = ours.filter((one) => seqs.has(one.held.seq)).map((one) => ({ ...one.held, outcome: one.outcome }))
        await applyOutcomes(inside, outbox, applied, { retain, counts: true })
        return seqs
      })
    },
  }
}

/** The number of the note with which a member leaves: claims have those from 1 on. */
const lastNote = '0'

const timeOver: OwnedClaim = { status: undefined, anyKeys: undefined, rows: [], progress: [] }
