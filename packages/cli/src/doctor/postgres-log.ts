import type { SqlStore } from '../stores/store.ts'
import { type Check, check, runPrivilegeCheck } from './check.ts'
import { named, relation } from './postgres-privileges.ts'

/** The identity that relays write down, as far as this user may ask for it. */
const identitySql = (server: string) =>
  `SELECT concat(${server}, '/', (SELECT oid FROM pg_database WHERE datname = current_database())) AS identity`

/** Checks the log of the log mode: where it was written, its numbers, and how full it is. */
export async function postgresLog(store: SqlStore): Promise<Check> {
  return await runPrivilegeCheck('log', async () => {
    const cache = await sequenceCache(store)
    if (cache !== 1) {
      const text = `The sequence of ${store.table('outbox')} has CACHE ${cache}: sessions reserve numbers, and relays in log mode would miss records with numbers that were reserved earlier. As an administrator, run:`
      return check('log', 'problem', text, [`ALTER TABLE ${store.table('outbox')} ALTER COLUMN seq SET CACHE 1;`])
    }
    if (!(await isWrittenHere(store))) {
      const text =
        'The log was written on another server or in another database, as after a restore from a dump. The next relay that starts with --mode log moves its records to the outbox table; until then the numbers of records are not reliable.'
      return check('log', 'warning', text)
    }
    const { filled, all } = await partsOf(store)
    if (filled < all) return check('log', 'ok', `${filled} of ${all} parts of the log are in use.`)
    const text = `All ${all} parts of the log are in use, so that it grows. Is a relay running with --mode log for every destination? If so, look for a transaction that has been open for long.`
    return check('log', 'warning', text)
  })
}

async function sequenceCache(store: SqlStore): Promise<number> {
  const sql = `SELECT seqcache::int AS cache FROM pg_sequence WHERE seqrelid = pg_get_serial_sequence($1, 'seq')::regclass`
  const [row] = await store.query(sql, [store.table('outbox')])
  return Number(row?.['cache'])
}

/** Also before the first relay has started. A part of the identity that one of the two users may not ask for is not compared. */
async function isWrittenHere(store: SqlStore): Promise<boolean> {
  const [note] = await store.query(`SELECT value FROM ${store.table('notes')} WHERE kind = 'log' AND name = 'identity'`)
  if (note === undefined) return true
  const [right] = await store.query(`SELECT has_function_privilege('pg_control_system()', 'execute') AS granted`)
  const [own] = await store.query(identitySql(right?.['granted'] === true ? '(SELECT system_identifier FROM pg_control_system())' : `''`))
  const [server, database] = String(own?.['identity']).split('/')
  const [writtenOn, writtenIn] = String(note['value']).split('/')
  return database === writtenIn && (server === writtenOn || server === '' || writtenOn === '')
}

/** A part has a part of the log and a part of its cursors; both are emptied together. */
async function partsOf(store: SqlStore): Promise<{ readonly filled: number; readonly all: number }> {
  const sizes = async (table: string) => {
    const sql = `WITH ${named} SELECT pg_relation_size(i.inhrelid)::float8 AS size FROM ${relation} JOIN pg_inherits AS i ON i.inhparent = c.oid
JOIN pg_class AS part ON part.oid = i.inhrelid ORDER BY part.relname`
    return (await store.query(sql, [store.table(table)])).map((row) => Number(row['size']))
  }
  const [log, cursors] = [await sizes('log'), await sizes('cursors')]
  return { filled: log.filter((size, part) => size > 0 || (cursors[part] ?? 0) > 0).length, all: log.length }
}
