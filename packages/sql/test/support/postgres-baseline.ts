type Query = (text: string, parameters?: unknown[]) => Promise<Record<string, unknown>[]>

/** Larger tables are truncated, because deleted rows remain in their pages until a vacuum, and the query planner counts pages. */
const maxDeletedBytes = 65_536

/** The state of a schema before the first test, and a function to restore it. */
export interface PostgresBaseline {
  /**
   * Resolves to `false` if a test has changed more than rows, such as by creating a table or a trigger or by gathering statistics for the
   * planner. There must be no connection left that could still write.
   */
  restore(): Promise<boolean>
}

interface BaselineTable {
  readonly table: string
  /** The rows as JSON. Undefined if the table is empty. */
  readonly rows: string | undefined
  /** An SQL expression whose value changes when the rows of the table change. */
  readonly stateSql: string
  readonly state: unknown
}

/** Takes the baseline of a schema with its current content. */
export async function takePostgresBaseline(query: Query, schema: string): Promise<PostgresBaseline> {
  const names = await query(`SELECT relname AS name FROM pg_class WHERE relnamespace = '${schema}'::regnamespace AND relkind = 'r'`)
  const tables: BaselineTable[] = []
  for (const { name } of names) tables.push(await readTable(query, `${schema}.${String(name)}`))
  const catalogSql = catalogOf(schema)
  const stateList = tables.map(({ table, stateSql }) => `json_build_array(${stateSql}, pg_relation_size('${table}'))`)
  const readSql = `SELECT ${catalogSql} AS catalog, json_build_array(${stateList.join(', ')})::text AS states`
  let catalog = (await query(`SELECT ${catalogSql} AS catalog`))[0]?.['catalog']

  return {
    async restore() {
      try {
        const [found] = await query(readSql)
        if (found?.['catalog'] !== catalog) return false
        const states = JSON.parse(String(found?.['states'])) as (readonly [unknown, number])[]
        const changed = tables.flatMap((each, index) => {
          const [state, bytes] = states[index] ?? []
          return state === each.state ? [] : [{ ...each, isLarge: Number(bytes) > maxDeletedBytes }]
        })
        await query(restoreSql(schema, changed))
        // TRUNCATE changes the system catalog.
        if (changed.some(({ isLarge }) => isLarge)) catalog = (await query(`SELECT ${catalogSql} AS catalog`))[0]?.['catalog']
        return true
      } catch {
        // A table was dropped, or its rows cannot be deleted.
        return false
      }
    },
  }
}

async function readTable(query: Query, table: string): Promise<BaselineTable> {
  const [{ rows } = {}] = await query(`SELECT json_agg(t)::text AS rows FROM ${table} AS t`)
  // EXISTS, because a table that was empty may have very many rows later.
  const isEmpty = rows === null || rows === undefined
  const stateSql = isEmpty ? `EXISTS (SELECT FROM ${table})` : `(SELECT md5(string_agg(t::text, ',' ORDER BY t::text)) FROM ${table} AS t)`
  const [{ state } = {}] = await query(`SELECT ${stateSql} AS state`)
  return { table, rows: isEmpty ? undefined : String(rows), stateSql, state }
}

function restoreSql(schema: string, changed: readonly (BaselineTable & { readonly isLarge: boolean })[]): string {
  const large = changed.filter(({ isLarge }) => isLarge).map(({ table }) => table)
  const small = changed.filter(({ isLarge }) => !isLarge).map(({ table }) => table)
  const seeds = changed.flatMap(({ table, rows }) =>
    rows === undefined
      ? []
      : [`INSERT INTO ${table} OVERRIDING SYSTEM VALUE SELECT * FROM json_populate_recordset(NULL::${table}, $seed$${rows}$seed$)`],
  )
  const statements = [
    ...(large.length === 0 ? [] : [`TRUNCATE ${large.join(', ')}`]),
    ...small.map((table) => `DELETE FROM ${table}`),
    ...seeds,
    `PERFORM setval(format('%I.%I', schemaname, sequencename)::regclass, start_value, false)
       FROM pg_sequences WHERE schemaname = '${schema}' AND last_value IS NOT NULL`,
  ]
  return `DO $restore$ BEGIN ${statements.map((each) => `${each};`).join(' ')} END $restore$`
}

/** An SQL expression whose value changes with any change of the schema other than rows: all its catalog rows, with the transactions that wrote them. */
function catalogOf(schema: string): string {
  const namespace = `'${schema}'::regnamespace`
  const inSchema = (column: string) => `${column} IN (SELECT oid FROM pg_class WHERE relnamespace = ${namespace})`
  const sources = [
    `SELECT 'namespace', oid, 0, xmin FROM pg_namespace WHERE oid = ${namespace}`,
    ...[
      ['pg_class', 'relnamespace'],
      ['pg_proc', 'pronamespace'],
      ['pg_type', 'typnamespace'],
      ['pg_constraint', 'connamespace'],
      ['pg_statistic_ext', 'stxnamespace'],
    ].map(([catalog, column]) => `SELECT '${catalog}', oid, 0, xmin FROM ${catalog} WHERE ${column} = ${namespace}`),
    ...[
      ['pg_trigger', 'tgrelid'],
      ['pg_attrdef', 'adrelid'],
      ['pg_rewrite', 'ev_class'],
      ['pg_policy', 'polrelid'],
    ].map(([catalog, column = '']) => `SELECT '${catalog}', oid, 0, xmin FROM ${catalog} WHERE ${inSchema(column)}`),
    `SELECT 'pg_index', indexrelid, 0, xmin FROM pg_index WHERE ${inSchema('indrelid')}`,
    `SELECT 'pg_attribute', attrelid, attnum, xmin FROM pg_attribute WHERE ${inSchema('attrelid')}`,
    `SELECT 'pg_stats ' || tablename || ' ' || attname, 0, 0, '0'::xid FROM pg_stats WHERE schemaname = '${schema}'`,
  ]
  return `(SELECT md5(string_agg(entry::text, ' ' ORDER BY entry::text)) FROM (${sources.join(' UNION ALL ')}) AS entry)`
}
