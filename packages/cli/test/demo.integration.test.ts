import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { startKafkaMock } from '../../../scripts/servers/index.mjs'
import { Ackord, ackord, build, type Ended, emptyDirectory, main, start } from './support/ackord.ts'
import { mariadbUrl, natsUrl, openTestStore, postgresUrl, rabbitmqUrl, redisUrl } from './support/services.ts'

beforeAll(build, 300_000)

const orders = 45

/** What is left of demos in the databases. Tests of this file run one after the other. */
async function leftovers(): Promise<readonly unknown[]> {
  await using postgres = await openTestStore(postgresUrl)
  await using mariadb = await openTestStore(mariadbUrl)
  await using redis = await openTestStore(redisUrl)
  if (postgres.store.kind === 'redis' || mariadb.store.kind === 'redis' || redis.store.kind !== 'redis') throw new Error('They are others.')
  const like = "LIKE 'ackord\\_demo\\_%'"
  return [
    ...(await postgres.store.query(
      `SELECT relname AS name FROM pg_class WHERE relname ${like} UNION ALL SELECT proname FROM pg_proc WHERE proname ${like}`,
    )),
    ...(await mariadb.store.query(`SELECT table_name AS name FROM information_schema.tables WHERE table_name ${like}`)),
    ...((await redis.store.send('KEYS', '*ackord-demo-*')) as string[]),
  ]
}

function expectGood({ code, last, stderr }: Ended): void {
  expect(stderr).toBe('')
  expect(last).toEqual({
    orders,
    applied: orders,
    events_published: orders,
    duplicates_skipped: expect.any(Number),
    lost: 0,
    applied_twice: 0,
  })
  // Those that were sent twice, and those that the killed service had not acked.
  expect(last['duplicates_skipped']).toBeGreaterThan(orders / 3)
  expect(code).toBe(0)
}

describe('the demo', () => {
  it('needs no server, and tells what happens', async () => {
    const ended = await ackord(['demo', '--orders', String(orders)])
    expectGood(ended)
    expect(ended.stdout).toContain('the service is killed in the middle')
    expect(ended.stdout).toContain('The broker goes down for events')
    expect(ended.stdout).toContain('0 lost, 0 applied twice.')
  })

  it.each([
    ['PostgreSQL and RabbitMQ', postgresUrl, rabbitmqUrl],
    ['MariaDB and NATS', mariadbUrl, natsUrl],
    ['SQLite and memory', 'sqlite:', 'memory:'],
    ['Redis and Redis Streams', redisUrl, redisUrl],
  ])('comes out well on %s, and leaves nothing there', async (_, store, broker) => {
    const temporary = emptyDirectory()
    const env = { TMPDIR: temporary }
    expectGood(await ackord(['demo', '--orders', String(orders), '--store', store, '--broker', broker], { env }))
    expect([...(await leftovers()), ...readdirSync(temporary)]).toEqual([])
  })

  it('comes out well on SQLite and what imitates Kafka', async () => {
    await using kafka = await startKafkaMock()
    expectGood(await ackord(['demo', '--orders', String(orders), '--store', 'sqlite:', '--broker', kafka.url]))
    expect((await ackord(['doctor', '--broker', kafka.url])).code).toBe(0)
  }, 120_000)

  it('removes a file of SQLite that it made, and nothing else of one that was there', async () => {
    const cwd = emptyDirectory()
    expectGood(await ackord(['demo', '--orders', String(orders), '--store', 'sqlite:new.db'], { cwd }))
    expect(readdirSync(cwd)).toEqual([])
    expect((await ackord(['migrate', 'up', '--store', 'sqlite:mine.db'], { cwd })).code).toBe(0)
    expectGood(await ackord(['demo', '--orders', String(orders), '--store', 'sqlite:mine.db'], { cwd }))
    expect(existsSync(join(cwd, 'mine.db'))).toBe(true)
    expect((await ackord(['status', '--store', 'sqlite:mine.db'], { cwd })).code).toBe(0)
  })

  it('is JSON from the first line to the last with --json', async () => {
    const ended = await ackord(['demo', '--orders', '9', '--json', '--store', 'sqlite:'])
    const lines = ended.stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>)
    expect(lines.slice(0, -1).every((line) => typeof line['step'] === 'string')).toBe(true)
    expect(lines.at(-1)).toMatchObject({ orders: 9, lost: 0 })
  })

  it('does not take its store from the environment or a file', async () => {
    const { code, stdout } = await ackord(['demo', '--orders', '3'], { env: { ACKORD_STORE: 'postgres://127.0.0.1:1/production' } })
    expect(stdout).toContain('Starting PostgreSQL in this process')
    expect(code).toBe(0)
  })
})

describe('a demo that is interrupted', () => {
  it.each([
    ['when it has just begun', 'orders come in'],
    ['while the service is killed', 'killed in the middle'],
    ['after the new one was started', 'A new one is started'],
  ])('%s removes what it made', async (_, moment) => {
    const demo = start(['demo', '--orders', '3000', '--store', postgresUrl, '--broker', redisUrl])
    await demo.said(moment)
    demo.child.kill('SIGINT')
    const { code, stderr } = await demo.ended
    expect(stderr).toBe('ackord: Interrupted.\n')
    expect(code).toBe(130)
    expect(await leftovers()).toEqual([])
  })

  it('by Ctrl-C on a terminal does so, too, and gives the terminal back', async () => {
    const log = join(emptyDirectory(), 'typescript')
    // Ctrl-C is for the whole terminal; the shell is to tell what became of the demo, whichever shell it is.
    const command = `trap : INT; stty cols 100 rows 30; ${process.execPath} ${main} demo --orders 3000 --store ${postgresUrl} --broker ${redisUrl}; echo "code=$?"; stty -a`
    // A terminal of its own: what is written to its stdin is typed there.
    const demo = new Ackord(['script', '-qec', command, log], { stdin: 'pipe' })
    await demo.said('orders come in')
    await demo.said('events out')
    demo.child.stdin?.write('\u0003')
    await demo.said('code=130')
    await demo.said('isig icanon')
    demo.child.stdin?.end()
    await demo.ended
    // The cursor was hidden, and is shown as often.
    expect(demo.stdout.split('\u001b[?25h').length).toBe(demo.stdout.split('\u001b[?25l').length)
    expect(await leftovers()).toEqual([])
  })
})
