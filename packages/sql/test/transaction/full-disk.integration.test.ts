import { randomBytes } from 'node:crypto'
import { dirname, join } from 'node:path'
import { Router, silentLogger } from '@ackord/core'
import { recordingLogger, sourceOf, trackedMessage } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { foreignRoot } from '../../../../scripts/servers/foreign/root.mjs'
import { startPostgres } from '../../../../scripts/servers/index.mjs'
import { createSchema, type Database, inboxMiddleware, transactionMiddleware } from '../../src/index.ts'
import { fromPg } from '../../src/postgres/index.ts'
import { pg } from '../support/pg.ts'

const settings = { logger: silentLogger }

/** Delivers a message whose write does not fit on the disk until `makeRoom` is called after the second attempt. Resolves when the message is settled. */
async function deliver<Handle>(database: Database<Handle>, write: (transaction: Handle) => Promise<unknown>, makeRoom: () => unknown) {
  const logger = recordingLogger()
  const message = trackedMessage('m1')
  const errors: unknown[] = []
  await new Router({ source: '/orders', logger })
    .use(transactionMiddleware(database, settings), inboxMiddleware(database, { consumer: 'orders' }))
    .handle({
      type: 'order.place',
      async handle(_, context) {
        try {
          await write(database.executor(context))
        } catch (error) {
          errors.push(error)
          if (errors.length === 2) await makeRoom()
          throw error
        }
        return []
      },
    })
    .run(sourceOf(message))
  const codeOf = ({ err }: { err?: { code?: string } }) => err?.code
  const lines = logger.lines.map(({ level, fields }) => [level, codeOf(fields)])
  return { verdicts: message.verdicts, lines, errors: errors as { readonly code?: string }[] }
}

const paused = [
  ['warn', 'ACKORD_STORE_REFUSES_WRITES'],
  ['info', undefined],
]

/** Random data, which cannot be compressed. */
const large = randomBytes(1_500_000)

// Servers of other versions run in an unpacked root file system, where nothing can be mounted.
describe.skipIf(foreignRoot('postgres') !== '')('a disk that is full', { timeout: 60_000 }, () => {
  it('pauses the router on PostgreSQL until there is room', async () => {
    await using server = await startPostgres({ limited: '3m' })
    const pool = new pg.Pool({ connectionString: server.url, max: 4 })
    try {
      const database = fromPg(pool, settings)
      await createSchema(database)
      const { rows } = await pool.query('SHOW data_directory')
      await pool.query(`CREATE TABLESPACE small LOCATION '${join(dirname(rows[0].data_directory), 'limited')}'`)
      for (const table of ['filler', 'orders']) await pool.query(`CREATE TABLE ${table} (id text PRIMARY KEY, note bytea) TABLESPACE small`)
      await pool.query("INSERT INTO filler VALUES ('1', $1)", [large])
      const { verdicts, lines, errors } = await deliver(
        database,
        (transaction) => transaction.query("INSERT INTO orders VALUES ('1', $1)", [large]),
        () => pool.query('DROP TABLE filler'),
      )
      expect(errors.map(({ code }) => code)).toEqual(['53100', '53100'])
      expect([verdicts, lines]).toEqual([['ack'], paused])
      expect((await pool.query('SELECT id, octet_length(note) AS bytes FROM orders')).rows).toEqual([{ id: '1', bytes: large.length }])
    } finally {
      await pool.end()
    }
  })
})
