import { describe, expect, it } from 'vitest'
import { CommitUnknownError } from '../../../src/errors.ts'
import { CompoundStatements } from '../../../src/mysql/client/compound-statements.ts'
import { openSession } from '../../../src/mysql/client/session.ts'
import type { MysqlConnection, MysqlWire } from '../../../src/mysql/client/wire.ts'
import { resetsOf, transactionSettings } from '../../../src/mysql/transaction-control.ts'
import type { Row } from '../../../src/records/row.ts'
import { failureOf } from '../../support/world.ts'

const record = { sql: 'INSERT INTO inbox', prepare: true, rows: 1 } as const
const append = { sql: 'INSERT INTO outbox', prepare: true, rows: 1 } as const
const beginning = 'BEGIN NOT ATOMIC START TRANSACTION; INSERT INTO inbox; END'
const committing = 'COMMIT AND NO CHAIN NO RELEASE'
const rollingBack = 'ROLLBACK AND NO CHAIN NO RELEASE'
const ending = `BEGIN NOT ATOMIC INSERT INTO outbox; ${committing}; END`

interface FakeServer {
  /** Throws the server's error for a statement, if it has one. */
  readonly refuse?: (sql: string) => void
  /** Whether the server reports an open transaction when it is queried. */
  readonly open?: boolean
  readonly settings?: readonly string[]
  /** The number of rows that each statement reports as changed. */
  readonly count?: number
  /** The rows that each statement returns. */
  readonly rows?: readonly Row[]
}

function errorOf(errno: number): Error {
  return Object.assign(new Error(`error ${errno}`), { errno })
}

function isDuplicate(error: unknown): boolean {
  return (error as { errno?: number }).errno === 1062
}

/** Sessions on a fake server that the test controls. */
function setup({ refuse = () => {}, open = true, settings = [], count = 1, rows = [] }: FakeServer = {}) {
  const sent: string[] = []
  const compounds = new CompoundStatements()
  const wire: MysqlWire = {
    name: 'fake',
    calls: [],
    async send(_, { sql }) {
      sent.push(sql)
      refuse(sql)
      const inTransaction = sql === 'DO 0' ? open : !/COMMIT|ROLLBACK/.test(sql)
      return { rows, count, inTransaction, autocommit: true }
    },
    read: () => ({ rows: [], count: 0, inTransaction: true, autocommit: true }),
  }
  const session = () => openSession({} as MysqlConnection, { wire, settings, compounds })
  return { sent, session }
}

const explained = new Error('explained')
const explain = () => explained

/** Runs the statements of one message. */
async function process({ session, commit }: ReturnType<typeof openSession>): Promise<void> {
  await session.change(record)
  await session.deferStatement(append, explain)
  await commit()
}

