import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { startFaultProxy } from '@ackord/testkit'
import { beforeAll, describe, expect, it } from 'vitest'
import { startRedis } from '../../../../scripts/servers/index.mjs'
import { ackord, emptyDirectory, start } from '../support/ackord.ts'
import { bundleMain } from '../support/bundle-main.ts'
import { openTestStore, openTestTopic, postgresUrl, rabbitmqUrl, redisUrl } from '../support/services.ts'
import { startTripwire } from '../support/tripwire.ts'
import { until } from '../support/until.ts'

beforeAll(bundleMain)

/** Makes the process fail outside of any awaited call at SIGUSR2, with a password in the message. */
function failing(how: 'throw' | 'Promise.reject'): readonly string[] {
  const problem = "new Error('lost amqp://user:pa55-w0rd@host')"
  const failure = how === 'throw' ? `throw ${problem}` : `Promise.reject(${problem})`
  return ['--import', `data:text/javascript,process.on('SIGUSR2', () => { ${failure} })`]
}

const told = 'failed unexpectedly: lost amqp://user:***@host'

describe('Ctrl-C at any moment', () => {
  /** Each command with its cleanup in the store when it is stopped, and its exit code. */
  const commands: readonly (readonly [
    readonly string[],
    { readonly code: number; readonly cleansUp?: boolean; readonly at: readonly number[] },
  ])[] = [
    [['status'], { code: 130, at: [1, 3] }],
    [['list'], { code: 130, at: [1, 3] }],
    [['status', '--watch', '100ms'], { code: 0, at: [1, 3, 8] }],
    [['show', '1'], { code: 130, at: [1, 3] }],
    [['rearm', '--all'], { code: 130, at: [1, 3] }],
    [['discard', '--all', '--yes', '--reason', 'test'], { code: 130, at: [1, 3] }],
    [['doctor'], { code: 130, at: [1, 3, 6] }],
    [['migrate', 'up'], { code: 130, at: [1, 3, 5] }],
    [['migrate', 'validate'], { code: 130, at: [1, 3] }],
    [['cleanup'], { code: 130, cleansUp: true, at: [1, 2, 3] }],
    [['bench', '--records', '3000'], { code: 130, cleansUp: true, at: [1, 4, 60] }],
    [['demo', '--orders', '3000'], { code: 130, cleansUp: true, at: [1, 4, 60, 300] }],
    [['relay', '--to', redisUrl], { code: 0, cleansUp: true, at: [1, 2, 4, 10] }],
  ]

  it.concurrent.each(commands)('ends %j, and leaves nothing half done', async (command, { code: expected, cleansUp = false, at }) => {
    await using world = await openTestStore(postgresUrl)
    await world.fill('orders', 3)
    await world.park()
    if (world.store.kind === 'redis') throw new Error('Expected PostgreSQL.')
    const makesItsOwn = command[0] === 'demo' || command[0] === 'bench'
    const schema = `cli_test_${randomUUID().slice(0, 8)}`
    await world.store.define(`CREATE SCHEMA ${schema}`)
    for (const count of at) {
      await using wire = await startTripwire(`${postgresUrl}?options=-c%20search_path%3D${makesItsOwn ? schema : 'public'}`, count)
      const running = start([
        ...command,
        command[0] === 'relay' ? '--from' : '--store',
        wire.url,
        ...(makesItsOwn ? [] : world.args.slice(2)),
      ])
      const first = await Promise.race([wire.reached.then(() => 'reached'), running.ended.then(({ stderr }) => stderr)])
      expect(first).toBe('reached')
      running.child.kill('SIGINT')
      // Commands without cleanup end although the server never answers.
      if (cleansUp) wire.release()
      const { code, stderr } = await running.ended
      expect({ count, code, stderr }).toEqual({ count, code: expected, stderr: expected === 0 ? '' : 'ackord: Interrupted.\n' })
    }
    // Dropping the schema fails while it contains anything.
    await world.store.define(`DROP SCHEMA ${schema}`)
    // The interrupted command can be run again.
    expect((await ackord(['migrate', 'up', ...world.args])).code).toBe(0)
    expect((await ackord(['migrate', 'validate', ...world.args])).code).toBe(0)
    const { last } = await ackord(['status', '--json', ...world.args])
    expect(last).toMatchObject({ totals: { parked: 3, ready: 0, leased: 0 } })
  })

  it('ends a command whose configuration file never finishes loading', async () => {
    const cwd = emptyDirectory()
    writeFileSync(
      join(cwd, 'ackord.config.mjs'),
      "console.log('reading')\nawait new Promise((resolve) => setTimeout(resolve, 2 ** 30))\nexport default {}",
    )
    const running = start(['status'], { cwd })
    await running.said('reading')
    running.child.kill('SIGINT')
    expect(await running.ended).toMatchObject({ code: 130, stderr: 'ackord: Interrupted.\n' })
  })
})

