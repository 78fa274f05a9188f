import { describe, expect, it } from 'vitest'
import type { Dialect } from '../../src/contract/dialect.ts'
import { tablesOf } from '../../src/contract/tables.ts'
import { mysqlDialect } from '../../src/mysql/dialect.ts'
import { postgresDialect } from '../../src/postgres/dialect.ts'
import { sqliteDialect } from '../../src/sqlite/dialect.ts'

const dialects: Readonly<Record<string, Dialect>> = { postgres: postgresDialect, mysql: mysqlDialect, sqlite: sqliteDialect }

// The statements that createSchema() runs, for users to read and to copy into their own migrations. `npx vitest -u` updates the files.
describe.each(Object.entries(dialects))('the migrations of %s', (name, dialect) => {
  const { migrations, meta, setVersion } = dialect.store.schema
  const tables = tablesOf(dialect, {}, {})

  it('are numbered from 1, and each supports at least its own version', () => {
    expect(migrations.map(({ version }) => version)).toEqual(migrations.map((_, index) => index + 1))
    for (const { version, oldestReader } of migrations) expect(oldestReader).toBeLessThanOrEqual(version)
  })

  it.each(migrations.map((migration) => [migration.version, migration] as const))(
    'are readable as SQL files: %i',
    async (version, migration) => {
      const first = version === 1 ? `${meta(tables)};\n\n` : ''
      const text = `${first}${migration.sql(tables).trim()}\n\n${setVersion(tables, version, migration.oldestReader)};\n`
      await expect(text).toMatchFileSnapshot(`../../migrations/${name}/${String(version).padStart(4, '0')}.sql`)
    },
  )
})
