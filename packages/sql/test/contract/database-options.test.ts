import { silentLogger } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { orderOf as orderIn } from '../../src/contract/database-options.ts'
import type { Dialect } from '../../src/contract/dialect.ts'
import { type Database, outboxMiddleware, sqlOutbox } from '../../src/index.ts'
import { postgresDialect } from '../../src/postgres/dialect.ts'
import { fromPg } from '../../src/postgres/index.ts'
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
    expect(() => orderIn(dialect, 'perKey', undefined)).toThrow(refused)
    expect(() => orderIn(dialect, undefined, 'perKey')).toThrow(refused)
    expect(orderIn(dialect, 'none', 'perKey')).toBe('none')
  })
})
