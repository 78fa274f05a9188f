import type { OutboxChoices, SqlStore } from '../stores/store.ts'
import { type Check, privilegeCheck, runCheck } from './check.ts'

/**
 * The privileges that services and relays need at run time. Numbers come from an identity column, whose sequence needs no privilege in table mode. `UPDATE` of the inbox is
 * for the row locks of the cleanup.
 */
const needed = {
  tables: {
    meta: ['SELECT', 'INSERT', 'UPDATE'],
    inbox: ['SELECT', 'INSERT', 'UPDATE', 'DELETE'],
    outbox: ['SELECT', 'INSERT', 'UPDATE', 'DELETE'],
    notes: ['SELECT', 'INSERT', 'UPDATE', 'DELETE'],
    idempotency: ['SELECT', 'INSERT', 'UPDATE', 'DELETE'],
    process: ['SELECT', 'INSERT', 'UPDATE', 'DELETE'],
  },
  functions: ['valid'],
} as const

/** In addition, with order per key. */
const neededForOrder = {
  tables: {
    relays: ['SELECT', 'INSERT', 'UPDATE', 'DELETE'],
    partitions: ['SELECT', 'UPDATE'],
    hands: ['SELECT', 'INSERT', 'UPDATE', 'DELETE'],
  },
  functions: ['keep'],
} as const

/** In addition, in log mode. Relays empty the parts, and after a restore from a dump the whole log. Its numbers are the default of a column, which needs a privilege on the sequence. */
const neededForLog = {
  tables: {
    log: ['SELECT', 'INSERT', 'TRUNCATE'],
    cursors: ['SELECT', 'INSERT', 'TRUNCATE'],
    taken: ['SELECT', 'INSERT', 'DELETE', 'TRUNCATE'],
    readers: ['SELECT', 'INSERT', 'UPDATE', 'DELETE'],
    ...Object.fromEntries(
      [0, 1, 2, 3].flatMap((part) => [`log_${part}`, `cursors_${part}`].map((name) => [name, ['SELECT', 'TRUNCATE']] as const)),
    ),
  },
  functions: [],
} as const

/** In addition, for an inbox with partitions. `TRUNCATE` and the changes of the others are for the cleanup. */
const neededForPartitions = {
  tables: {
    inbox_0: ['SELECT', 'INSERT', 'TRUNCATE'],
    inbox_1: ['SELECT', 'INSERT', 'TRUNCATE'],
    inbox_2: ['SELECT', 'INSERT', 'TRUNCATE'],
    inbox_3: ['SELECT', 'INSERT', 'TRUNCATE'],
    inbox_sealed: ['SELECT', 'INSERT', 'DELETE'],
    inbox_current: ['SELECT', 'UPDATE'],
  },
  functions: [],
} as const

/** The schema and the name of a quoted name; without a schema, the name that is found in the search path. */
export const named: string = `named AS (SELECT parse_ident($1::text) AS parts),
found AS (SELECT parts[cardinality(parts)] AS name, CASE WHEN cardinality(parts) > 1 THEN parts[1] END AS schema FROM named)`

/** The relation of that name, as c, in the schema n. */
export const relation: string = `found JOIN pg_class AS c ON c.relname = found.name JOIN pg_namespace AS n ON n.oid = c.relnamespace
  AND CASE WHEN found.schema IS NULL THEN pg_table_is_visible(c.oid) ELSE n.nspname = found.schema END`

/** For existing tables. The catalogue is readable even for a user who may not use the schema. */
export async function postgresPrivileges(store: SqlStore, { order, mode }: Pick<OutboxChoices, 'order' | 'mode'>): Promise<Check> {
  return await runCheck('privileges', async () => {
    const partitioned = await store.query(`WITH ${named} SELECT 1 FROM ${relation} WHERE c.relkind = 'p'`, [store.table('inbox')])
    const parts = [
      needed,
      ...(order === 'perKey' || mode === 'log' ? [neededForOrder] : []),
      ...(mode === 'log' ? [neededForLog] : []),
      ...(partitioned.length > 0 ? [neededForPartitions] : []),
    ]
    const grants = new Set<string>()
    for (const [table, privileges] of parts.flatMap(({ tables }) => Object.entries(tables))) {
      const [row] = await store.query(
        `WITH ${named}
SELECT quote_ident(n.nspname) AS schema, has_schema_privilege(n.oid, 'USAGE') AS usable,
  ARRAY(SELECT wanted FROM unnest($2::text[]) AS wanted WHERE NOT has_table_privilege(c.oid, wanted)) AS missing
FROM ${relation}`,
        [store.table(table), privileges],
      )
      if (row === undefined) throw new Error(`The table ${store.table(table)} does not exist.`)
      if (row['usable'] !== true) grants.add(`USAGE ON SCHEMA ${String(row['schema'])}`)
      const missing = row['missing'] as readonly string[]
      if (missing.length > 0) grants.add(`${missing.join(', ')} ON ${store.table(table)}`)
    }
    if (mode === 'log') {
      const [sequence] = await store.query(
        `WITH ${named}
SELECT format('%I.%I', n.nspname, s.relname) AS name FROM ${relation}
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'seq' JOIN pg_depend AS d ON d.refobjid = c.oid AND d.refobjsubid = a.attnum AND d.deptype = 'i'
JOIN pg_class AS s ON s.oid = d.objid AND s.relkind = 'S' WHERE NOT has_sequence_privilege(s.oid, 'USAGE')`,
        [store.table('outbox')],
      )
      if (sequence !== undefined) grants.add(`USAGE ON SEQUENCE ${String(sequence['name'])}`)
    }
    for (const name of parts.flatMap(({ functions }) => functions)) {
      const [row] = await store.query(
        `WITH ${named}
SELECT has_function_privilege(p.oid, 'EXECUTE') AS granted
FROM found JOIN pg_proc AS p ON p.proname = found.name JOIN pg_namespace AS n ON n.oid = p.pronamespace
WHERE CASE WHEN found.schema IS NULL THEN pg_function_is_visible(p.oid) ELSE n.nspname = found.schema END`,
        [store.table(name)],
      )
      if (row?.['granted'] === false) grants.add(`EXECUTE ON FUNCTION ${store.table(name)}`)
    }
    const [user] = await store.query('SELECT quote_ident(current_user) AS name')
    const name = String(user?.['name'])
    return privilegeCheck(
      name,
      [...grants].map((grant) => `GRANT ${grant} TO ${name};`),
    )
  })
}
