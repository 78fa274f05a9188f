import { type Connection, createConnection, type ResultSetHeader, type RowDataPacket } from 'mysql2/promise'

/** Tables with more rows are truncated: the server keeps deleted rows for a while, and the query planner counts them. */
const maxDeletedRows = 2000

/** The state of a database before the first test, and a function to restore it. */
export interface MysqlBaseline {
  /**
   * Resolves to `false` if a test has changed more than rows, such as by creating a table or a trigger. There must be no connection left
   * that could still write.
   */
  restore(): Promise<boolean>
}

interface BaselineTable {
  readonly name: string
  readonly checksum: unknown
  readonly rows: readonly unknown[][]
}

/** Requires a connection that returns dates as strings and that nothing else uses. */
export async function takeMysqlBaseline(connection: Connection): Promise<MysqlBaseline> {
  const before = await readDefinitions(connection)
  const checksums = await readChecksums(connection, before.tables)
  const tables: BaselineTable[] = []
  for (const [index, name] of before.tables.entries()) {
    tables.push({ name, checksum: checksums[index], rows: await readRows(connection, name) })
  }

  return {
    async restore() {
      try {
        const now = await readDefinitions(connection)
        if (now.definitions !== before.definitions) return false
        const found = await readChecksums(connection, before.tables)
        for (const [index, { name, checksum, rows }] of tables.entries()) {
          const isCounted = now.counters[index] !== before.counters[index]
          // The server adds up the checksums of the rows. On MySQL the sum does not change when all 256 partitions change in the same way.
          const isSame = found[index] === checksum && (rows.length === 0 || isEqual(await readRows(connection, name), rows))
          if (isSame && !isCounted) continue
          const [{ affectedRows }] = await connection.query<ResultSetHeader>(`DELETE FROM \`${name}\``)
          if (affectedRows > maxDeletedRows) await connection.query(`TRUNCATE TABLE \`${name}\``)
          else if (isCounted) await connection.query(`ALTER TABLE \`${name}\` AUTO_INCREMENT = 1`)
          if (rows.length > 0) await connection.query(`INSERT INTO \`${name}\` VALUES ?`, [rows])
        }
        return true
      } catch {
        // Some rows cannot be deleted, or the test has killed all connections.
        return false
      }
    },
  }
}

/** Opens a connection for baselines. */
export async function connectForBaseline(options: object): Promise<Connection> {
  const connection = await createConnection({ ...options, dateStrings: true })
  return connection.on('error', () => {})
}

interface Definitions {
  /** The names of the tables. */
  readonly tables: readonly string[]
  /** All definitions in the database as one string, without rows. */
  readonly definitions: string
  /** The AUTO_INCREMENT value of each table. */
  readonly counters: readonly (string | undefined)[]
}

async function readDefinitions(connection: Connection): Promise<Definitions> {
  const [list] = await connection.query<RowDataPacket[][]>({ sql: 'SHOW FULL TABLES', rowsAsArray: true })
  const counters: (string | undefined)[] = []
  const definitions: unknown[] = [list]
  const tables = list.map(([name]) => String(name))
  for (const table of tables) {
    const [[row = []]] = await connection.query<RowDataPacket[][]>({ sql: `SHOW CREATE TABLE \`${table}\``, rowsAsArray: true })
    const text = String(row[1])
    counters.push(/ AUTO_INCREMENT=(\d+)/.exec(text)?.[1])
    definitions.push(text.replace(/ AUTO_INCREMENT=\d+/, ''))
  }
  for (const sql of [
    'SHOW TRIGGERS',
    'SELECT ROUTINE_TYPE, ROUTINE_NAME, LAST_ALTERED FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = DATABASE() ORDER BY 1, 2',
    'SHOW EVENTS',
  ]) {
    definitions.push((await connection.query<RowDataPacket[]>(sql))[0])
  }
  return { tables, definitions: JSON.stringify(definitions), counters }
}

async function readRows(connection: Connection, table: string): Promise<unknown[][]> {
  const [rows] = await connection.query<RowDataPacket[][]>({ sql: `SELECT * FROM \`${table}\``, rowsAsArray: true })
  return rows
}

function isEqual(rows: readonly unknown[][], others: readonly unknown[][]): boolean {
  return JSON.stringify(rows) === JSON.stringify(others)
}

async function readChecksums(connection: Connection, tables: readonly string[]): Promise<unknown[]> {
  const [rows] = await connection.query<RowDataPacket[]>(`CHECKSUM TABLE ${tables.map((name) => `\`${name}\``).join(', ')}`)
  return rows.map((row) => row['Checksum'])
}
