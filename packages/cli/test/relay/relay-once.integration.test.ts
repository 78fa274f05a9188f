import { beforeAll, describe, expect, it } from 'vitest'
import { exitCode } from '../../src/output/errors.ts'
import { ackord, start } from '../support/ackord.ts'
import { bundleMain } from '../support/bundle-main.ts'
import { openTestStore, openTestTopic, postgresUrl, rabbitmqUrl, redisUrl, type TestStore } from '../support/services.ts'

beforeAll(bundleMain)

function once(world: TestStore, url: string, ...args: readonly string[]) {
  return start(['relay', '--once', '--from', ...world.args.slice(1), '--to', url, '--json', ...args]).ended
}

describe.concurrent('ackord relay --once', () => {
  it.each([
    ['PostgreSQL', 'RabbitMQ', postgresUrl, rabbitmqUrl, {}],
    ['Redis with the Lua outbox', 'Redis Streams', redisUrl, redisUrl, { outbox: 'lua' }],
  ] as const)('from %s to %s publishes what is there, prints the result and ends', async (_, __, storeUrl, brokerUrl, more) => {
    await using world = await openTestStore(storeUrl, more)
    await using topic = await openTestTopic(brokerUrl)
    await world.fill(topic.topic, 30)
    const limited = await once(world, brokerUrl, '--limit', '10')
    expect(limited.code).toBe(exitCode.incomplete)
    expect(limited.last).toEqual({
      ...{ complete: false, published: 10, failed: 0, parked: 0, reason: 'limit', skipped: [] },
      left: { ready: 20, leased: 0, waiting: 0 },
    })
    const rest = await once(world, brokerUrl, '--deadline', '20s')
    expect(rest.code).toBe(exitCode.ok)
    expect(rest.last).toMatchObject({ complete: true, published: 20, reason: 'empty', left: { ready: 0, leased: 0, waiting: 0 } })
    expect(new Set(await topic.read(30)).size).toBe(30)
  })

  it('with named stores prints a result for each', async () => {
    await using one = await openTestStore(postgresUrl)
    await using topic = await openTestTopic(rabbitmqUrl)
    await one.fill(topic.topic, 2)
    const [, oneUrl = '', ...schema] = one.args
    const { code, last } = await start(['relay', '--once', '--from', `one=${oneUrl}`, ...schema, '--to', rabbitmqUrl, '--json']).ended
    expect({ code, last }).toMatchObject({ code: 0, last: { complete: true, stores: { one: { published: 2, reason: 'empty' } } } })
  })

  it('for people says what happened and what is left', async () => {
    await using world = await openTestStore(postgresUrl)
    await using topic = await openTestTopic(rabbitmqUrl)
    await world.fill(topic.topic, 2)
    const { stdout, code } = await start(['relay', '--once', '--from', ...world.args.slice(1), '--to', rabbitmqUrl]).ended
    expect({ stdout, code }).toEqual({
      stdout: '2 records published, 0 failed, 0 parked; ended: empty. Left: 0 ready, 0 leased, 0 waiting.\n',
      code: 0,
    })
  })

  it.each(['--deadline', '--limit'])('is required for %s', async (name) => {
    const { code, stderr } = await ackord(['relay', '--from', postgresUrl, '--to', rabbitmqUrl, name, '10'])
    expect(code).toBe(exitCode.usage)
    expect(stderr).toContain(`${name} is for --once.`)
  })
})