describe('a session', () => {
  it('combines its first statement with START TRANSACTION and its last with COMMIT', async () => {
    const { sent, session } = setup()
    await process(session())
    expect(sent).toEqual([beginning, ending])
  })

  it('sends statements separately if the server cannot parse compound statements, and tries only once', async () => {
    const { sent, session } = setup({
      refuse: (sql) => {
        if (sql.startsWith('BEGIN')) throw errorOf(1064)
      },
    })
    const alone = ['START TRANSACTION', record.sql, append.sql, committing]
    await process(session())
    expect(sent.splice(0)).toEqual([beginning, ...alone])
    await process(session())
    expect(sent).toEqual(alone)
  })

  it('still sends compound statements after a statement that the server cannot parse even on its own', async () => {
    let broken = true
    const { sent, session } = setup({
      refuse: (sql) => {
        if (broken && sql.includes(record.sql)) throw errorOf(1064)
      },
    })
    const opened = session()
    expect(await failureOf(process(opened))).toMatchObject({ errno: 1064 })
    await opened.rollBack()
    expect(sent.splice(0)).toEqual([beginning, 'START TRANSACTION', record.sql, rollingBack])
    broken = false
    await process(session())
    expect(sent).toEqual([beginning, ending])
  })

  it('counts the rows of its first statement itself, because the server adds those of triggers', async () => {
    const { session } = setup({ count: 5 })
    expect(await session().session.change(record)).toBe(1)
  })

  it('begins separately if it does not know how many rows its first statement changes', async () => {
    const { sent, session } = setup({ count: 5 })
    expect(await session().session.change({ sql: 'UPDATE orders', prepare: true })).toBe(5)
    expect(sent).toEqual(['START TRANSACTION', 'UPDATE orders'])
  })

  it.each([1146, 1100])('does not reuse the connection after %i, because its prepared statements may be outdated', async (errno) => {
    for (const failing of [beginning, ending]) {
      const { session } = setup({
        refuse: (sql) => {
          if (sql === failing) throw errorOf(errno)
        },
      })
      const opened = session()
      expect(await failureOf(process(opened))).not.toBeInstanceOf(CommitUnknownError)
      expect(opened.broken()).toMatchObject({ errno })
    }
  })

  it('continues separately if the server cannot prepare the last statement with COMMIT', async () => {
    const { sent, session } = setup({
      refuse: (sql) => {
        if (sql === ending) throw errorOf(1295)
      },
    })
    await process(session())
    expect(sent).toEqual([beginning, ending, append.sql, committing])
  })

  it('applies its settings before it begins, and resets them', async () => {
    const settings = transactionSettings({ isolation: 'serializable', lockTimeout: 1000 })
    const { sent, session } = setup({ settings })
    await process(session())
    expect(sent).toEqual([...settings, beginning, ending, ...resetsOf(settings)])
  })

  it('sends deferred statements before anything else, in order', async () => {
    const { sent, session } = setup()
    const opened = session()
    const { deferStatement, run } = opened.session
    void deferStatement({ ...append, sql: 'INSERT 1' }, explain)
    await deferStatement({ ...append, sql: 'INSERT 2' }, explain)
    await run('SELECT 1')
    await opened.session.deferStatement({ ...append, sql: 'INSERT 3', prepare: false }, explain)
    await opened.commit()
    expect(sent).toEqual(['BEGIN NOT ATOMIC START TRANSACTION; INSERT 1; END', 'INSERT 2', 'SELECT 1', 'INSERT 3', committing])
  })

  it('begins with the deferred statement if there is no other statement', async () => {
    const { sent, session } = setup()
    const opened = session()
    await opened.session.deferStatement(append, explain)
    await opened.commit()
    expect(sent).toEqual(['BEGIN NOT ATOMIC START TRANSACTION; INSERT INTO outbox; END', committing])
  })

  it('sends no deferred statement when it is rolled back', async () => {
    const { sent, session } = setup()
    const opened = session()
    await opened.session.change(record)
    await opened.session.deferStatement(append, explain)
    await opened.rollBack()
    expect(sent).toEqual([beginning, rollingBack])
  })

  it('accepts a first statement that changes no row', async () => {
    const { sent, session } = setup({
      refuse: (sql) => {
        if (sql === beginning) throw errorOf(1062)
      },
    })
    const opened = session()
    expect(await opened.session.change({ ...record, none: isDuplicate })).toBe(0)
    await opened.commit()
    expect(sent).toEqual([beginning, committing])
  })
})

