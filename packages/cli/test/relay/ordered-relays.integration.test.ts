import { Message } from '@ackord/core'
import { beforeAll, expect, it } from 'vitest'
import { type Ackord, start } from '../support/ackord.ts'
import { bundleMain } from '../support/bundle-main.ts'
import { openTestStore, openTestTopic, postgresUrl, rabbitmqUrl } from '../support/services.ts'
import { until } from '../support/until.ts'

beforeAll(bundleMain)

const keys = 100
const perWrite = 400

async function publishedBy(relay: Ackord): Promise<number> {
  await relay.said('The relay is running.')
  const [, url] = /"health":"([^"]+)"/.exec(relay.stdout) ?? []
  const { published } = (await (await fetch(`${url}/health`)).json()) as { readonly published: number }
  return published
}

// `make proof` has 4 and 16 relays with the default lease, and measures how long it takes.
it('four relays with --order perKey have a quarter of the partitions each, and take over those of one that is killed', async () => {
  await using world = await openTestStore(postgresUrl)
  await using topic = await openTestTopic(rabbitmqUrl)
  const { store } = world
  if (store.kind === 'redis') throw new Error('It is PostgreSQL.')
  let written = 0
  const write = async () => {
    const records = Array.from({ length: perWrite }, () => {
      const attributes = { id: String(written), type: 'a', source: '/test', specversion: '1.0', partitionkey: `key-${written % keys}` }
      written += 1
      return { destination: topic.topic, message: new Message(new Uint8Array(8), attributes) }
    })
    await store.append(records)
  }
  /** Whether all 256 partitions belong to this many relays, and none of them has more than its share. */
  const areShared = async (count: number) => {
    const rows = await store.query(`SELECT count(*)::int AS n FROM ${store.table('partitions')} WHERE owner IS NOT NULL GROUP BY owner`)
    const owned = rows.map(({ n }) => Number(n))
    const all = owned.reduce((sum, share) => sum + share, 0) === 256
    return all && owned.length === count && Math.max(...owned) === Math.ceil(256 / count)
  }
  /** Writes until each of the relays has published something more. */
  const untilAllPublish = async (relays: readonly Ackord[]) => {
    const before = await Promise.all(relays.map(publishedBy))
    await until(async () => {
      await write()
      const after = await Promise.all(relays.map(publishedBy))
      return after.every((count, index) => count > (before[index] ?? 0))
    })
  }
  const relays = [1, 2, 3, 4].map(() =>
    start([
      ...['relay', '--from', ...world.args.slice(1), '--to', rabbitmqUrl, '--json', '--order', 'perKey'],
      ...['--lease', '4s', '--publish-timeout', '3s', '--poll-interval', '50ms', '--port', '0'],
    ]),
  )
  const [killed, ...others] = relays
  await until(() => areShared(4))
  await untilAllPublish(relays)
  killed?.child.kill('SIGKILL')
  await killed?.ended.catch(() => {})
  await until(() => areShared(3))
  await untilAllPublish(others)

  // In the order of the queue. Records that the killed relay had sent and not settled come twice; the first occurrence counts.
  const seen = [...(await topic.readMore([], written))].map(Number)
  expect(seen).toHaveLength(written)
  for (let key = 0; key < keys; key += 1) {
    const ofKey = seen.filter((id) => id % keys === key)
    expect(ofKey).toEqual(ofKey.toSorted((one, other) => one - other))
  }
  for (const { child } of others) child.kill('SIGTERM')
  expect((await Promise.all(others.map(({ ended }) => ended))).map(({ code }) => code)).toEqual([0, 0, 0])
})
