import { describe, expect, it } from 'vitest'
import { deepErrorNumberOf, endsConnection, errorNumberOf, isConflict, mayRollBack, refusedCommit } from '../../src/mysql/errors.ts'
import { checkServerVersion } from '../../src/mysql/schema.ts'
import { splitScript } from '../../src/mysql/sql-text.ts'
import { explainSetting, resetsOf, transactionSettings } from '../../src/mysql/transaction-control.ts'

function numbered(errno: unknown, more: object = {}): Error {
  return Object.assign(new Error('driver error'), { errno }, more)
}

describe('the number of an error', () => {
  it('is the number that the server sent', () => {
    for (const number of [1062, 1213, 3572, 4025]) expect(errorNumberOf(numbered(number))).toBe(number)
    for (const other of [-104, 2013, 45_009, '1062', undefined]) expect(errorNumberOf(numbered(other))).toBeUndefined()
    expect(errorNumberOf({ errno: 1062 })).toBeUndefined()
  })

  it('is found behind errors that wrap it, and survives a cycle of causes', () => {
    expect(deepErrorNumberOf(new Error('saving', { cause: new Error('more', { cause: numbered(1213) }) }))).toBe(1213)
    expect(isConflict(new Error('saving', { cause: numbered(1213) }))).toBe(true)
    const circle = new Error('circle')
    circle.cause = circle
    expect(deepErrorNumberOf(circle)).toBeUndefined()
  })

  it('tells whether a conflict occurred, nothing was committed, or the connection is lost', () => {
    expect([1213, 1020, 1062, 1205].map((number) => isConflict(numbered(number)))).toEqual([true, true, false, false])
    expect([1213, 1205, 1206, 1062, 1050].map((number) => mayRollBack(numbered(number)))).toEqual([true, true, true, false, false])
    // Only errors that are known to have committed nothing.
    expect([1213, 1205, 1290, 3101].every((number) => refusedCommit(numbered(number)))).toBe(true)
    expect([1317, 1180, 1105, 1927, undefined].some((number) => refusedCommit(numbered(number)))).toBe(false)
    expect([endsConnection(numbered(1927)), endsConnection(numbered(undefined, { fatal: true })), endsConnection(numbered(1062))]).toEqual([
      true,
      true,
      false,
    ])
  })

  it('of an interrupted statement does not mean that the connection is lost, whatever the driver says', () => {
    for (const number of [1317, 1969, 3024]) expect(endsConnection(numbered(number, { fatal: true }))).toBe(false)
    expect(endsConnection(numbered(1927, { fatal: true }))).toBe(true)
  })
})

describe('a read-only server', () => {
  it('makes the connection unusable, so that the next one reaches the writable server', () => {
    const refused = (option: string) => Object.assign(new Error(`The server is running with the ${option} option`), { errno: 1290 })
    expect([endsConnection(refused('--read-only')), endsConnection(numbered(1836)), endsConnection(refused('--secure-file-priv'))]).toEqual(
      [true, true, false],
    )
  })
})

describe('the version of a server', () => {
  it('is rejected if it is too old', () => {
    for (const version of [
      '10.6.0-MariaDB',
      '5.5.5-10.11.19-MariaDB-0+deb12u1',
      '11.4.2-MariaDB-log',
      '8.0.16',
      '8.4.3-cluster',
      '9.1.0',
      'unknown',
    ]) {
      expect(() => checkServerVersion(version)).not.toThrow()
    }
    for (const version of ['10.5.99-MariaDB', '5.5.5-10.3.1-MariaDB', '8.0.15', '5.7.44-log']) {
      expect(() => checkServerVersion(version)).toThrow(/SKIP LOCKED/)
    }
  })
})

describe('a script', () => {
  it('is split at semicolons outside quotes and names', () => {
    expect(splitScript("CREATE TABLE `a;``b` (n INT);\n\nINSERT INTO t VALUES ('a;''b') ; ;\n")).toEqual([
      'CREATE TABLE `a;``b` (n INT)',
      "INSERT INTO t VALUES ('a;''b')",
    ])
  })
})

describe('settings', () => {
  it('are reset where they belong to the session', () => {
    const settings = transactionSettings({ isolation: 'serializable', lockTimeout: 1500 })
    expect(settings).toEqual([
      'SET TRANSACTION ISOLATION LEVEL SERIALIZABLE',
      'SET @ackord_innodb_lock_wait_timeout = @@SESSION.innodb_lock_wait_timeout, @@SESSION.innodb_lock_wait_timeout = 2',
    ])
    expect(resetsOf(settings)).toEqual(['SET @@SESSION.innodb_lock_wait_timeout = @ackord_innodb_lock_wait_timeout'])
    expect(resetsOf([])).toEqual([])
  })

  it('that a server does not support are not ignored', () => {
    const unknown = Object.assign(new Error("Unknown system variable 'idle_transaction_timeout'"), { errno: 1193 })
    expect(explainSetting(unknown)).toMatchObject({ code: 'ACKORD_INVALID_OPTION', message: expect.stringMatching(/^idleTimeout/) })
    const other = new Error('other')
    expect(explainSetting(other)).toBe(other)
  })
})
