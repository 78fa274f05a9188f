import { describe, expect, it } from 'vitest'
import { refuseControl } from '../../src/sqlite/transaction-control.ts'

describe('refuseControl()', () => {
  it.each([
    'BEGIN',
    'begin immediate',
    ' \n-- a comment\nCommit;',
    '/* BEGIN */ END TRANSACTION',
    'ROLLBACK',
    'rollback transaction',
    "INSERT INTO t VALUES (';'); COMMIT",
    'INSERT INTO "a;b" VALUES (1); /* ; */ ; ROLLBACK;',
    'CREATE TRIGGER t AFTER INSERT ON a BEGIN SELECT 1; END; COMMIT',
    '\uFEFFCOMMIT',
  ])('rejects %j', (sql) => {
    expect(() => refuseControl(sql)).toThrow(/begin or end the transaction/)
  })

  it.each([
    'SAVEPOINT one; RELEASE one',
    'ROLLBACK TO one',
    'ROLLBACK TRANSACTION TO SAVEPOINT one',
    "INSERT INTO t VALUES ('it''s; COMMIT')",
    'SELECT "; COMMIT", `; COMMIT`, [; COMMIT] FROM t -- ; COMMIT',
    '/* ; COMMIT */ SELECT 1',
    '/* ; COMMIT',
    'CREATE TRIGGER t AFTER INSERT ON a BEGIN UPDATE a SET n = CASE n WHEN 1 THEN 2 END; DELETE FROM b; END',
    'CREATE TEMP TRIGGER t AFTER INSERT ON a BEGIN DELETE FROM b; END; SELECT 1',
    'SELECT end FROM commits',
    '',
  ])('accepts %j', (sql) => {
    refuseControl(sql)
  })

  it('reads a long text in one pass', () => {
    refuseControl(`INSERT INTO t VALUES ('${'x'.repeat(5_000_000)}')`)
  })
})
