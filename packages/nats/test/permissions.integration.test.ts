import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { recordingLogger } from '@ackord/testkit'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { expect, it } from 'vitest'
import { findBinary } from '../../../scripts/servers/find-binary.mjs'
import { freePort } from '../../../scripts/servers/free-port.mjs'
import { startServer } from '../../../scripts/servers/server.mjs'
import { natsPublisher, natsSource } from '../src/index.ts'
import { event, never, open } from './support/world.ts'

/** `admin` may do everything, `guest` may only receive replies. */
async function startGuarded() {
  const port = await freePort()
  const url = `nats://127.0.0.1:${port}`
  return await startServer({
    name: 'nats',
    account: undefined,
    launch(directory) {
      const config = join(directory, 'nats.conf')
      const guest = '{ user: guest, password: g, permissions: { publish: ["open.>"], subscribe: ["_INBOX.>"] } }'
      const users = `[{ user: admin, password: a }, ${guest}]`
      writeFileSync(config, `listen: "127.0.0.1:${port}"\njetstream { store_dir: "${directory}" }\nauthorization { users: ${users} }\n`)
      return { file: findBinary('nats-server') ?? 'nats-server', args: ['-c', config] }
    },
    async ready() {
      const connection = await connect({ servers: url, user: 'admin', pass: 'a', reconnect: false })
      await connection.close()
      return url
    },
  })
}

it('missing permissions are reported: the publisher blames the destination, the source ends', async () => {
  await using server = await startGuarded()
  const admin = await connect({ servers: server.url, user: 'admin', pass: 'a' })
  const manager = await jetstreamManager(admin)
  await manager.streams.add({ name: 'orders', subjects: ['orders.>', 'open.>'] })
  const guest = await connect({ servers: server.url, user: 'guest', pass: 'g' })
  const publisher = natsPublisher(guest)
  const source = natsSource(guest, { stream: 'orders', consumer: 'billing', declare: {}, logger: recordingLogger() })

  const results = await publisher.publish('orders.placed', [event('a'), event('b')], { signal: never })

  for (const result of results) {
    expect(result).toMatchObject({
      ok: false,
      scope: 'destination',
      error: { message: "The user is not allowed to publish to 'orders.placed'." },
    })
  }
  expect(await publisher.publish('open.placed', [event('a')], { signal: never })).toEqual([{ ok: true }])
  await expect(open(source).next()).rejects.toMatchObject({
    code: 'ACKORD_SOURCE_FAILED',
    message: expect.stringContaining('the user is not allowed to. Grant it the permission'),
  })
  await guest.close()
  await admin.close()
})

it('a password that is no longer valid ends the source with an error, without endless retries', async () => {
  await using server = await startGuarded()
  const admin = await connect({ servers: server.url, user: 'admin', pass: 'a' })
  await (await jetstreamManager(admin)).streams.add({ name: 'orders', subjects: ['orders.>'] })
  let attempts = 0
  const authenticator = () => {
    attempts += 1
    return { user: 'admin', pass: attempts === 1 ? 'a' : 'wrong' }
  }
  const connection = await connect({ servers: server.url, authenticator, maxReconnectAttempts: -1, reconnectTimeWait: 20 })
  const logger = recordingLogger()
  const next = open(natsSource(connection, { stream: 'orders', consumer: 'billing', declare: {}, logger })).next()

  await connection.reconnect()

  await expect(next).rejects.toMatchObject({ code: 'ACKORD_SOURCE_FAILED', message: expect.stringContaining('will not be restored') })
  expect(attempts).toBeLessThanOrEqual(4)
  expect(await natsPublisher(connection).publish('orders.placed', [event('a')], { signal: never })).toMatchObject([
    { ok: false, scope: 'destination' },
  ])
  await admin.close()
})
