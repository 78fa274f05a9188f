import { createConnection } from 'mysql2/promise'
import { mariadbUrl } from './mysql-world.ts'

/** Whether the shared test server is MariaDB. Otherwise it is MySQL. */
export const isMariadb: boolean = await askServer()

/** The error number when a row violates a CHECK constraint. */
export const checkViolated: number = isMariadb ? 4025 : 3819

/** The number of statements per message. On MariaDB the library's statements are combined with START TRANSACTION and with COMMIT. */
export const statementsPerMessage: number = isMariadb ? 3 : 5

/** A derived table of the numbers from 1 to `count`, at most 1,000,000, in a column `seq`. */
export function numbersTo(count: number): string {
  const digits =
    '(SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)'
  const places = Array.from({ length: Math.max(1, String(count - 1).length) }, (_, place) => place)
  const sum = places.map((place) => `d${place}.n * ${10 ** place}`).join(' + ')
  const joined = places.map((place) => `${digits} AS d${place}`).join(' CROSS JOIN ')
  return `(SELECT seq FROM (SELECT 1 + ${sum} AS seq FROM ${joined}) AS every_number WHERE seq <= ${count} ORDER BY seq) AS numbers`
}

async function askServer(): Promise<boolean> {
  const { hostname, port, username, password } = new URL(mariadbUrl)
  const connection = await createConnection({
    host: hostname,
    port: Number(port || 3306),
    user: decodeURIComponent(username),
    password: decodeURIComponent(password),
  })
  try {
    const [rows] = await connection.query('SELECT VERSION() AS version')
    return /mariadb/i.test(String((rows as { version: unknown }[])[0]?.version))
  } finally {
    await connection.end()
  }
}
