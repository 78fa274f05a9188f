import { startFaultProxy } from '@ackord/testkit'
import { beforeAll, describe, expect, it } from 'vitest'
import { type Ackord, ackord, start } from '../support/ackord.ts'
import { bundleMain } from '../support/bundle-main.ts'
import { parsePrometheusText } from '../support/prometheus-text.ts'
import { openTestStore, openTestTopic, postgresUrl, rabbitmqUrl, redisUrl, type TestStore } from '../support/services.ts'
import { until } from '../support/until.ts'

beforeAll(bundleMain)

function urlOf({ args }: TestStore): string {
  return args[1] ?? ''
}

function linesOf(relay: Ackord): readonly Record<string, unknown>[] {
  return relay.stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>)
}

function logOf(relay: Ackord, text: string): Record<string, unknown> | undefined {
  return linesOf(relay).find((line) => String(line['text']).startsWith(text))
}

async function openPair(second?: string) {
  const first = await openTestStore(postgresUrl)
  const prefix = first.args[3]
  return { first, second: await openTestStore(second, second?.startsWith('redis') ? {} : { prefix }), prefix: prefix ?? '' }
}

describe('a relay with several stores', () => {
  it('publishes from PostgreSQL, SQLite and Redis in one process, and reports on each', async () => {
    await using topic = await openTestTopic(rabbitmqUrl)
    const { first: orders, second: billing, prefix } = await openPair()
    await using _orders = orders
    await using _billing = billing
    await using cart = await openTestStore(redisUrl)
    const stores = { orders, billing, cart }
    for (const [name, store] of Object.entries(stores)) await store.fill(name, 60)
    const relay = start([
      ...['relay', '--json', '--to', rabbitmqUrl, '--port', '0', '--prefix', prefix, '--tag', cart.args[3] ?? ''],
      ...Object.entries(stores).flatMap(([name, store]) => ['--from', `${name}=${urlOf(store)}`, '--map', `${name}=${topic.topic}`]),
    ])
    expect(new Set(await topic.read(180)).size).toBe(180)
    const running = logOf(relay, 'The relay is running.')
    expect(running?.['from']).toMatch(/^orders=postgres:.*, billing=sqlite:.*, cart=redis:/)
    const url = String(running?.['health'])
    const healthOf = async () => (await (await fetch(`${url}/health`)).json()) as object
    const each = { state: 'running', store: 'up', published: 60 }
    await until(async () => (await (await fetch(`${url}/health`)).text()).split('"published":60').length === 4)
    expect(await healthOf()).toMatchObject({ state: 'running', stores: { orders: each, billing: each, cart: each } })
    const families = parsePrometheusText(await (await fetch(`${url}/metrics`)).text())
    const { samples: published = [] } = families.get('ackord_outbox_published_total') ?? {}
    expect(
      published
        .filter(({ value }) => value > 0)
        .map(({ labels, value }) => [labels['store'], value])
        .sort(),
    ).toEqual([
      ['billing', 60],
      ['cart', 60],
      ['orders', 60],
    ])
    // All series of the stores have the label; the stream outbox has metrics of its own.
    for (const { name, samples } of families.values()) {
      if (!name.startsWith('ackord_outbox_')) continue
      expect(new Set(samples.map(({ labels }) => labels['store'])), name).toEqual(new Set(['billing', 'cart', 'orders']))
    }
    relay.child.kill('SIGTERM')
    expect(await relay.ended).toMatchObject({ code: 0, stderr: '' })
    expect(logOf(relay, 'The relay has stopped.')).toMatchObject({ published: 180, failed: 0 })
    for (const store of Object.values(stores)) expect((await store.count('ready')) + (await store.count('leased'))).toBe(0)
  })

  it.each([
    ['PostgreSQL', undefined],
    ['Redis', redisUrl],
  ])('starts while %s is down, and serves it once it answers', async (_, secondUrl) => {
    await using topic = await openTestTopic(rabbitmqUrl)
    const { first, second, prefix } = await openPair(secondUrl)
    await using _first = first
    await using _second = second
    // The store that is down is the one behind the proxy.
    const [down, up] = secondUrl === undefined ? [first, second] : [second, first]
    await using proxy = await startFaultProxy(urlOf(down))
    proxy.refuse(true)
    await down.fill('down', 5)
    await up.fill('up', 5)
    const relay = start([
      ...['relay', '--json', '--to', rabbitmqUrl, '--prefix', prefix, '--map', `down=${topic.topic},up=${topic.topic}`],
      ...['--from', `down=${proxy.url}`, '--from', `up=${urlOf(up)}`, ...(secondUrl === undefined ? [] : ['--tag', down.args[3] ?? ''])],
    ])
    const ids = await topic.read(5)
    expect(ids.every((id) => id.startsWith('up-'))).toBe(true)
    expect(logOf(relay, 'A store cannot be reached.')).toMatchObject({ store: 'down', level: 'error' })
    proxy.refuse(false)
    expect((await topic.read(5)).every((id) => id.startsWith('down-'))).toBe(true)
    relay.child.kill('SIGTERM')
    expect(await relay.ended).toMatchObject({ code: 0, stderr: '' })
    expect(linesOf(relay).filter(({ store, level }) => store === 'up' && level !== 'info')).toEqual([])
  })
})

describe('the options of a relay with several stores', () => {
  const broker = ['--to', rabbitmqUrl]

  it.each([
    [['--from', 'a=sqlite:x.db', '--from', 'a=sqlite:y.db'], 2, "--from has two stores with the name 'a'."],
    [
      ['--from', 'a=postgres://127.0.0.1:1/a', '--from', 'b=postgres://127.0.0.1:1/b'],
      3,
      'Cannot use postgres://127.0.0.1:1/a: connection refused',
    ],
    [['--from', 'sqlite:no-such-file.db', '--from', postgresUrl], 3, 'no-such-file.db does not exist.'],
    [['--from', 'sqlite:x.db', '--from', 'sqlite:y.db', '--tag', 'a'], 2, '--stream and --tag are for Redis'],
  ])('%j', async (args, code, text) => {
    const ended = await ackord(['relay', ...broker, ...args, '--prefix', `none_${process.pid}_`])
    expect(ended.stderr).toContain(text)
    expect(ended.code).toBe(code)
  })

  it('has no --total-concurrency for a single store', async () => {
    await using world = await openTestStore(postgresUrl)
    const ended = await ackord(['relay', ...broker, '--from', ...world.args.slice(1), '--total-concurrency', '4'])
    expect(ended).toMatchObject({ code: 2, stderr: expect.stringContaining('--total-concurrency is for several stores.') })
  })
})
