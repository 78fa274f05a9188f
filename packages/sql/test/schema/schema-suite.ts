import { compose, jsonMarshaler, marshal, silentLogger } from '@ackord/core'
import { VirtualRuntime } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import {
  cleanIdempotency,
  cleanProcesses,
  createSchema,
  type Database,
  outboxMiddleware,
  printSchema,
  SchemaError,
  sqlIdempotency,
  sqlOutbox,
  sqlProcesses,
  type TableOptions,
  transactional,
  transactionMiddleware,
  validateSchema,
} from '../../src/index.ts'
import { portOf } from '../../src/transaction/database.ts'
import { event, failureOf, handle } from '../support/world.ts'

interface SchemaWorld<Handle> extends AsyncDisposable {
  readonly database: Database<Handle>
  /** Runs a statement on a connection of the test itself. */
  query(sql: string): Rows | Promise<Rows>
}

type Rows = readonly Readonly<Record<string, unknown>>[]

export interface SchemaSuiteOptions<Handle> {
  readonly name: string
  /** The current version of the tables. */
  readonly version: number
  readonly open: (options?: { readonly empty?: boolean }) => Promise<SchemaWorld<Handle>>
  /** Names with all characters that need escaping. */
  readonly quotedNames: TableOptions
  /** Names that the database would truncate or reject. */
  readonly invalidNames: readonly string[]
  /** An SQL expression for the current time, in the format of the columns. */
  readonly now: string
  /** The expected error of a violated CHECK constraint. */
  readonly checkViolation: object
}

const quiet = { logger: silentLogger }

