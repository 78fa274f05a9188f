import { recordingLogger } from '@ackord/testkit'
import { expect, it } from 'vitest'
import { sqlInbox } from '../../src/index.ts'
import { nodeKind } from '../sqlite/support/sqlite-world.ts'

it('an inbox for operators logs with the logger of its database, unless it has one of its own', async () => {
  const [logger, own] = [recordingLogger(), recordingLogger()]
  await using world = await nodeKind.open({ logger })
  const entry = `INSERT INTO ackord_inbox (consumer, source, id, received_at) VALUES ('orders', '/shop', ?, 0)`
  for (const id of ['m1', 'm2']) world.client.prepare(entry).run(id)

  await sqlInbox(world.database).forget('m1', { consumer: 'orders' })
  await sqlInbox(world.database, { logger: own }).forget('m2', { consumer: 'orders' })

  const forgotten = (id: string) => [{ fields: { forgotten: [{ id }] }, text: 'An operator deleted inbox entries.' }]
  expect(logger.at('info')).toMatchObject(forgotten('m1'))
  expect(own.at('info')).toMatchObject(forgotten('m2'))
})
