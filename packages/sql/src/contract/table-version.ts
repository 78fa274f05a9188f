import type { Runtime } from '@ackord/core'
import type { Tables } from './database-options.ts'
import type { RunStatement } from './driver.ts'

export interface TableVersion {
  readonly version: number
  /** The oldest version of this code that works with the tables. */
  readonly oldestReader: number
}

/** `undefined` if there is no version. */
export async function readVersion(run: RunStatement, { meta }: Tables): Promise<TableVersion | undefined> {
  const { rows } = await run(`SELECT version, oldest_reader FROM ${meta} WHERE name = 'schema'`)
  const [row] = rows
  return row === undefined ? undefined : { version: Number(row['version']), oldestReader: Number(row['oldest_reader']) }
}

/** The version that added the cause and the history of failures, and the notes. */
const versionWithFailures = 4
/** Milliseconds before the version of older tables is read again. */
const readAgainAfter = 60_000

/**
 * Whether the tables have the columns and the table that version 4 added. They may lack them: in a rolling deployment, relays of this version also work on tables of
 * version 3. The answer is remembered, and read again only while the tables are older.
 */
export function failuresCheck(read: () => Promise<TableVersion | undefined>, runtime: Runtime): () => Promise<boolean> {
  let known = false
  let readAgainAt = -Infinity
  let reading: Promise<boolean> | undefined

  async function readAgain(): Promise<boolean> {
    try {
      const found = await read()
      known = found !== undefined && found.version >= versionWithFailures
      readAgainAt = runtime.monotonic() + readAgainAfter
      return known
    } finally {
      reading = undefined
    }
  }

  return async function keepsFailures() {
    if (known || runtime.monotonic() < readAgainAt) return known
    reading ??= readAgain()
    return await reading
  }
}