describe('a statement that reports that it changed no row', () => {
  const finding = 'SELECT 1 FROM inbox'
  const recordOnce = { ...record, none: isDuplicate, confirm: { sql: finding, parameters: [], refused: () => false } }
  const duplicate = errorOf(1062)
  const refuse = (sql: string) => {
    if (sql.includes(record.sql)) throw duplicate
  }

  it('is accepted if the row exists', async () => {
    const { sent, session } = setup({ refuse, rows: [{ one: 1 }] })
    const opened = session()
    expect(await opened.session.change(recordOnce)).toBe(0)
    await opened.session.change(append)
    expect(await opened.session.change(recordOnce)).toBe(0)
    await opened.commit()
    expect(sent).toEqual([beginning, finding, append.sql, record.sql, finding, committing])
  })

  it('is accepted if the row exists, even if the server rejects it in a compound statement', async () => {
    const { sent, session } = setup({
      refuse: (sql) => {
        if (sql.startsWith('BEGIN')) throw errorOf(1064)
        refuse(sql)
      },
      rows: [{ one: 1 }],
    })
    const opened = session()
    expect(await opened.session.change(recordOnce)).toBe(0)
    await opened.commit()
    expect(sent).toEqual([beginning, 'START TRANSACTION', record.sql, finding, committing])
  })

  it('fails with its own error if the row does not exist, and nothing is committed', async () => {
    const { sent, session } = setup({ refuse })
    const opened = session()
    expect(await failureOf(Promise.resolve(opened.session.change(recordOnce)))).toBe(duplicate)
    expect(await failureOf(opened.commit())).toMatchObject({ code: 'ACKORD_TRANSACTION_ABORTED', cause: duplicate })
    expect(sent).toEqual([beginning, finding, rollingBack])
  })

  it('fails with the error of the query if the query fails, and nothing is committed', async () => {
    const deadlock = errorOf(1213)
    const { sent, session } = setup({
      refuse: (sql) => {
        if (sql === finding) throw deadlock
        refuse(sql)
      },
      open: false,
    })
    const opened = session()
    expect(await failureOf(Promise.resolve(opened.session.change(recordOnce)))).toBe(deadlock)
    expect(await failureOf(opened.commit())).toMatchObject({ code: 'ACKORD_TRANSACTION_ABORTED', cause: deadlock })
    expect(sent.slice(0, 2)).toEqual([beginning, finding])
    expect(sent).not.toContain(committing)
  })
})

describe('when the last statement fails', () => {
  const failing = (errno: number) => (sql: string) => {
    if (sql === ending) throw errorOf(errno)
  }

  it('and the transaction is still open, nothing was committed: it is rolled back with the error of the statement', async () => {
    const { sent, session } = setup({ refuse: failing(4025), open: true })
    const opened = session()
    expect(await failureOf(process(opened))).toBe(explained)
    expect(sent).toEqual([beginning, ending, 'DO 0', rollingBack])
    expect(opened.broken()).toBeUndefined()
  })

  it('and no transaction is open, the outcome is unknown, and the connection is not reused', async () => {
    const { sent, session } = setup({ refuse: failing(4025), open: false })
    const opened = session()
    expect(await failureOf(process(opened))).toBeInstanceOf(CommitUnknownError)
    expect(sent).toEqual([beginning, ending, 'DO 0'])
    expect(opened.broken()).toMatchObject({ errno: 4025 })
  })

  it.each([1020, 1205, 1206, 1213])('with error %i, nothing was committed', async (errno) => {
    const { sent, session } = setup({ refuse: failing(errno), open: false })
    const opened = session()
    expect(await failureOf(process(opened))).toBe(explained)
    expect(sent).toEqual([beginning, ending, rollingBack])
    expect(opened.broken()).toBeUndefined()
  })

  it('because the server is read-only, nothing was committed, and the connection is not reused', async () => {
    const { sent, session } = setup({ refuse: failing(1836) })
    const opened = session()
    expect(await failureOf(process(opened))).toBe(explained)
    expect(sent).toEqual([beginning, ending])
    expect(opened.broken()).toMatchObject({ errno: 1836 })
  })

  it('without a response from the server, the outcome is unknown', async () => {
    const { sent, session } = setup({
      refuse: (sql) => {
        if (sql === ending) throw Object.assign(new Error('lost'), { fatal: true })
      },
    })
    const opened = session()
    expect(await failureOf(process(opened))).toBeInstanceOf(CommitUnknownError)
    expect(sent).toEqual([beginning, ending])
    expect(opened.broken()).toBeDefined()
  })

  it('and the server does not respond to the query either, the outcome is unknown', async () => {
    const { session } = setup({
      refuse: (sql) => {
        if (sql === ending) throw errorOf(4025)
        if (sql === 'DO 0') throw Object.assign(new Error('lost'), { fatal: true })
      },
    })
    expect(await failureOf(process(session()))).toBeInstanceOf(CommitUnknownError)
  })
})
