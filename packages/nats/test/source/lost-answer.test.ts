import { silentLogger } from '@ackord/core'
import { VirtualRuntime } from '@ackord/testkit'
import { expect, it } from 'vitest'
import type { NatsConnection } from '../../src/client.ts'
import { natsSource } from '../../src/index.ts'

it.each([
  ['one back-off after the cut, if the connection is back by then', 50, 1100],
  ['at once when the connection is back, if that is later', 2000, 3000],
])('asks about its consumer again %s', async (_, downFor, askedAgainAt) => {
  const world = openConnection()
  await using source = natsSource(world.connection, {
    stream: 'orders',
    consumer: 'billing',
    backoff: () => 100,
    runtime: world.runtime,
    logger: silentLogger,
  })
  const leaving = new AbortController()
  const reading = source.messages({ signal: leaving.signal })[Symbol.asyncIterator]().next()
  await world.runtime.advance(1000)
  expect(world.asked).toEqual([0])
  world.change('disconnect')
  await world.runtime.advance(downFor)
  world.change('reconnect')
  // The client fails the first request after 5 seconds, and would not have sent another one earlier.
  await world.runtime.advance(4999 - 1000 - downFor)
  expect(world.asked).toEqual([0, askedAgainAt])
  leaving.abort()
  await world.runtime.advance(0)
  await reading
})

/** A connection whose requests are never answered. They fail after their time-out, as the client's do, whether the connection is cut or not. */
function openConnection() {
  const runtime = new VirtualRuntime()
  const asked: number[] = []
  const changes: { readonly type: string }[] = []
  let wake: () => void = () => {}
  const connection: NatsConnection = {
    publish: () => {},
    request: (_subject, _data, { timeout }) => {
      asked.push(runtime.monotonic())
      return new Promise((_, reject) => void runtime.setTimeout(() => reject(new Error('timeout')), timeout))
    },
    subscribe: () => ({ drain: () => Promise.resolve() }),
    flush: () => Promise.resolve(),
    async *status() {
      for (;;) {
        const change = changes.shift()
        if (change !== undefined) yield change
        else
          await new Promise<void>((resolve) => {
            wake = resolve
          })
      }
    },
    isClosed: () => false,
    closed: () => new Promise(() => {}),
    info: { max_payload: 1_048_576 },
  }
  return {
    runtime,
    connection,
    asked,
    change(type: 'disconnect' | 'reconnect') {
      changes.push({ type })
      wake()
    },
  }
}
