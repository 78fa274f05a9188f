import { AclOperationTypes, AclPermissionTypes, AclResourceTypes, ResourcePatternTypes } from 'kafkajs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startKafka } from '../../../../../scripts/servers/index.mjs'
import { fromKafkaJs, type KafkaPort, kafkaPublisher, kafkaSource } from '../../../src/index.ts'
import { createClient } from '../../support/connection.ts'
import { event, never, open, openWorld, pull, type World } from '../../support/world.ts'

const users = { admin: 'admin-secret', alice: 'alice-secret' }
let server: Awaited<ReturnType<typeof startKafka>>

beforeAll(async () => {
  server = await startKafka({ users })
}, 150_000)
afterAll(() => server?.stop())

function urlOf(user: string, password: string): string {
  return server.url.replace('//', `//${user}:${password}@`)
}

/** A world of the administrator, who may do everything, and alice, who may do what `allow` says. */
async function openGuarded() {
  const world = await openWorld({ url: urlOf('admin', users.admin) })
  return { world, alice: clientOf('alice', users.alice), [Symbol.asyncDispose]: () => world[Symbol.asyncDispose]() }
}

function clientOf(user: string, password: string): KafkaPort {
  return fromKafkaJs(createClient(urlOf(user, password)), { consumer: { sessionTimeout: 6000, rebalanceTimeout: 6000 } })
}

async function allow(world: World, resourceType: AclResourceTypes, resourceName: string, operation: AclOperationTypes): Promise<void> {
  const resourcePatternType = ResourcePatternTypes.LITERAL
  const permissionType = AclPermissionTypes.ALLOW
  const acl = { resourceType, resourceName, resourcePatternType, principal: 'User:alice', host: '*', operation, permissionType }
  await world.admin.createAcls({ acl: [acl] })
}

it('a publish that is not allowed is a failure of the destination, and succeeds once it is allowed', async () => {
  await using guarded = await openGuarded()
  const { world, alice } = guarded
  const topic = await world.topic()
  await using publisher = kafkaPublisher(alice)
  const [refused] = await publisher.publish(topic, [event('a')], { signal: never })
  expect(refused).toMatchObject({ ok: false, scope: 'destination', error: { message: expect.stringContaining('not allowed') } })
  expect(await world.stored(topic)).toBe(0)

  await allow(world, AclResourceTypes.TOPIC, topic, AclOperationTypes.WRITE)
  expect(await publisher.publish(topic, [event('a')], { signal: never })).toEqual([{ ok: true }])
  expect(await world.stored(topic)).toBe(1)
}, 60_000)

it('a source needs the permission for its topic and for its group', async () => {
  await using guarded = await openGuarded()
  const { world, alice } = guarded
  const [topic, group] = [await world.topic(), world.group()]
  await world.fill(topic, [event('a')])
  const read = async () => {
    await using source = kafkaSource(alice, { topics: [topic], group, logger: world.logger, backoff: () => 20 })
    const message = await pull(open(source))
    await message.ack()
    return message.id
  }
  const refused = { code: 'ACKORD_SOURCE_FAILED', message: expect.stringContaining('not allowed') }

  await expect(read()).rejects.toMatchObject(refused)
  await allow(world, AclResourceTypes.TOPIC, topic, AclOperationTypes.READ)
  await expect(read()).rejects.toMatchObject(refused)
  await allow(world, AclResourceTypes.GROUP, group, AclOperationTypes.READ)
  expect(await read()).toBe('a')
}, 90_000)

it.each([
  ['a wrong password', 'alice', 'wrong'],
  ['an unknown user', 'mallory', 'secret'],
])(
  '%s ends a source, and is a failure of the destination',
  async (_, user, password) => {
    await using guarded = await openGuarded()
    const { world } = guarded
    const topic = await world.topic()
    const kafka = clientOf(user, password)
    await using publisher = kafkaPublisher(kafka)
    await using source = kafkaSource(kafka, { topics: [topic], group: world.group(), logger: world.logger })

    expect(await publisher.publish(topic, [event('a')], { signal: never })).toMatchObject([
      { ok: false, scope: 'destination', error: { message: expect.stringContaining('could not log in') } },
    ])
    await expect(open(source).next()).rejects.toMatchObject({ code: 'ACKORD_SOURCE_FAILED' })
  },
  60_000,
)
