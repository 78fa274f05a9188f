import { describe, expect, it } from 'vitest'
import { isRead, keepsTransaction, refuseControl } from '../../src/mysql/transaction-control.ts'

describe('refuseControl()', () => {
  it.each([
    'BEGIN',
    'begin work',
    'START TRANSACTION READ ONLY',
    ' \n-- a comment\nCommit;',
    '# a comment\nROLLBACK',
    'rollback and chain',
    'XA START 1',
    'SET autocommit = 0',
    'set @@session.autocommit=1',
    'LOCK TABLES orders WRITE',
    'UNLOCK TABLES',
    'CREATE TABLE t (n INT)',
    'create or replace view v as select 1',
    '/* hidden */ ALTER TABLE t ADD n INT',
    '/*!40000 DROP TABLE t */',
    '/*M!100100 TRUNCATE t */',
    'RENAME TABLE a TO b',
    'GRANT ALL ON *.* TO me',
    'ANALYZE TABLE t',
    'OPTIMIZE LOCAL TABLE t',
    'FLUSH TABLES',
  ])('rejects %j', (sql) => {
    expect(() => refuseControl(sql)).toThrow(/begin or end the transaction/)
  })

  it.each([
    'SAVEPOINT mine',
    'ROLLBACK TO mine',
    'rollback work to savepoint mine',
    'RELEASE SAVEPOINT mine',
    'CREATE TEMPORARY TABLE t (n INT)',
    'CREATE OR REPLACE TEMPORARY TABLE t (n INT)',
    'DROP TEMPORARY TABLE t',
    "INSERT INTO t VALUES ('COMMIT')",
    'SELECT 1 -- COMMIT',
    'UPDATE t SET begin_at = 1',
    'SET @autocommit_before = 1',
    'BEGIN NOT ATOMIC SELECT 1; END',
    'beginning',
    undefined,
    7,
  ])('accepts %j', (sql) => {
    expect(() => refuseControl(sql)).not.toThrow()
  })

  it('recognises statements that only read', () => {
    for (const sql of ['SELECT 1', '(select 1)', '/* x */ WITH a AS (SELECT 1) SELECT * FROM a', 'SHOW TABLES'])
      expect(isRead(sql)).toBe(true)
    for (const sql of ['CALL p()', 'EXECUTE s', 'ANALYZE TABLE t', undefined]) expect(isRead(sql)).toBe(false)
  })
})

it('recognises statements that leave a transaction open, and trusts no others', () => {
  for (const sql of [
    'SELECT 1',
    '/* why */ INSERT INTO orders VALUES (1)',
    'update orders set n = 1;',
    'SAVEPOINT one',
    'ROLLBACK TO SAVEPOINT one',
    undefined,
  ])
    expect(keepsTransaction(sql)).toBe(true)
  for (const sql of [
    'CALL p()',
    "EXECUTE IMMEDIATE 'DROP TABLE t'",
    'BEGIN NOT ATOMIC COMMIT; END',
    'DELETE FROM t; DROP TABLE t',
    'SET PASSWORD = 1',
  ])
    expect(keepsTransaction(sql)).toBe(false)
})
