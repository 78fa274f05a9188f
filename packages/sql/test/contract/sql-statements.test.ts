import { describe, expect, it } from 'vitest'
import { type SqlSyntax, statementsOf } from '../../src/contract/sql-statements.ts'
import { refuseControl as refuseMysql } from '../../src/mysql/transaction-control.ts'
import { refuseControl as refusePostgres } from '../../src/postgres/transaction-control.ts'
import { refuseControl as refuseSqlite } from '../../src/sqlite/transaction-control.ts'

const refusal = /begin or end the transaction/

describe('refuseControl() on PostgreSQL', () => {
  it.each([
    'COMMIT',
    'commit and chain',
    '/* tag */ COMMIT',
    '/* a /* nested */ comment */ END',
    '-- tag\nCOMMIT',
    '-- tag\rCOMMIT',
    'SELECT 1; COMMIT',
    'SELECT 1;;\n\tABORT;',
    "SELECT 'a;b'; COMMIT; BEGIN",
    "SELECT 'it''s'; ROLLBACK",
    "SELECT 'a\\'; COMMIT; --'",
    "SELECT E'a\\\\'; COMMIT",
    "SELECT e'a\\''; COMMIT",
    "SELECT E'a'\n'\\''; COMMIT",
    "SELECT $$ it's $$; COMMIT",
    'SELECT $tag$ $$ ; $tag$; COMMIT',
    'SELECT a$b$ FROM t; COMMIT; SELECT a$b$',
    'SELECT $1; COMMIT',
    'SELECT "a;""b"; COMMIT',
    '(SELECT 1); COMMIT',
    'START TRANSACTION',
    "PREPARE TRANSACTION 'x'",
    'ROLLBACK WORK AND CHAIN',
    'CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE 1 WHEN 1 THEN 2 END; END; COMMIT',
    'COMMIT /* does not end',
  ])('rejects %j', (sql) => {
    expect(() => refusePostgres(sql)).toThrow(refusal)
  })

  it.each([
    'SELECT 1',
    'SAVEPOINT one; ROLLBACK TO one; RELEASE one',
    'ROLLBACK WORK TO SAVEPOINT one',
    'rollback transaction to one',
    "INSERT INTO t VALUES ('; COMMIT')",
    "SELECT E'a\\'; COMMIT; --'",
    'SELECT $$; COMMIT$$',
    'DO $body$ BEGIN PERFORM 1; END $body$',
    'CREATE OR REPLACE FUNCTION f() RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT 1; SELECT CASE 1 WHEN 1 THEN 2 END; END',
    'SELECT "; COMMIT"',
    'SELECT 1 -- ; COMMIT',
    '/* ; /* COMMIT */ ; COMMIT */ SELECT 1',
    'PREPARE mine AS SELECT 1',
    'EXECUTE mine',
    'UPDATE t SET "end" = 1 WHERE begin = 2',
    "SELECT ';' AS commit",
    '',
    ' ;; ',
    undefined,
    7,
  ])('accepts %j', (sql) => {
    refusePostgres(sql)
  })
})

describe('refuseControl() on MySQL, beyond its first statement', () => {
  it.each([
    'SELECT 1; COMMIT',
    "SELECT 'it\\'s'; COMMIT",
    "SELECT 'a\\\\'; COMMIT",
    'SELECT "a\\";b"; COMMIT',
    'SELECT `a;``b`; COMMIT',
    'SELECT 1 # tag\n; COMMIT',
    'SELECT 1 --1; COMMIT',
    'SELECT 2--COMMIT\n; COMMIT',
    'SELECT 1 /*! ; COMMIT */',
    'SELECT 1 /*!50000 , /* inner */ 2 */; COMMIT',
    'BEGIN NOT ATOMIC INSERT INTO t VALUES (1); COMMIT; END',
    '-- a\0COMMIT',
    'SET SESSION autocommit = 0',
  ])('rejects %j', (sql) => {
    expect(() => refuseMysql(sql)).toThrow(refusal)
  })

  it.each([
    "SELECT 'it\\'s; COMMIT'",
    'SELECT "a\\"; COMMIT"',
    'SELECT `; COMMIT`',
    'SELECT 1 # ; COMMIT',
    'SELECT 1 -- ; COMMIT',
    "SELECT a */*it's*/ b",
    'SELECT @a := 1; SELECT @`; COMMIT`',
  ])('accepts %j', (sql) => {
    refuseMysql(sql)
  })
})

it('scans several megabytes of SQL in one pass, whatever it contains', () => {
  const quotes = "''".repeat(1_000_000)
  for (const refuse of [refusePostgres, refuseMysql, refuseSqlite]) {
    refuse(`INSERT INTO t VALUES ('${'x'.repeat(5_000_000)}')`)
    refuse(`INSERT INTO t VALUES ('${quotes}')`)
    refuse(`INSERT INTO t VALUES (${'?, '.repeat(500_000)}?)`)
    expect(() => refuse(`SELECT '${quotes}'; COMMIT`)).toThrow(refusal)
  }
  refuseMysql(`SELECT '${'\\\\'.repeat(500_000)}'`)
  refusePostgres(`SELECT E'${'\\\\'.repeat(500_000)}'`)
  refusePostgres(`${'/*'.repeat(500_000)}`)
})

it('returns the first words of every statement', () => {
  const syntax: SqlSyntax = { lineEnds: /\n/g, dollarQuotes: true }
  expect(statementsOf('((select "a" from t where x = $1)); /* none */; set @x := 1', syntax)).toEqual([
    ['SELECT', '"', 'FROM', 'T', 'WHERE'],
    ['SET', '@X', ':', '=', '1'],
  ])
})
