import { Message, rootContext } from '@ackord/core'
import { defineProcess, when } from '@ackord/outbox'
import { beforeAll, describe, expect, it } from 'vitest'
import { ackord } from '../support/ackord.ts'
import { bundleMain } from '../support/bundle-main.ts'
import { openTestStore, redisUrl, type TestStore } from '../support/services.ts'

beforeAll(bundleMain)

const order = defineProcess<{ secret: string }>({
  name: 'order',
  state: () => ({ secret: 'pa55-w0rd' }),
  startedBy: [
    when('order.placed', (_state, { id }, step) => {
      if (id === 'done') step.complete()
      else step.timeout('payment', 60_000)
    }),
  ],
  correlate: ({ id }) => id,
  timeouts: { payment: (state) => state },
  destination: 'order-process',
  source: '/order-process',
})

/** Begins an instance; the one with the id `done` finishes at once. */
async function begin({ store }: TestStore, id: string): Promise<void> {
  const [handler] = order.handlers(store.processes())
  const run = store.transactional({ consumer: 'order', destination: 'events' })
  const message = new Message({}, { id, type: 'order.placed', source: '/shop', specversion: '1.0' })
  await run((given, context) => handler?.handle(given, context) ?? Promise.resolve([]))(message, message.context(rootContext()))
}

describe.each([
  ['SQLite', undefined],
  ['Redis', redisUrl],
] as const)('processes on %s', (_, url) => {
  it('list, show and end them, without their states', async () => {
    await using world = await openTestStore(url)
    const processes = (...args: readonly string[]) => ackord(['processes', ...args, ...world.args])
    expect((await processes('list')).stdout).toBe('No running instances.\n')
    for (const id of ['o-1', 'o-2', 'done']) await begin(world, id)

    const people = await processes('list')
    expect(people.stdout).toMatch(/PROCESS +ID +EVENTS +IDLE +WAITS FOR TIMEOUTS\norder +o-[12] +1 +\S+( \S+)? +payment\norder +o-[12] /)
    expect(people.stdout).not.toMatch(/done|There are more/)
    expect((await processes('list', '--limit', '1')).stdout).toContain('There are more.')
    expect((await processes('list', '--idle-for', '1d')).stdout).toBe('No running instances.\n')
    expect((await processes('list', '--process', 'other')).stdout).toBe('No running instances.\n')
    expect((await processes('list', '--finished', '--json')).last).toMatchObject({
      process: 'order',
      id: 'done',
      phase: 'finished',
      timeouts: [],
    })

    const shown = await processes('show', 'order', 'o-1', '--json')
    expect(shown.last).toMatchObject({ process: 'order', id: 'o-1', phase: 'running', version: 1, state_version: 1, timeouts: ['payment'] })
    const secrets = [people, shown, await processes('show', 'order', 'o-1')]
    for (const { stdout } of secrets) expect(stdout).not.toContain('pa55-w0rd')
    expect((await processes('show', 'order', 'o-1', '--data', '--json')).last).toMatchObject({ state: '{"secret":"pa55-w0rd"}' })
    expect(await processes('show', 'order', 'o-3')).toMatchObject({ code: 1, stderr: expect.stringContaining("with the id 'o-3'") })

    expect((await processes('end', 'order', 'o-1')).code).not.toBe(0)
    expect(await processes('end', 'order', 'o-1', '--yes', '--json')).toMatchObject({ code: 0, last: { ended: true } })
    expect(await processes('end', 'order', 'o-1', '--yes', '--json')).toMatchObject({ code: 1, last: { ended: false } })
    expect((await processes('list', '--json')).last).toMatchObject({ id: 'o-2' })
  })
})
