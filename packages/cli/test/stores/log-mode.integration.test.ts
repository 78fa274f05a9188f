import { beforeAll, describe, expect, it } from 'vitest'
import { ackord, start } from '../support/ackord.ts'
import { bundleMain } from '../support/bundle-main.ts'
import { type LogWriter, openLogWriter } from '../support/log-writer.ts'
import { openTestStore, openTestTopic, postgresUrl, rabbitmqUrl, redisUrl } from '../support/services.ts'

beforeAll(bundleMain)

interface Finding {
  readonly name: string
  readonly state: string
  readonly text: string
  readonly statements?: readonly string[]
}

async function openLog() {
  const world = await openTestStore(postgresUrl)
  const { store, args } = world
  if (store.kind === 'redis') throw new Error('Expected PostgreSQL.')
  const writer: LogWriter = openLogWriter(postgresUrl, args[3] ?? '')
  return {
    world,
    store,
    args,
    writer,
    async checkLog(...more: readonly string[]): Promise<Finding | undefined> {
      const { last } = await ackord(['doctor', '--json', ...args, ...more])
      return (last['checks'] as Finding[]).find(({ name }) => name === 'log')
    },
    async [Symbol.asyncDispose]() {
      await writer[Symbol.asyncDispose]()
      await world[Symbol.asyncDispose]()
    },
  }
}

async function idsIn(
  args: readonly string[],
  ...more: readonly string[]
): Promise<readonly { readonly id: string; readonly state: string }[]> {
  const { last, stderr } = await ackord(['list', '--json', ...args, ...more])
  expect(stderr).toBe('')
  return last['records'] as { id: string; state: string }[]
}

describe('operators of an outbox in log mode', () => {
  it('see and change the records of the log without an option, also before a relay has run', async () => {
    await using opened = await openLog()
    const { args, writer } = opened
    expect(await idsIn(args)).toEqual([])
    await writer.append('orders', 'e1', 'e2', 'e3')
    const [first, second, ...rest] = await idsIn(args)
    expect([first?.state, second?.state, rest.length]).toEqual(['ready', 'ready', 1])
    expect((await ackord(['status', '--json', ...args])).last).toMatchObject({ destinations: [{ destination: 'orders', ready: 3 }] })
    expect((await ackord(['show', first?.id ?? '', ...args])).stdout).toContain('e1')

    expect((await ackord(['park', first?.id ?? '', '--reason', 'wrong price', ...args])).code).toBe(0)
    expect(await idsIn(args, '--state', 'parked')).toMatchObject([{ id: first?.id }])
    expect((await ackord(['rearm', first?.id ?? '', ...args])).code).toBe(0)
    expect(await idsIn(args, '--state', 'ready')).toHaveLength(3)
    for (const command of [
      ['park', '--reason', 'test data'],
      ['discard', '--reason', 'test data', '--yes'],
    ]) {
      expect((await ackord([command[0] ?? '', second?.id ?? '', ...command.slice(1), ...args])).code).toBe(0)
    }
    expect((await idsIn(args)).map(({ id }) => id)).toEqual([first?.id, rest[0]?.id])
  })

  it('use tables of version 5, which have no log', async () => {
    await using opened = await openLog()
    const { world, store, args } = opened
    for (const table of ['log', 'cursors', 'taken', 'readers']) await store.define(`DROP TABLE ${store.table(table)}`)
    await world.fill('orders', 2)
    expect(await idsIn(args)).toHaveLength(2)
  })
})

