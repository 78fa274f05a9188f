import { describe, expect, it } from 'vitest'
import { cancelSql, groupsSql, limitedStatsSql, listSql } from '../../src/sqlite/admin.ts'
import { nodeKind } from './support/sqlite-world.ts'

const table = '"ackord_outbox"'

interface Planned {
  readonly sql: string
  readonly parameters?: readonly unknown[] | undefined
}

async function openPlanner() {
  const world = await nodeKind.open()
  const planOf = ({ sql, parameters = [] }: Planned) =>
    world
      .query(`EXPLAIN QUERY PLAN ${sql}`, ...parameters)
      .map(({ detail }) => String(detail))
      .filter((line) => line.includes('ackord_outbox'))
  return { planOf, [Symbol.asyncDispose]: () => world[Symbol.asyncDispose]() }
}

describe('the operators use an index', () => {
  it('for a message id, and to cancel', async () => {
    await using planner = await openPlanner()
    expect(planner.planOf(listSql(table, { messageId: 'e1' }, true, { after: '0', limit: 10, payloads: true }))).toEqual([
      'SEARCH ackord_outbox USING INDEX ackord_outbox_messages (id=? AND rowid>?)',
    ])
    expect(planner.planOf(cancelSql(table, [{ destination: 'd', source: '/s', id: 'e1' }]))).toEqual([
      'SEARCH ackord_outbox USING INDEX ackord_outbox_messages (id=?)',
    ])
  })

  it.each([
    [{ type: 't' }, 'SEARCH ackord_outbox USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)'],
    [{ state: 'published', type: 't' }, 'SEARCH ackord_outbox USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)'],
    [{ state: 'parked', type: 't' }, 'SEARCH ackord_outbox USING INDEX ackord_outbox_parked (seq>? AND seq<?)'],
  ] as const)('for a search that ends at a record: %o', async (filter, plan) => {
    await using planner = await openPlanner()
    expect(planner.planOf(listSql(table, filter, true, { after: '0', upTo: '9', limit: 10, payloads: true }))).toEqual([plan])
  })

  it('for groups, in whose order they read a bounded number of records', async () => {
    await using planner = await openPlanner()
    const options = { failures: true, limit: 10_000 }
    expect(planner.planOf(groupsSql(table, 'failure', { cause: 'c' }, options))).toEqual([
      'SCAN ackord_outbox USING INDEX ackord_outbox_parked',
      'SCAN ackord_outbox USING INDEX ackord_outbox_waiting',
    ])
    expect(planner.planOf(groupsSql(table, 'failure', { destination: 'd' }, options))).toEqual([
      'SEARCH ackord_outbox USING INDEX ackord_outbox_parked_destinations (destination=?)',
      'SEARCH ackord_outbox USING INDEX ackord_outbox_waiting (destination=?)',
    ])
  })

  it.each([
    ['ready', 'ready'],
    ['waiting', 'waiting'],
    ['parked', 'parked_destinations'],
  ] as const)('to count the %s records of a destination up to a limit', async (state, index) => {
    await using planner = await openPlanner()
    const plan = planner.planOf({ sql: limitedStatsSql(table, state), parameters: [10] })
    expect(plan).toEqual([
      `SCAN ackord_outbox USING COVERING INDEX ackord_outbox_${index}`,
      `SEARCH o USING COVERING INDEX ackord_outbox_${index} (destination>?)`,
      `SEARCH ackord_outbox USING INDEX ackord_outbox_${index} (destination=?)`,
    ])
  })
})
