import { Message, rootContext, silentLogger } from '@ackord/core'
import { defineProcess, when } from '@ackord/outbox'
import { expect, it } from 'vitest'
import { sqlOutbox, sqlProcesses, transactional } from '../../src/index.ts'
import { openPg } from '../support/world.ts'

interface State {
  readonly log: readonly string[]
}

it('events of one instance that share a transaction follow each other, and one that fails takes no other with it', async () => {
  await using world = await openPg()
  const { database } = world
  const failing = new Set(['e-3', 'e-17'])
  const process = defineProcess<State>({
    name: 'order',
    state: () => ({ log: [] }),
    startedBy: [
      when('order.changed', ({ log }, { id = '' }, step) => {
        step.send(new Message({ id }, { type: 'step.done' }))
        if (failing.delete(id)) throw new Error(`${id} fails once.`)
        return { log: [...log, id] }
      }),
    ],
    correlate: ({ subject }) => subject,
    source: '/order-process',
  })
  const [handler] = process.handlers(sqlProcesses(database))
  const run = transactional(database, {
    inbox: { consumer: 'order' },
    outbox: { destination: 'steps' },
    transaction: { logger: silentLogger },
    groupCommit: { size: 10, groups: 3 },
  })((given, context) => handler?.handle(given, context) ?? Promise.resolve([]))

  async function deliver(id: string, subject: string): Promise<void> {
    for (;;) {
      const acking = { ack() {}, nack() {}, reject() {} }
      const message = new Message({}, { id, type: 'order.changed', source: '/shop', subject, specversion: '1.0' }, { acking })
      try {
        await run(message, message.context(rootContext()))
        return
      } catch {
        // It is delivered again.
      }
    }
  }

  const ids = Array.from({ length: 40 }, (_, index) => `e-${index}`)
  await Promise.all(ids.map((id, index) => deliver(id, `o-${index % 2}`)))
  for (const order of [0, 1]) {
    const found = await sqlProcesses(database).get({ process: 'order', id: `o-${order}` })
    const { log } = JSON.parse(found?.state ?? '{}') as State
    expect(log.toSorted()).toEqual(ids.filter((_, index) => index % 2 === order).toSorted())
    expect(found?.version).toBe(20)
  }
  expect((await sqlOutbox(database, { logger: silentLogger }).list({}, { limit: 100 })).records).toHaveLength(40)
})
