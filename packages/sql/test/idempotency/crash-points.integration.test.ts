import { idempotencyCrashPoints } from '@ackord/testkit/suites'
import { describe, expect, it } from 'vitest'
import { crashProgram } from '../support/crash-program.ts'
import { serviceKinds, startServices } from '../support/killed-services.ts'
import type { ServeRequest } from './support/request-service.ts'

const program = crashProgram(new URL('./support/request-service.ts', import.meta.url))

describe.each(serviceKinds)('a request on $name whose process is killed', ({ open }) => {
  it('is answered once when it is repeated, wherever that happened', async () => {
    await using world = await open()
    await using services = startServices<ServeRequest>(program, world.environment, idempotencyCrashPoints.length + 1)
    const [other, ...victims] = await services.ready()
    for (const [index, point] of idempotencyCrashPoints.entries()) {
      const killed = victims[index]
      if (other === undefined || killed === undefined) throw new Error('There is a service for each point.')
      killed.send({ request: point, lease: 200, killAt: point, fails: point === 'idempotency.released' })
      expect([point, await killed.ended]).toEqual([point, 'SIGKILL'])
      const before = await world.query(`SELECT id FROM orders WHERE note = '${point}'`)

      other.send({ request: point, lease: 60_000 })
      const repeated = (await other.hear()) as { readonly body?: string }
      other.send({ request: point, lease: 60_000 })
      expect(await other.hear()).toEqual(repeated)
      const orders = await world.query(`SELECT id FROM orders WHERE note = '${point}'`)
      expect([point, orders.map(({ id }) => id)]).toEqual([point, [repeated.body]])
      const events = await world.query(`SELECT id FROM ackord_outbox WHERE destination = '${point}'`)
      expect([point, events.map(({ id }) => String(id))]).toEqual([point, [repeated.body]])
      // What was committed before the kill was answered, and not done again.
      expect([point, before]).toEqual([point, point === 'transaction.afterCommit' ? orders : []])
    }
  }, 60_000)
})
