import { PassThrough } from 'node:stream'
import { silentLogger } from '@ackord/core'
import { describe, expect, it } from 'vitest'
import { Output } from '../../src/output/output.ts'
import { Secrets } from '../../src/output/secrets.ts'
import { diagnose } from '../../src/serving/dashboard-doctor.ts'
import { openStore } from '../../src/stores/open-store.ts'
import { startDeafProxy } from '../support/deaf-proxy.ts'
import { natsUrl, openTestStore, openTestTopic, postgresUrl, rabbitmqUrl } from '../support/services.ts'

function openSession() {
  const secrets = new Secrets()
  return { secrets, output: new Output({ stdout: new PassThrough(), stderr: new PassThrough(), secrets, json: false, terminal: false }) }
}

describe('the doctor of `ackord dashboard`', () => {
  it('says which store or broker cannot be used, without secrets, and checks the others nevertheless', async () => {
    const session = openSession()
    await using orders = await openTestStore(postgresUrl)
    const pooler = await startDeafProxy(postgresUrl)
    await using down = await openStore(pooler.url, { option: '--store', location: {}, logger: silentLogger, secrets: session.secrets })
    await pooler[Symbol.asyncDispose]()
    const stores = new Map([
      ['down', down],
      ['orders', orders.store],
    ])
    const brokers = new Map([
      ['nowhere', 'amqp://user:pa55-w0rd-7f3c@127.0.0.1:1'],
      ['nats', natsUrl],
    ])
    const checks = await diagnose(session, stores, brokers)

    const of = (name: string) => checks.filter(({ store }) => store === name).map(({ of: kind, title, result }) => [kind, title, result])
    expect(of('down')).toEqual([['store', 'connection', 'failed']])
    expect(of('orders')).toEqual(
      expect.arrayContaining(['connection', 'schema', 'privileges', 'backlog'].map((title) => ['store', title, 'ok'])),
    )
    expect(of('nowhere')).toEqual([['broker', 'connection', 'failed']])
    expect(of('nats')).toEqual([['broker', 'connection', 'ok']])
    expect(checks.find(({ store }) => store === 'nowhere')?.text).toContain('connection refused')
    expect(JSON.stringify(checks)).not.toContain('pa55-w0rd-7f3c')
  })

  it('finds destinations that no broker has', async () => {
    await using orders = await openTestStore()
    await using topic = await openTestTopic(rabbitmqUrl)
    await orders.fill(topic.topic, 1)
    await orders.fill('nobody-takes-this', 1)
    const brokers = new Map([
      ['rabbit', rabbitmqUrl],
      ['nats', natsUrl],
    ])
    const checks = await diagnose(openSession(), new Map([['orders', orders.store]]), brokers)

    const problems = checks.filter(({ title }) => title === 'destination')
    expect(problems.map(({ of, store, result }) => [of, store, result])).toEqual([
      ['broker', 'rabbit', 'failed'],
      ['broker', 'nats', 'failed'],
    ])
    for (const { text } of problems) expect(text).toContain('nobody-takes-this')
  })
})
