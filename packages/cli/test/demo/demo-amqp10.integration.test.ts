import { connect } from 'amqplib'
import { beforeAll, describe, expect, it } from 'vitest'
import { ownName } from '../../../../scripts/test-run.mjs'
import { ackord, start } from '../support/ackord.ts'
import { bundleMain } from '../support/bundle-main.ts'
import { openLetters } from '../support/letters.ts'
import { openTestStore, openTestTopic } from '../support/services.ts'

// RabbitMQ 4, which only `make test-matrix` and `make proof` start.
const url = (process.env['AMQP_URL'] ?? 'amqp://guest:guest@127.0.0.1:1').replace(/^amqp:/, 'amqp10:')

beforeAll(bundleMain)

describe('RabbitMQ 4 over AMQP 1.0', () => {
  it.concurrent('has a demo, which loses nothing and removes its queues', async () => {
    const { code, stderr, last } = await ackord(['demo', '--orders', '300', '--store', 'sqlite:', '--broker', url])
    expect(stderr).toBe('')
    expect(last).toMatchObject({ orders: 300, applied: 300, events_published: 300, lost: 0, applied_twice: 0 })
    expect(code).toBe(0)
  })

  it.concurrent('gets records from a relay', async () => {
    await using topic = await openTestTopic(url)
    await using test = await openTestStore()
    await test.fill(topic.topic, 20)
    const relay = start(['relay', '--from', ...test.args.slice(1), '--to', url])
    expect(new Set(await topic.read(20)).size).toBe(20)
    relay.child.kill('SIGTERM')
    expect((await relay.ended).code).toBe(0)
  })

  it.concurrent('has dead letters that are listed and replayed', async () => {
    await using letters = await openLetters(url)
    await letters.reject(['a1', 'a2'])
    expect(await letters.list()).toMatchObject([
      { id: 'a1', destination: letters.origin.topic, reason: 'no customer for a1' },
      { id: 'a2', destination: letters.origin.topic, reason: 'no customer for a2' },
    ])
    expect(await letters.run('replay', '--all')).toMatchObject({ code: 0, last: { replayed: 2, failed: 0 } })
    expect(await letters.origin.read(2)).toEqual(['a1', 'a2'])
    expect(await letters.list()).toEqual([])
  })

  it.concurrent('is checked by the doctor, which finds a missing queue', async () => {
    await using test = await openTestStore()
    const missing = `cli-test-${ownName()}`
    await test.fill(missing, 1)
    const { stdout, code } = await ackord(['doctor', ...test.args, '--broker', url])
    expect(stdout).toContain(`There is no queue '${missing}'`)
    expect(code).not.toBe(0)
  })

  it.concurrent('fails with a wrong password, which is not shown, and with a virtual host that does not exist', async () => {
    const wrong = new URL(url.replace('amqp10:', 'http:'))
    wrong.password = 'wrong-one'
    const refused = await ackord(['demo', '--orders', '3', '--store', 'sqlite:', '--broker', wrong.href.replace('http:', 'amqp10:')])
    expect(refused.stderr).toContain('the credentials were rejected')
    expect(refused.stderr).not.toContain('wrong-one')
    const missing = await ackord(['demo', '--orders', '3', '--store', 'sqlite:', '--broker', `${url.replace(/\/$/, '')}/no-such-host`])
    expect(missing.stderr).toContain('/no-such-host')
    for (const { code } of [refused, missing]) expect(code).toBeGreaterThan(0)
  })

  it.concurrent('leaves no connection open', async () => {
    await using topic = await openTestTopic(url)
    const door = await connect(url.replace(/^amqp10:/, 'amqp:'))
    const channel = await door.createChannel()
    // Fails if a consumer is left.
    expect((await channel.checkQueue(topic.topic)).consumerCount).toBe(0)
    await door.close()
  })
})
