import { silentLogger } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { fromSqlite } from '../../../src/sqlite/index.ts'
import { failureOf } from '../../support/world.ts'
import { type SqliteWorld, sqliteKinds, type TestHandle } from '../support/sqlite-world.ts'

const insertSql = 'INSERT INTO orders (id) VALUES (?)'
const selectSql = 'SELECT id FROM orders ORDER BY id'

/** Opens a database on a client that records the statements it prepares. */
function openCounting(world: SqliteWorld): { readonly write: Write; readonly texts: string[] } {
  const texts: string[] = []
  const client = new Proxy(world.connect(), {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target)
      if (typeof value !== 'function') return value
      return (...given: unknown[]) => {
        if (name === 'prepare') texts.push(String(given[0]))
        return value.apply(target, given)
      }
    },
  })
  const database = fromSqlite(client, { logger: silentLogger })
  return { texts, write: (work) => database.write(async (transaction) => work(transaction)) }
}

type Write = (work: (transaction: TestHandle) => void) => Promise<void>

describe.each(sqliteKinds)('statements that are prepared again on $name', ({ open, name }) => {
  it('are reused from one transaction to the next', async () => {
    await using world = await open()
    const { write, texts } = openCounting(world)
    for (const id of ['1', '2', '3']) await write((transaction) => void transaction.prepare(insertSql).run(id))
    expect(texts.filter((sql) => sql === insertSql)).toHaveLength(1)
    expect(world.count('orders')).toBe(3)
  })

  it('are two if one transaction prepares the same text twice', async () => {
    await using world = await open()
    const { write, texts } = openCounting(world)
    await write((transaction) => {
      const [one, other] = [transaction.prepare(insertSql), transaction.prepare(insertSql)]
      one.run('1')
      other.run('2')
      one.run('3')
    })
    await write((transaction) => void transaction.prepare(insertSql).run('4'))
    expect(texts.filter((sql) => sql === insertSql)).toHaveLength(2)
    expect(world.count('orders')).toBe(4)
  })

  it('do not have the settings of another transaction', async () => {
    await using world = await open()
    const { write } = openCounting(world)
    await write((transaction) => void transaction.prepare(insertSql).run('1'))
    await write((transaction) => {
      const statement = transaction.prepare(selectSql) as ReturnType<TestHandle['prepare']> & {
        setReadBigInts?(on: boolean): void
        setReturnArrays?(on: boolean): void
        pluck?(on: boolean): void
      }
      if (name === 'node:sqlite') statement.setReturnArrays?.(true)
      else statement.pluck?.(true)
      expect(statement.all()).not.toEqual([{ id: '1' }])
    })
    await write((transaction) => expect(transaction.prepare(selectSql).all()).toEqual([{ id: '1' }]))
  })

  it('are prepared again after a failure, and work after one', async () => {
    await using world = await open()
    const { write, texts } = openCounting(world)
    await write((transaction) => void transaction.prepare(insertSql).run('1'))
    expect(String(await failureOf(write((transaction) => void transaction.prepare(insertSql).run('1'))))).toMatch(/UNIQUE/)
    await write((transaction) => void transaction.prepare(insertSql).run('2'))
    expect(texts.filter((sql) => sql === insertSql)).toHaveLength(2)
    expect(world.count('orders')).toBe(2)
  })

  it('see a table that was changed meanwhile', async () => {
    await using world = await open()
    const { write } = openCounting(world)
    const sql = 'SELECT * FROM orders'
    await write((transaction) => void transaction.prepare(insertSql).run('1'))
    await write((transaction) => expect(transaction.prepare(sql).all()).toEqual([expect.objectContaining({ id: '1' })]))
    await write((transaction) => void transaction.exec("ALTER TABLE orders ADD COLUMN remark TEXT DEFAULT 'new'"))
    await write((transaction) => expect(transaction.prepare(sql).all()).toEqual([expect.objectContaining({ remark: 'new' })]))
  })

  it('are dropped, the oldest first, if there are many', async () => {
    await using world = await open()
    const { write, texts } = openCounting(world)
    for (let number = 0; number <= 100; number += 1) {
      await write((transaction) => expect(transaction.prepare(`SELECT ${number} AS n`).all()).toEqual([{ n: number }]))
    }
    texts.length = 0
    await write((transaction) => {
      transaction.prepare('SELECT 0 AS n').all()
      transaction.prepare('SELECT 100 AS n').all()
    })
    expect(texts.filter((sql) => sql.startsWith('SELECT'))).toEqual(['SELECT 0 AS n'])
  })
})
