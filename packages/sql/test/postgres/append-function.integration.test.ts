import { silentLogger } from '@ackord/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { sqlOutbox } from '../../src/index.ts'
import { partitionOf } from '../../src/records/outbox-row.ts'
import { failureOf, worldKinds } from '../support/world.ts'

describe.each(worldKinds)('ackord_append() on $name', ({ open }) => {
  it('stores an event that the relay reads like the library’s own', async () => {
    await using world = await open()
    const [row] = await world.query(
      `SELECT ${world.schema}.ackord_append(destination => 'events', type => 'order.placed', source => '/legacy', data => '{"n":1}',
ordering_key => 'customer-7', attributes => '{"correlationid": "c1", "count": 3, "urgent": true}', id => 'e1') AS id`,
    )
    expect(row).toEqual({ id: 'e1' })
    const [claimed] = await sqlOutbox(world.database, { logger: silentLogger }).claim({ limit: 1, lease: 1000 })
    expect(claimed).toMatchObject({ destination: 'events', attempts: 1 })
    expect(new TextDecoder().decode(claimed?.message.data)).toBe('{"n":1}')
    expect(claimed?.message.attributes).toEqual({
      id: 'e1',
      type: 'order.placed',
      source: '/legacy',
      specversion: '1.0',
      datacontenttype: 'application/json',
      partitionkey: 'customer-7',
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/),
      correlationid: 'c1',
      count: 3,
      urgent: true,
    })
  })

  it('assigns ids, delays events, and is undone with its transaction', async () => {
    await using world = await open()
    const call = `SELECT ${world.schema}.ackord_append('events', 'order.placed', '/legacy', '')`
    await failureOf(
      world.database.write(async (transaction) => {
        await transaction.query(call)
        throw new Error('no')
      }),
    )
    await world.query(call)
    await world.query(call)
    await world.query(`SELECT ${world.schema}.ackord_append('events', 'order.placed', '/legacy', '', delay => '1 hour')`)
    expect(await world.query('SELECT state, count(DISTINCT id)::int AS n FROM ackord_outbox GROUP BY 1 ORDER BY 1')).toEqual([
      { state: 'ready', n: 2 },
      { state: 'waiting', n: 1 },
    ])
  })

  it.each([
    ['a missing id', `id => ''`, 'id is missing'],
    ['a missing destination', `destination => NULL`, 'destination is missing'],
    ['an id of 10 kB', `id => repeat('x', 10000)`, 'id is longer'],
    ['a nested attribute', `attributes => '{"nested": {}}'`, 'attribute nested'],
    ['an attribute that is null', `attributes => '{"none": null}'`, 'attribute none'],
  ])('rejects %s', async (_, argument, text) => {
    await using world = await open()
    const named = argument.split(' ')[0]
    const others = [`destination => 'd'`, `type => 't'`, `source => '/s'`, `data => ''`].filter((one) => one.split(' ')[0] !== named)
    const failed = world.query(`SELECT ${world.schema}.ackord_append(${[...others, argument].join(', ')})`)
    expect(await failureOf(failed)).toMatchObject({ code: '22023', message: expect.stringContaining(text) })
    expect(await world.outbox()).toBe(0)
  })

  it('uses the same partition for every key as the library', async () => {
    await using world = await open()
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 }), { minLength: 1, maxLength: 20 }),
        async (given) => {
          const keys = given.map((key) => key.replaceAll('\0', '0'))
          await world.query('DELETE FROM ackord_outbox')
          await world.query(
            `SELECT ${world.schema}.ackord_append('d', 't', '/s', '', ordering_key => key) FROM unnest($1::text[]) AS key`,
            [keys],
          )
          for (const { ordering_key: key, partition } of await world.query('SELECT ordering_key, partition FROM ackord_outbox')) {
            expect(partition).toBe(partitionOf(String(key)))
          }
        },
      ),
      { numRuns: 10, seed: 20_261_115 },
    )
  })
})