describe('a relay', () => {
  it('publishes the log with --mode log, and warns in table mode once the log has been used', async () => {
    await using opened = await openLog()
    await using topic = await openTestTopic(rabbitmqUrl)
    const { args, writer } = opened
    const from = ['relay', '--from', ...args.slice(1), '--to', rabbitmqUrl, '--json']
    const runUntil = async (command: readonly string[], work: () => Promise<void>) => {
      const relay = start([...from, ...command])
      await relay.said('The relay is running.')
      await work()
      relay.child.kill('SIGTERM')
      expect(await relay.ended).toMatchObject({ code: 0, stderr: '' })
      return relay.stdout
    }
    const warning = 'The log of this outbox has been used'
    expect(await runUntil([], async () => {})).not.toContain(warning)
    const published = await runUntil(['--mode', 'log', '--on-exhausted', 'block'], async () => {
      await writer.append(topic.topic, 'e1', 'e2')
      expect(await topic.read(2)).toEqual(['e1', 'e2'])
    })
    expect(published).not.toContain(warning)
    expect(await idsIn(args)).toEqual([])
    expect(await runUntil(['--mode', 'table'], async () => {})).toContain(warning)
  })

  it.each([
    [
      'a store other than PostgreSQL',
      ['--from', redisUrl, '--mode', 'log'],
      '--mode log requires PostgreSQL.\n  Omit it for other stores.',
    ],
    [
      'several stores of which one is not PostgreSQL',
      ['--from', `a=${postgresUrl}`, '--from', 'b=mysql://127.0.0.1:1/test', '--mode', 'log'],
      '--mode log requires PostgreSQL.\n  Omit it for other stores.',
    ],
    [
      'no order',
      ['--from', postgresUrl, '--mode', 'log', '--order', 'none'],
      '--order none is not possible with --mode log, which always keeps the order of each key.\n  Omit --order.',
    ],
  ])('rejects --mode log with %s', async (_, args, expected) => {
    const { code, stderr } = await ackord(['relay', ...args, '--to', 'amqp://127.0.0.1:1'])
    expect([code, stderr]).toEqual([2, `ackord: ${expected}\n`])
  })
})

describe('ackord doctor checks the log', () => {
  it('once it has been used, or with --mode log', async () => {
    await using opened = await openLog()
    const { writer, checkLog } = opened
    expect(await checkLog()).toBeUndefined()
    expect(await checkLog('--mode', 'log')).toMatchObject({ state: 'ok', text: '0 of 4 parts of the log are in use.' })
    await writer.append('orders', 'e1')
    expect(await checkLog('--mode', 'table')).toBeUndefined()
    expect(await checkLog()).toMatchObject({ state: 'ok', text: '1 of 4 parts of the log are in use.' })
  })

  it('and warns if all of its parts are in use', async () => {
    await using opened = await openLog()
    const { store, writer, checkLog } = opened
    for (const part of [0, 1, 2, 3]) {
      await store.query(`UPDATE ${store.table('meta')} SET version = ${part} WHERE name = 'log'`)
      await writer.append('orders', `e${part}`)
    }
    expect(await checkLog()).toMatchObject({ state: 'warning', text: expect.stringContaining('All 4 parts') })
  })

  it('and warns if it was written on another server or in another database', async () => {
    await using opened = await openLog()
    const { store, writer, checkLog } = opened
    await writer.append('orders', 'e1')
    const note = async (value: string) => {
      await store.query(`DELETE FROM ${store.table('notes')} WHERE kind = 'log'`)
      await store.query(`INSERT INTO ${store.table('notes')} (kind, name, value, written_at) VALUES ('log', 'identity', $1, now())`, [
        value,
      ])
    }
    const [row] = await store.query(
      'SELECT (SELECT system_identifier::text FROM pg_control_system()) AS server, (SELECT oid::text FROM pg_database WHERE datname = current_database()) AS number',
    )
    const [server, database] = [String(row?.['server']), String(row?.['number'])]
    for (const ours of [`${server}/${database}`, `/${database}`]) {
      await note(ours)
      expect(await checkLog()).toMatchObject({ state: 'ok' })
    }
    for (const other of [`1/${database}`, `${server}/1`, '/1']) {
      await note(other)
      expect(await checkLog()).toMatchObject({ state: 'warning', text: expect.stringContaining('another server') })
    }
  })

  it('and finds a sequence whose numbers are cached, with the statement that fixes it', async () => {
    await using opened = await openLog()
    const { store, checkLog } = opened
    await store.define(`ALTER TABLE ${store.table('outbox')} ALTER COLUMN seq SET CACHE 20`)
    const found = await checkLog('--mode', 'log')
    expect(found).toMatchObject({ state: 'problem', text: expect.stringContaining('CACHE 20') })
    for (const statement of found?.statements ?? []) await store.define(statement)
    expect(await checkLog('--mode', 'log')).toMatchObject({ state: 'ok' })
  })
})