/** Tests createSchema(), validateSchema() and printSchema() on a database. */
export function testSchema<Handle>(options: SchemaSuiteOptions<Handle>): void {
  const { name, version, open, quotedNames, invalidNames, now, checkViolation } = options

  describe(`the schema on ${name}`, () => {
    it('is created once, however often createSchema() is called', async () => {
      await using world = await open({ empty: true })
      expect(await failureOf(validateSchema(world.database))).toMatchObject({
        problem: 'missing',
        message: expect.stringMatching(/createSchema/),
      })
      await createSchema(world.database)
      const changed = await world.query('SELECT changed_at FROM ackord_meta')
      await createSchema(world.database)
      await validateSchema(world.database)
      expect(await world.query('SELECT changed_at FROM ackord_meta')).toEqual(changed)
      expect(await world.query("SELECT version, oldest_reader FROM ackord_meta WHERE name = 'schema'")).toEqual([
        { version, oldest_reader: 1 },
      ])
    })

    it('is rejected if it is older or too new, and accepted if it is newer and still supports this code', async () => {
      await using world = await open()
      const { database } = world
      const setVersion = (to: number, oldestReader: number) =>
        world.query(`UPDATE ackord_meta SET version = ${to}, oldest_reader = ${oldestReader} WHERE name = 'schema'`)
      await setVersion(0, 0)
      expect(await failureOf(validateSchema(database))).toMatchObject({ problem: 'older', message: expect.stringMatching(/version 0/) })
      await setVersion(version + 2, 1)
      await validateSchema(database)
      await createSchema(database)
      await setVersion(version + 2, version + 1)
      for (const call of [validateSchema, createSchema]) {
        const error = await failureOf(call(database))
        expect(error).toBeInstanceOf(SchemaError)
        expect(error).toMatchObject({ problem: 'newer', message: expect.stringMatching(/Update @ackord\/sql/) })
      }
      expect(await world.query("SELECT version FROM ackord_meta WHERE name = 'schema'")).toEqual([{ version: version + 2 }])
      // The failed call has released its lock.
      await setVersion(version, 1)
      await createSchema(database)
      await world.query('DELETE FROM ackord_meta')
      expect(await failureOf(validateSchema(database))).toMatchObject({ problem: 'missing' })
    })

    it('accepts names of any kind, quoted', async () => {
      await using world = await open({ empty: true })
      const { database } = world
      await createSchema(database, quotedNames)
      await validateSchema(database, quotedNames)
      const middleware = transactional(database, {
        inbox: { consumer: 'c', ...quotedNames },
        outbox: { destination: 'events', ...quotedNames },
        transaction: quiet,
      })
      await handle(middleware, async () => [event('e1')])
      await handle(middleware, async () => [event('e2')])
      const store = sqlOutbox(database, { ...quotedNames, ...quiet })
      const [record, ...more] = await store.claim({ limit: 10, lease: 1000 })
      expect([record?.message.id, more]).toEqual(['e1', []])
      expect((await store.list({}, { limit: 10 })).records).toHaveLength(1)
      expect(await world.query('SELECT id FROM orders')).toEqual([])
    })

    it('rejects names that the database would truncate or reject', async () => {
      await using world = await open({ empty: true })
      for (const invalid of invalidNames) {
        for (const tables of [{ names: { outbox: invalid } }, { schema: invalid }]) {
          expect(await failureOf(createSchema(world.database, tables))).toMatchObject({ code: 'ACKORD_INVALID_OPTION' })
        }
      }
    })

    it('enforces its state machine with checks', async () => {
      await using world = await open()
      const { database } = world
      const outbox = compose(transactionMiddleware(database, quiet), outboxMiddleware(database, { destination: 'd' }))
      await handle(outbox, async () => [event('e1')])
      for (const change of [
        "state = 'gone'",
        "state = 'parked'",
        `parked_at = ${now}`,
        "state = 'published'",
        `lease_until = ${now}`,
        'attempts = -1',
      ]) {
        const update = async () => await world.query(`UPDATE ackord_outbox SET ${change}`)
        expect(await failureOf(update())).toMatchObject(checkViolation)
      }
    })

    it('is migrated from version 1 to the current one with its records', async () => {
      await using world = await open({ empty: true })
      const { database } = world
      const { dialect, tables } = portOf(database)
      const { migrations, meta, setVersion } = dialect.store.schema
      const [first] = migrations
      await runScript(database, [meta(tables({})), first?.sql(tables({})), setVersion(tables({}), 1, 1)].join(';\n'))
      expect(await failureOf(validateSchema(database))).toMatchObject({ problem: 'older' })
      const store = sqlOutbox(database, quiet)
      const append = (...ids: string[]) =>
        database.write((transaction) =>
          store.append(
            transaction,
            ids.map((id) => ({ destination: 'd', message: marshal(event(id, { partitionkey: 'k' }), jsonMarshaler) })),
          ),
        )
      await append('e1', 'e2')
      await createSchema(database)
      await validateSchema(database)
      await append('e3')
      const claimed = await sqlOutbox(database, { order: 'perKey', ...quiet }).claim({ limit: 10, lease: 1000 })
      expect(claimed.map(({ message }) => message.id)).toEqual(['e1', 'e2', 'e3'])
    })

    it.each(['none', 'perKey'] as const)('may have version 3 while relays of this version start, with order %s', async (order) => {
      await using world = await open({ empty: true })
      const { database } = world
      const { dialect, tables } = portOf(database)
      const { migrations, meta, setVersion } = dialect.store.schema
      const old = migrations.slice(0, 3).map(({ sql }) => sql(tables({})))
      await runScript(database, [meta(tables({})), ...old, setVersion(tables({}), 3, 1)].join(';\n'))
      const runtime = new VirtualRuntime()
      const store = sqlOutbox(database, { order, runtime, ...quiet })
      const append = (...ids: string[]) =>
        database.write((transaction) =>
          store.append(
            transaction,
            ids.map((id) => ({ destination: 'd', message: marshal(event(id), jsonMarshaler) })),
          ),
        )
      const settle = async (cause: string) => {
        const claimed = await store.claim({ limit: 10, lease: 60_000 })
        const answers = await store.settle(
          claimed.map(({ id, token, message }) =>
            message.id?.startsWith('published') === true
              ? { id, token, result: 'published' }
              : { id, token, result: 'parked', error: `no route for ${message.id}`, cause },
          ),
        )
        expect(answers).toEqual(claimed.map(() => 'applied'))
      }
      await append('e1', 'e2', 'published-1')
      await settle('no route')

      const { records } = await store.list({}, { limit: 10 })
      expect(records.map(({ state, lastError, cause }) => [state, lastError, cause])).toEqual([
        ['parked', 'no route for e1', undefined],
        ['parked', 'no route for e2', undefined],
      ])
      const [first = '', second = ''] = records.map(({ id }) => id)
      expect(await store.get(first)).toMatchObject({ cause: undefined })
      expect(await store.history(first)).toEqual([])
      expect((await store.list({ cause: 'no route' }, { limit: 10 })).records).toEqual([])
      expect((await store.list({ error: 'ROUTE FOR E2', maxAge: 60_000 }, { limit: 10 })).records).toHaveLength(1)
      expect(await store.find({ messageId: 'e1' })).toHaveLength(1)
      expect(await store.groups('failure')).toEqual({ groups: [], complete: true })
      expect((await store.groups('destination', { destination: 'd' })).groups).toMatchObject([{ name: 'd', count: 2 }])
      expect((await store.stats({ limit: 10 })).destinations).toMatchObject([{ destination: 'd', parked: 2 }])

      const olderTables = { problem: 'older', message: expect.stringMatching(/createSchema\(database\).*ackord migrate/) }
      const { notes } = store
      for (const call of [
        () => notes.read('pause', { limit: 1 }),
        () => notes.put('relay', [], 1),
        () => notes.delete('pause', 'd'),
        () => store.pause('d'),
        () => store.pauses(),
        () => store.audit({ limit: 1 }),
      ]) {
        expect(await failureOf(call())).toMatchObject(olderTables)
      }
      // Actions that need no notes work, without an entry in the audit.
      expect(await store.rearm({ filter: { cause: 'no route' } })).toBe(0)
      expect(await store.rearm({ ids: [first, second] })).toBe(2)
      expect(await store.park([first], 'wrong')).toBe(1)
      expect(await store.discard([first], 'obsolete')).toBe(1)

      await createSchema(database)
      await runtime.advance(60_000)
      await append('published-2')
      await settle('no route')
      expect((await store.list({ cause: 'no route' }, { limit: 10 })).records.map(({ id }) => id)).toEqual([second])
      expect(await store.history(second)).toMatchObject([{ error: 'no route for e2' }])
      await store.pause('d')
      expect(await store.pauses()).toMatchObject([{ destination: 'd' }])
    })

    it('may have version 4 while services of this version start: only requests with an idempotency key are rejected', async () => {
      await using world = await open({ empty: true })
      const { database } = world
      const { dialect, tables } = portOf(database)
      const { migrations, meta, setVersion } = dialect.store.schema
      const old = migrations.slice(0, 4).map(({ sql }) => sql(tables({})))
      await runScript(database, [meta(tables({})), ...old, setVersion(tables({}), 4, 1)].join(';\n'))
      const middleware = transactional(database, { inbox: { consumer: 'c' }, outbox: { destination: 'd' }, transaction: quiet })
      await handle(middleware, async () => [event('e1')])
      const store = sqlOutbox(database, quiet)
      await store.pause('d')
      expect(await store.claim({ limit: 10, lease: 1000 })).toHaveLength(1)
      expect(await cleanIdempotency(database)).toBe(0)

      const requests = sqlIdempotency(database)
      const key = { scope: 'POST /orders', key: 'k1' }
      const claim = () => requests.claim(key, { fingerprint: 'f1', lease: 1000 })
      const place = (token: string) =>
        requests.write(key, token, async () => ({ status: 204, headers: [], body: new Uint8Array() }), { retention: 1000 })
      const missing = { problem: 'missing', message: expect.stringMatching(/ackord_idempotency.*createSchema\(database\)/) }
      for (const call of [claim, () => place('token'), () => requests.release(key, 'token')]) {
        expect(await failureOf(call())).toMatchObject(missing)
      }

      await createSchema(database)
      const claimed = await claim()
      expect(claimed).toMatchObject({ state: 'claimed' })
      await place(claimed.state === 'claimed' ? claimed.token : '')
      expect(await claim()).toMatchObject({ state: 'answered' })
    })

    it('may lack the table of processes while services of this version start: only processes are rejected', async () => {
      await using world = await open({ empty: true })
      const { database } = world
      const { dialect, tables } = portOf(database)
      const { migrations, meta, setVersion } = dialect.store.schema
      const before = dialect.store.versionWithProcesses - 1
      const old = migrations.slice(0, before).map(({ sql }) => sql(tables({})))
      await runScript(database, [meta(tables({})), ...old, setVersion(tables({}), before, 1)].join(';\n'))
      const middleware = transactional(database, { inbox: { consumer: 'c' }, outbox: { destination: 'd' }, transaction: quiet })
      await handle(middleware, async () => [event('e1')])
      expect(await sqlOutbox(database, quiet).claim({ limit: 10, lease: 1000 })).toHaveLength(1)
      expect(await cleanProcesses(database)).toBe(0)

      const processes = sqlProcesses(database)
      const key = { process: 'p', id: 'i1' }
      const change = { version: 1, begins: true, state: '{}', stateVersion: 1, timeouts: {}, keep: undefined }
      const save = () => database.write((_, context) => processes.save(key, change, context))
      const load = () => database.write((_, context) => processes.load(key, context))
      const missing = { problem: 'missing', message: expect.stringMatching(/ackord_process.*createSchema\(database\)/) }
      for (const call of [load, save, () => processes.get(key), () => processes.list(), () => processes.end(key, { keep: 1 })]) {
        expect(await failureOf(call())).toMatchObject(missing)
      }

      await createSchema(database)
      await save()
      expect(await load()).toMatchObject({ phase: 'running', version: 1 })
    })

    it('is valid if the statements of printSchema() are run', async () => {
      await using world = await open({ empty: true })
      await runScript(world.database, printSchema(world.database))
      await validateSchema(world.database)
      await createSchema(world.database)
    })
  })
}

/** Runs a script, outside a transaction on databases where DDL would end the transaction. */
async function runScript<Handle>(database: Database<Handle>, sql: string): Promise<void> {
  const { driver } = portOf(database)
  if (driver.connection !== undefined) await driver.connection(({ script }) => script(sql))
  else await driver.transaction([], (session) => session.script(sql), AbortSignal.any([]))
}