describe.each(['throw', 'Promise.reject'] as const)('an unhandled failure, by %s,', (how) => {
  const nodeOptions = failing(how)

  it('stops a relay in order: records in flight are finished, none stays leased, and the exit code is a failure', async () => {
    await using world = await openTestStore()
    await using topic = await openTestTopic(rabbitmqUrl)
    await using proxy = await startFaultProxy(rabbitmqUrl)
    const relay = start(['relay', '--from', ...world.args.slice(1), '--to', proxy.url, '--json', '--port', '0'], { nodeOptions })
    await relay.said('The relay is running.')
    const { health } = JSON.parse(relay.stdout.split('\n')[0] ?? '') as { readonly health: string }
    proxy.hold()
    await world.fill(topic.topic, 10)
    await until(async () => (await world.count('leased')) === 10)
    relay.child.kill('SIGUSR2')
    await until(async () => ((await (await fetch(`${health}/health`)).json()) as { readonly state: string }).state === 'stopping')
    proxy.release()
    const { code, stderr } = await relay.ended
    expect(JSON.parse(stderr)).toEqual({ error: told, exit_code: 1 })
    expect(code).toBe(1)
    expect(relay.stdout).toContain('The relay has stopped.')
    expect([await world.count('ready'), await world.count('leased'), await world.count('parked')]).toEqual([0, 0, 0])
    expect(new Set(await topic.read(10)).size).toBe(10)
  })

  it('is reported, with a failing exit code, also while a relay is already stopping', async () => {
    await using world = await openTestStore()
    await using topic = await openTestTopic(rabbitmqUrl)
    await using proxy = await startFaultProxy(rabbitmqUrl)
    const relay = start(['relay', '--from', ...world.args.slice(1), '--to', proxy.url], { nodeOptions })
    await relay.said('The relay is running.')
    proxy.hold()
    await world.fill(topic.topic, 5)
    await until(async () => (await world.count('leased')) === 5)
    relay.child.kill('SIGTERM')
    await relay.said('The relay is stopping')
    relay.child.kill('SIGUSR2')
    await relay.said(told)
    proxy.release()
    expect(await relay.ended).toMatchObject({ code: 1, stderr: `ackord: ${told}\n` })
    expect([await world.count('ready'), await world.count('leased')]).toEqual([0, 0])
  })

  it('ends a command that has nothing to stop', async () => {
    // Accepts connections, and never answers.
    const mute = createServer().listen(0, '127.0.0.1')
    await once(mute, 'listening')
    const connected = once(mute, 'connection')
    const running = start(['status', '--store', `redis://127.0.0.1:${(mute.address() as AddressInfo).port}`], { nodeOptions })
    const [socket] = (await connected) as [Socket]
    running.child.kill('SIGUSR2')
    expect(await running.ended).toMatchObject({ code: 1, stdout: '', stderr: `ackord: ${told}\n` })
    socket.destroy()
    mute.close()
  })

  it('makes the demo remove its data', async () => {
    // A dedicated server: all data left there is this demo's.
    await using server = await startRedis()
    const demo = start(['demo', '--orders', '3000', '--store', server.url], { nodeOptions })
    await demo.said('orders arrive')
    demo.child.kill('SIGUSR2')
    expect(await demo.ended).toMatchObject({ code: 1, stderr: `ackord: ${told}\n` })
    await using redis = await openTestStore(server.url)
    if (redis.store.kind !== 'redis') throw new Error('Expected Redis.')
    expect(await redis.store.send('KEYS', '*')).toEqual([])
  })
})

describe('a second signal', () => {
  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
    ['SIGHUP', 129],
  ] as const)('%s ends a relay immediately', async (signal, expected) => {
    await using world = await openTestStore()
    await using topic = await openTestTopic(rabbitmqUrl)
    await using proxy = await startFaultProxy(rabbitmqUrl)
    const relay = start(['relay', '--from', ...world.args.slice(1), '--to', proxy.url])
    await relay.said('The relay is running.')
    proxy.hold()
    await world.fill(topic.topic, 5)
    await until(async () => (await world.count('leased')) === 5)
    relay.child.kill('SIGTERM')
    await relay.said('The relay is stopping')
    relay.child.kill(signal)
    expect((await relay.ended).code).toBe(expected)
    expect(await world.count('leased')).toBe(5)
  })
})
