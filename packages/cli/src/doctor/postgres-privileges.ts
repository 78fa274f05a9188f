import type { SqlStore } from '../stores/store.ts'
import { type Check, privilegeCheck, runCheck } from './check.ts'

/**
 * What services and relays need at run time. Numbers come from an identity column, whose sequence needs no privilege. `UPDATE` of the inbox is for the
 * row locks of the cleanup.
 */
const needed = {
  tables: {
    meta: ['SELECT', 'INSERT', 'UPDATE'],
    inbox: ['SELECT', 'INSERT', 'UPDATE', 'DELETE'],
    outbox: ['SELECT', 'INSERT', 'UPDATE', 'DELETE'],
    notes: ['SELECT', 'INSERT', 'UPDATE', 'DELETE'],
    idempotency: ['SELECT', 'INSERT', 'UPDATE', 'DELETE'],
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

/** The schema and the name of a quoted name; without a schema, the name that is found in the search path. */
const named = `named AS (SELECT parse_ident($1::text) AS parts),
found AS (SELECT parts[cardinality(parts)] AS name, CASE WHEN cardinality(parts) > 1 THEN parts[1] END AS schema FROM named)`

/** For existing tables. The catalogue is readable even for a user who may not use the schema. */
export async function postgresPrivileges(store: SqlStore, order: 'none' | 'perKey'): Promise<Check> {
  const parts = order === 'perKey' ? [needed, neededForOrder] : [needed]
  return await runCheck('privileges', async () => {
    const grants = new Set<string>()
    for (const [table, privileges] of parts.flatMap(({ tables }) => Object.entries(tables))) {
      const [row] = await store.query(
        `WITH ${named}
SELECT quote_ident(n.nspname) AS schema, has_schema_privilege(n.oid, 'USAGE') AS usable,
  ARRAY(SELECT wanted FROM unnest($2::text[]) AS wanted WHERE NOT has_table_privilege(c.oid, wanted)) AS missing
FROM found JOIN pg_class AS c ON c.relname = found.name JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE CASE WHEN found.schema IS NULL THEN pg_table_is_visible(c.oid) ELSE n.nspname = found.schema END`,
        [store.table(table), privileges],
      )
      if (row === undefined) throw new Error(`The table ${store.table(table)} does not exist.`)
      if (row['usable'] !== true) grants.add(`USAGE ON SCHEMA ${String(row['schema'])}`)
      const missing = row['missing'] as readonly string[]
      if (missing.length > 0) grants.add(`${missing.join(', ')} ON ${store.table(table)}`)
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
