import { expect, it } from 'vitest'
import { rootContext } from '../../src/message/context.ts'
import { Message } from '../../src/message/message.ts'
import { metricsMiddleware } from '../../src/middleware/metrics.ts'
import type { Metrics } from '../../src/ports/metrics.ts'
import { sleep } from '../../src/ports/runtime.ts'
import { VirtualRuntime } from '../support/virtual-runtime.ts'

const message = new Message('data', { type: 'order.placed', id: '1' })

function recordingMetrics(): Metrics & { readonly records: unknown[][]; named(name: string): unknown[][] } {
  const records: unknown[][] = []
  const record = (...given: unknown[]) => void records.push(given)
  const named = (name: string) => records.filter(([recorded]) => recorded === name)
  return { records, named, count: record, observe: record, gauge: record }
}

it('records outcome, duration, level and outputs of a handled message', async () => {
  const runtime = new VirtualRuntime()
  const metrics = recordingMetrics()
  const outputs = [new Message(1), new Message(2)]
  const run = metricsMiddleware(metrics, { runtime })(async () => {
    await sleep(runtime, 25)
    return outputs
  })
  const result = run(message, rootContext())
  await runtime.advance(25)
  expect(await result).toBe(outputs)
  const labels = { type: 'order.placed', outcome: 'handled' }
  expect(metrics.records).toEqual([
    ['ackord.in_flight', 1, {}],
    ['ackord.outputs', 2, { type: 'order.placed' }],
    ['ackord.in_flight', 0, {}],
    ['ackord.messages', 1, labels],
    ['ackord.duration', 25, labels],
  ])
})

it('records a failure as one and passes it on', async () => {
  const metrics = recordingMetrics()
  const error = new Error('broken')
  const run = metricsMiddleware(metrics)(() => Promise.reject(error))
  await expect(run(new Message('data'), rootContext())).rejects.toBe(error)
  expect(metrics.named('ackord.messages')).toEqual([['ackord.messages', 1, { type: 'none', outcome: 'failed' }]])
  expect(metrics.named('ackord.duration')).toHaveLength(1)
  expect(metrics.named('ackord.outputs')).toEqual([])
  expect(metrics.named('ackord.in_flight').at(-1)).toEqual(['ackord.in_flight', 0, {}])
})

it('counts all messages in flight, of all handlers that use it', async () => {
  const runtime = new VirtualRuntime()
  const metrics = recordingMetrics()
  const middleware = metricsMiddleware(metrics, { runtime })
  const handler = () => middleware(async () => (await sleep(runtime, 10)) ?? [])
  const all = Promise.all([handler()(message, rootContext()), handler()(message, rootContext())])
  await runtime.advance(10)
  await all
  expect(metrics.named('ackord.in_flight').map(([, level]) => level)).toEqual([1, 2, 1, 0])
})

it('never fails a message because the port throws', async () => {
  const broken = () => {
    throw new Error('metrics are down')
  }
  const middleware = metricsMiddleware({ count: broken, observe: broken, gauge: broken })
  const outputs = [new Message(1)]
  expect(await middleware(async () => outputs)(message, rootContext())).toBe(outputs)
  const error = new Error('broken')
  await expect(middleware(() => Promise.reject(error))(message, rootContext())).rejects.toBe(error)
})
