import { InvalidOptionError } from '@ackord/core'
import { checkCount, checkDuration } from '@ackord/core/internal'
import type { Note, NoteQuery, OutboxNotes } from '@ackord/outbox'
import type { NoteStatements } from '../contract/store-dialect.ts'
import { SchemaError } from '../errors.ts'
import { storable } from '../records/claimed-record.ts'
import type { Row } from '../records/row.ts'
import { problemOf } from '../records/text-limits.ts'

export interface OutboxNotesOptions {
  /** The table of the notes, quoted. */
  readonly table: string
  /** Whether that table exists: not before version 4. */
  readonly exists: () => Promise<boolean>
}

/** The notes of the store. On tables of an older version every call rejects with a `SchemaError`. */
export function outboxNotes(statements: NoteStatements, { table, exists }: OutboxNotesOptions): OutboxNotes {
  async function checkExists(): Promise<void> {
    if (await exists()) return
    throw new SchemaError(
      'older',
      `There is no table ${table} for pauses, reports of relays and the audit: the tables have an older version. Run createSchema(database), or \`ackord migrate\`.`,
    )
  }

  async function readEach(queries: readonly NoteQuery[]): Promise<readonly (readonly Note[])[]> {
    for (const { limit, maxAge } of queries) {
      checkCount('limit', limit)
      if (maxAge !== undefined) checkDuration('maxAge', maxAge)
    }
    await checkExists()
    const rows = await statements.read(queries)
    // A database need not keep the order of the parts of a union.
    const notesOf = (kind: string) => rows.filter((row) => String(row['kind']) === kind).map(noteOf)
    return queries.map(({ kind }) => notesOf(kind).sort((one, other) => other.at - one.at))
  }

  return {
    async put(kind, notes, keep) {
      checkDuration('keep', keep)
      const values = new Map(notes.map(({ name, value }) => [checkNoteName(name), storable(value)]))
      await checkExists()
      // Sorted, so that no two callers deadlock.
      const sorted = [...values].map(([name, value]) => ({ name, value })).sort((one, other) => (one.name < other.name ? -1 : 1))
      await statements.put(kind, sorted, keep)
    },

    read: async (kind, query) => (await readEach([{ kind, ...query }])).flat(),

    readEach,

    async delete(kind, name) {
      checkNoteName(name)
      await checkExists()
      return await statements.delete(kind, name)
    },
  }
}

/** Names are destinations, or ids. No destination has a name that the outbox cannot store. */
function checkNoteName(name: string): string {
  const problem = problemOf(name)
  if (problem !== undefined) throw new InvalidOptionError('name', `${problem}.`)
  return name
}

function noteOf(row: Row): Note {
  return {
    name: String(row['name']),
    value: String(row['value']),
    at: Number(row['at']),
    // Negative if the database's clock was set back since the note was written.
    age: Math.max(0, Number(row['age'])),
  }
}
