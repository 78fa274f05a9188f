import { silentLogger } from '@ackord/core'
import type { Overview, RecordDetail, RecordPage, RecordSummary } from '@ackord/dashboard'
import { beforeAll, expect, it } from 'vitest'
import { ratesPerMinute } from '../../../dashboard/page/state/rates.ts'
import { openWorld } from '../../../dashboard/test/support/world.ts'
import { ackord } from '../support/ackord.ts'
import { bundleMain } from '../support/bundle-main.ts'
import { openTestStore } from '../support/services.ts'

beforeAll(bundleMain)

type Row = Readonly<Record<string, unknown>>

const instant = (at: number | undefined) => (at === undefined ? undefined : new Date(at).toISOString())

/** A record of the API in the form of the command. */
function asListed(record: RecordSummary): Row {
  return {
    id: record.id,
    state: record.state,
    destination: record.destination,
    message_id: record.messageId,
    type: record.type,
    key: record.orderingKey,
    attempts: record.attempts,
    created_at: instant(record.createdAt),
    available_at: instant(record.availableAt),
    leased_until: instant(record.leasedUntil),
    parked_at: instant(record.parkedAt),
    published_at: instant(record.publishedAt),
    last_error: record.lastError,
    cause: record.cause,
  }
}

function defined(row: Row): Row {
  return Object.fromEntries(Object.entries(row).filter(([, value]) => value !== undefined))
}

it('the API of the dashboard and `status`, `list`, `show` and `relays` say the same of a store', async () => {
  await using store = await openTestStore()
  await store.fill('orders', 3)
  await store.park('connect ECONNREFUSED 10.0.0.7:5672')
  await store.fill('orders', 2)
  await store.fill('mail', 1)
  const outbox = store.store.outbox({ logger: silentLogger })
  const relay = { host: 'web-1', pid: 7, partitions: 256, ownedPartitions: '0-255', uptime: 1, inFlight: 0, down: [] }
  await outbox.notes?.put('relay', [{ name: 'r1', value: JSON.stringify(relay) }], 30_000)
  const rate = { duration: 300_000, published: 500, failed: 25, parked: 1 }
  await outbox.notes?.put(
    'rate',
    ['orders', 'mail', 'orders'].map((destination, index) => ({ name: `rate-${index}`, value: JSON.stringify({ ...rate, destination }) })),
    300_000,
  )
  await using world = await openWorld({ stores: { shop: outbox } })
  const run = async (command: string, ...args: readonly string[]) => {
    const ended = await ackord([command, ...args, '--json', ...store.args])
    expect(ended.stderr).toBe('')
    return ended.last as Row
  }

  const status = await run('status')
  const [overview] = (await world.client.get<Overview>('overview')).body.stores
  const counts = (rows: readonly Row[]) =>
    rows
      .map(({ destination, ready, waiting, leased, parked, published }) => ({ destination, ready, waiting, leased, parked, published }))
      .sort((one, other) => (String(one.destination) < String(other.destination) ? -1 : 1))
  expect(counts(status['destinations'] as readonly Row[])).toEqual(counts((overview?.destinations ?? []) as never))
  expect(Math.abs(Number(status['oldest_age_ms']) - (overview?.oldestAge ?? Number.NaN))).toBeLessThan(60_000)

  // Rates are read in the round after the counts.
  await world.runtime.advance(2000)
  const [{ rates = [] } = {}] = (await world.client.get<Overview>('overview')).body.stores
  const { per_minute: perMinute, relays } = await run('relays')
  expect(relays).toMatchObject([{ host: 'web-1', pid: 7, owned_partitions: '0-255' }])
  const { from, destinations } = perMinute as { readonly from: string; readonly destinations: readonly Row[] }
  const onPage = (destination: string) => {
    const { at, published, failed, parked } = ratesPerMinute(
      rates.filter((each) => each.destination === destination),
      Date.now(),
    )
    const index = at.indexOf(Date.parse(from))
    return { destination, published: published[index], failed: failed[index], parked: parked[index] }
  }
  expect(destinations).toEqual([onPage('mail'), onPage('orders')])
  expect(destinations).toEqual([
    { destination: 'mail', published: 100, failed: 5, parked: 0.2 },
    { destination: 'orders', published: 200, failed: 10, parked: 0.4 },
  ])

  for (const [query, args] of [
    ['', []],
    ['?state=parked', ['--state', 'parked']],
    ['?destination=orders&state=ready', ['--destination', 'orders', '--state', 'ready']],
  ] as const) {
    const { records } = (await world.client.get<RecordPage>(`stores/shop/records${query}`)).body
    const listed = (await run('list', ...args))['records'] as readonly Row[]
    expect(records.length).toBeGreaterThan(0)
    expect(listed.map(({ source: _, bytes: __, ...row }) => row)).toEqual(records.map((record) => defined(asListed(record))))
  }

  const [parked] = (await world.client.get<RecordPage>('stores/shop/records?state=parked')).body.records
  const detail = (await world.client.get<RecordDetail>(`stores/shop/records/${parked?.id}`)).body
  const { source, ...shown } = await run('show', String(parked?.id), '--data')
  expect(source).toBe(detail.attributes['source'])
  expect(shown).toEqual({
    ...defined(asListed(detail)),
    bytes: detail.size,
    partition: detail.partition,
    attributes: detail.attributes,
    errors: detail.history.map(({ at, error }) => ({ at: instant(at), error })),
    data_base64: Buffer.from(detail.payload?.content ?? '').toString('base64'),
  })
})
