import { deferred } from '@ackord/testkit'
import { beforeAll, describe, expect, it } from 'vitest'
import { startEventBridge } from '../../../aws/test/support/event-bridge-server.ts'
import { openTopics } from '../../../aws/test/support/topics.ts'
import { open, pullMany } from '../../../aws/test/support/world.ts'
import { ackord, emptyDirectory, start } from '../support/ackord.ts'
import { bundleMain } from '../support/bundle-main.ts'
import { openTestStore, sqsUrl } from '../support/services.ts'

beforeAll(bundleMain)

const region = '?region=eu-central-1'
// The credentials are masked in all output.
const snsUrl = `${sqsUrl.replace('sqs://test:test@', 'sns://key-id:key-secret@')}${region}`

describe.concurrent('the publishers of AWS', () => {
  it('publish to topics of SNS, and doctor reports destinations that are none', async () => {
    await using topics = openTopics()
    const { topic, queue } = await topics.subscribedTopic()
    await using world = await openTestStore()
    await world.fill('orders', 20)
    const relay = start(['relay', '--from', ...world.args.slice(1), '--to', snsUrl, '--json', '--map', `orders=${topic}`])
    const ids = (await pullMany(open(topics.queues.source(queue)), 20)).map(({ id }) => id)
    expect(new Set(ids).size).toBe(20)
    relay.child.kill('SIGTERM')
    expect(await relay.ended).toMatchObject({ code: 0 })

    const missing = topics.missing()
    for (const destination of [missing, 'invoices']) await world.fill(destination, 1)
    const { stdout } = await ackord(['doctor', ...world.args, '--broker', snsUrl])
    expect(stdout).toContain(`There is no topic '${missing}'. Create it, or map the destination`)
    expect(stdout).toContain("'invoices' is no ARN of a topic; map the destination")
  })

  it('publish to event buses of EventBridge', async () => {
    await using server = await startEventBridge()
    const [ids, all] = [new Set<string>(), deferred<void>()]
    server.addBus('default')
    server.addBus('shop', (event) => {
      if (ids.add(JSON.parse(event).detail.id).size === 20) all.resolve()
      return Promise.resolve()
    })
    await using world = await openTestStore()
    await world.fill('orders', 20)
    const url = `${server.url.replace('http://', 'eventbridge://test:test@')}${region}`
    const relay = start(['relay', '--from', ...world.args.slice(1), '--to', url, '--json', '--map', 'orders=shop'])
    await all.promise
    relay.child.kill('SIGTERM')
    expect(await relay.ended).toMatchObject({ code: 0 })
  })

  it.each([
    ['a path', `${sqsUrl.replace('sqs:', 'sns:')}/orders`],
    ['several hosts', 'sns://one:1,two:2'],
  ])('refuse a URL of SNS with %s', async (_title, url) => {
    await using world = await openTestStore()
    const { code, stderr } = await ackord(['relay', '--from', ...world.args.slice(1), '--to', url])
    expect(code).toBe(2)
    expect(stderr).toContain('Expected sns:, sns:?region=eu-central-1 or sns://host:port.')
  })

  it('are refused by the demo, which reads what it has published', async () => {
    const { code, stderr } = await ackord(['demo', '--store', `sqlite:${emptyDirectory()}/demo.db`, '--broker', snsUrl])
    expect(code).toBe(2)
    expect(stderr).toContain('ackord: SNS has no messages to read, which the demo requires.\n  Use SQS instead: --broker sqs:')
  })
})
