import { describe, expect, it } from 'vitest'
import { sqliteDialect } from '../../src/sqlite/dialect.ts'
import { isLocked, sqliteCodeOf } from '../../src/sqlite/errors.ts'

const ofNode = (errcode: number, text = 'failed') => Object.assign(new Error(text), { code: 'ERR_SQLITE_ERROR', errcode })
const ofBetter = (code: string, text = 'failed') => Object.assign(new Error(text), { code })

describe('sqliteCodeOf()', () => {
  it('reads the number of node:sqlite and the name of better-sqlite3, without the extended part', () => {
    expect([5, 517, 6, 10, 2570, 13, 19].map((errcode) => sqliteCodeOf(ofNode(errcode)))).toEqual([
      'BUSY',
      'BUSY',
      'LOCKED',
      'IOERR',
      'IOERR',
      'FULL',
      'OTHER',
    ])
    expect(['SQLITE_BUSY', 'SQLITE_BUSY_SNAPSHOT', 'SQLITE_IOERR_FSYNC'].map((code) => sqliteCodeOf(ofBetter(code)))).toEqual([
      'BUSY',
      'BUSY',
      'IOERR',
    ])
  })

  it('does not mistake other errors for SQLite’s', () => {
    for (const error of [new Error('x'), ofBetter('ECONNRESET'), ofBetter('ERR_INVALID_STATE'), 'SQLITE_BUSY', undefined]) {
      expect(sqliteCodeOf(error)).toBe(undefined)
      expect(isLocked(error)).toBe(false)
    }
  })
})

describe('the dialect', () => {
  it('treats a lock as a conflict, also if it was wrapped, but not a lock timeout', () => {
    const { isConflict } = sqliteDialect
    expect(isConflict(ofNode(5))).toBe(true)
    expect(isConflict(new Error('wrapped', { cause: ofBetter('SQLITE_LOCKED') }))).toBe(true)
    expect(isConflict(Object.assign(new Error('busy', { cause: ofNode(5) }), { code: 'ACKORD_DATABASE_BUSY' }))).toBe(false)
    expect(isConflict(ofNode(19))).toBe(false)
  })

  it('recognises a missing table or column by the text, because SQLite has no number for it', () => {
    const { isSchemaMissing } = sqliteDialect
    for (const text of ['no such table: main.ackord_inbox', 'no such column: state', 'table ackord_outbox has no column named type']) {
      expect(isSchemaMissing(ofNode(1, text))).toBe(true)
      expect(isSchemaMissing(ofBetter('SQLITE_ERROR', text))).toBe(true)
    }
    expect(isSchemaMissing(ofNode(1, 'near "selekt": syntax error'))).toBe(false)
    expect(isSchemaMissing(ofNode(19, 'no such table: x'))).toBe(false)
  })
})
