import { rootContext } from '@ackord/core'
import type { Session } from '../driver.ts'
import { keepPartitions } from '../keep-partitions.ts'
import { noteText } from '../note-text.ts'
import { chooseOwned } from '../owned-claim.ts'
import type { OwnedClaim, OwnedClaimOptions, OwnershipPort, OwnershipStatements } from '../ownership-statements.ts'
import type { Tables } from '../tables.ts'
import { now } from './clock.ts'
import { countAttempts, sqliteKeepStatements } from './keep-statements.ts'
import { statusSql } from './owned-claim-statements.ts'
import { byOwner, settlement } from './settle-statements.ts'
import { sqliteOwnedReads } from './sqlite-owned-reads.ts'

/** One transaction each, of small statements: in process there is no round trip to be saved. */
export function sqliteOwnership({ driver, tables, retain }: OwnershipPort): OwnershipStatements {
  const { relays, partitions, hands, outbox } = tables
  const alone = <R>(work: (session: Session<unknown>) => Promise<R>) => driver.transaction([], work, rootContext().signal)
  const settling = settlement(outbox, retain, byOwner)
  const owning = `SELECT p.partition, CAST(p.epoch AS TEXT) AS epoch FROM ${partitions} AS p JOIN ${relays} AS r ON r.member = p.owner
WHERE p.owner = ? AND r.alive_until > ${now}`
  return {
    keep: (options) => alone(({ run }) => keepPartitions(sqliteKeepStatements(run, tables), options)),

    leave: (member, inHand) =>
      alone(async ({ run }) => {
        // Whoever has buried it has counted.
        if ((await run(`DELETE FROM ${relays} WHERE member = ?`, [member])).count === 0) return
        await countAttempts(run, outbox, inHand)
        await run(`DELETE FROM ${hands} WHERE member = ?`, [member])
        await run(`UPDATE ${partitions} SET owner = NULL, epoch = epoch + 1 WHERE owner = ?`, [member])
      }),

    claim: (options) => alone((session) => claim(session, tables, options)),

    settle: (member, outcomes) =>
      alone(async ({ run, change }) => {
        const { rows } = await run(owning, [member])
        const epochs = new Map(rows.map((row) => [Number(row['partition']), row['epoch']]))
        const settled = new Set<string>()
        for (const { held, outcome } of outcomes) {
          if (epochs.get(held.partition) !== held.epoch) continue
          if ((await change(settling(outcome, [held.seq, held.state, held.destination]))) === 1) settled.add(held.seq)
        }
        return settled
      }),
  }
}

async function claim({ run }: Session<unknown>, tables: Tables, options: OwnedClaimOptions): Promise<OwnedClaim> {
  const { member, discover, note } = options
  const { hands } = tables
  const [status] = (await run(statusSql(tables, options), [member])).rows
  if (status === undefined) return { status: undefined, anyKeys: undefined, rows: [], progress: [] }
  const { rows, progress, noted } = await chooseOwned(sqliteOwnedReads(run, tables, options), options)
  if (noted.length > 0) await run(`INSERT INTO ${hands} (member, note, held) VALUES (?, ?, ?)`, [member, note.number, noteText(noted)])
  if (note.done.length > 0) {
    await run(`DELETE FROM ${hands} WHERE member = ? AND note IN (SELECT value FROM json_each(?))`, [member, JSON.stringify(note.done)])
  }
  const { remaining, live, gone, free = 0 } = status
  return {
    status: { remaining: Number(remaining), live: Number(live), gone: Number(gone), free: Number(free) },
    anyKeys: discover ? Number(status['any_keys']) === 1 : undefined,
    rows,
    progress,
  }
}
