import { silentLogger } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { storageOf } from '../../src/contract/database-options.ts'
import type { Dialect } from '../../src/contract/dialect.ts'
import { tablesOf } from '../../src/contract/tables.ts'
import { type Database, outboxMiddleware, sqlOutbox } from '../../src/index.ts'
import { mysqlDialect } from '../../src/mysql/dialect.ts'
import { postgresDialect } from '../../src/postgres/dialect.ts'
import { fromPg } from '../../src/postgres/index.ts'
import { sqliteDialect } from '../../src/sqlite/dialect.ts'
import { pg } from '../support/pg.ts'

const pool = new pg.Pool({ max: 1 })
const orderOf = (database: Database<never>, order?: 'none' | 'perKey') =>
  sqlOutbox(database, { order, logger: silentLogger }).capabilities.order

describe('the order', () => {
  it('comes from the function, else from the database, and defaults to none', () => {
    expect(orderOf(fromPg(pool) as never)).toBe('none')
    expect(orderOf(fromPg(pool) as never, 'perKey')).toBe('perKey')
    expect(orderOf(fromPg(pool, { order: 'perKey' }) as never)).toBe('perKey')
    expect(orderOf(fromPg(pool, { order: 'perKey' }) as never, 'none')).toBe('none')
  })

  it('rejects an invalid value', () => {
    const refused = { code: 'ACKORD_INVALID_OPTION' }
    const wrong = { order: 'perkey' } as never
    for (const call of [
      () => fromPg(pool, wrong),
      () => sqlOutbox(fromPg(pool), wrong),
      () => outboxMiddleware(fromPg(pool), Object.assign({ destination: 'd' }, wrong)),
    ]) {
      expect(call).toThrow(expect.objectContaining(refused))
    }
  })

  it('is rejected on databases that do not support it', () => {
    const dialect = { ...postgresDialect, store: { ...postgresDialect.store, ownership: undefined } } as unknown as Dialect
    const refused = expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', message: expect.stringContaining('perKey') })
    expect(() => storageOf(dialect, { order: 'perKey' }, {})).toThrow(refused)
    expect(() => storageOf(dialect, {}, { order: 'perKey' })).toThrow(refused)
    expect(storageOf(dialect, { order: 'none' }, { order: 'perKey' }).order).toBe('none')
  })
})

describe('the mode', () => {
  const refused = (text: string) => expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', message: expect.stringContaining(text) })

  it('comes from the function, else from the database, and defaults to table', () => {
    expect(storageOf(postgresDialect, {}, {})).toEqual({ mode: 'table', order: 'none' })
    expect(storageOf(postgresDialect, { mode: 'log' }, {}).mode).toBe('log')
    expect(storageOf(postgresDialect, {}, { mode: 'log' }).mode).toBe('log')
    expect(storageOf(postgresDialect, { mode: 'table' }, { mode: 'log' })).toEqual({ mode: 'table', order: 'none' })
  })

  it('log always keeps the order of each key', () => {
    expect(storageOf(postgresDialect, { mode: 'log' }, {}).order).toBe('perKey')
    expect(orderOf(fromPg(pool, { mode: 'log' }) as never)).toBe('perKey')
    expect(storageOf(postgresDialect, { mode: 'log', order: 'perKey' }, {}).order).toBe('perKey')
    expect(() => storageOf(postgresDialect, { mode: 'log', order: 'none' }, {})).toThrow(refused('log mode'))
    expect(() => fromPg(pool, { mode: 'log', order: 'none' })).toThrow(refused('log mode'))
  })

  it('log is rejected on other databases, and invalid values everywhere', () => {
    for (const dialect of [mysqlDialect, sqliteDialect]) {
      expect(() => storageOf(dialect, { mode: 'log' }, {})).toThrow(refused('PostgreSQL only'))
      expect(() => storageOf(dialect, {}, { mode: 'log' })).toThrow(refused('PostgreSQL only'))
      expect(storageOf(dialect, { mode: 'table' }, {})).toEqual({ mode: 'table', order: 'none' })
    }
    expect(() => sqlOutbox(fromPg(pool), { mode: 'Log' } as never)).toThrow(refused('mode'))
  })
})

describe('the names of the log', () => {
  it('leave room for the suffixes of its parts', () => {
    const named = (length: number) => tablesOf(postgresDialect, { names: { log: 'x'.repeat(length) } }, {})
    expect(named(61).leaves.map(({ log }) => log)).toEqual([0, 1, 2, 3].map((part) => `"${'x'.repeat(61)}_${part}"`))
    expect(() => named(62)).toThrow(
      expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', message: expect.stringContaining('names.log') }),
    )
  })
})
