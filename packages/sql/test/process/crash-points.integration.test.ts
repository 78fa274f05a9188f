import { processCrashPoints } from '@ackord/testkit/suites'
import { describe, expect, it } from 'vitest'
import { crashProgram } from '../support/crash-program.ts'
import { serviceKinds, startServices } from '../support/killed-services.ts'
import type { HandleEvent } from './support/process-service.ts'

const program = crashProgram(new URL('./support/process-service.ts', import.meta.url))

/** In the order of an event. */
const points = [
  'transaction.begun',
  'inbox.recorded',
  ...processCrashPoints,
  'outbox.appended',
  'transaction.beforeCommit',
  'transaction.afterCommit',
]

describe.each(serviceKinds)('a service on $name that is killed while it handles an event of a process', ({ open }) => {
  it('leaves everything of the event or nothing, wherever that happened, and the redelivered event completes it', async () => {
    await using world = await open()
    await using services = startServices<HandleEvent>(program, world.environment, points.length + 1)
    const [other, ...victims] = await services.ready()
    const handled: string[] = []
    for (const [index, point] of points.entries()) {
      const killed = victims[index]
      if (other === undefined || killed === undefined) throw new Error('There is a service for each point.')
      // The first event begins the process.
      const event = { type: index === 0 ? 'order.placed' : 'order.changed', data: { order: 'o1', id: point } } as const
      killed.send({ ...event, killAt: point })
      expect([point, await killed.ended]).toEqual([point, 'SIGKILL'])
      const before = await world.query("SELECT version FROM ackord_process WHERE id = 'o1'")
      const versions = point === 'transaction.afterCommit' ? [index + 1] : handled.length === 0 ? [] : [index]
      expect([point, before.map(({ version }) => Number(version))]).toEqual([point, versions])

      handled.push(point)
      for (let delivery = 0; delivery < 2; delivery += 1) {
        other.send(event)
        expect([point, await other.hear()]).toEqual([point, { log: handled, done: handled, timeouts: handled.length }])
      }
    }
  }, 60_000)
})
