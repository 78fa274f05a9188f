import { describe, expect, it } from 'vitest'
import { constantBackoff } from '../../src/async/backoff.ts'
import { MemorySchedule } from '../../src/broker/memory/memory-schedule.ts'
import { rootContext } from '../../src/message/context.ts'
import { Message } from '../../src/message/message.ts'
import { CircuitBreaker } from '../../src/middleware/circuit-breaker.ts'
import { loggingMiddleware } from '../../src/middleware/logging.ts'
import { metricsMiddleware } from '../../src/middleware/metrics.ts'
import { retryMiddleware } from '../../src/middleware/retry.ts'
import { throttleMiddleware } from '../../src/middleware/throttle.ts'
import { timeoutMiddleware } from '../../src/middleware/timeout.ts'
import { silentLogger } from '../../src/ports/observability.ts'
import { sleep } from '../../src/ports/runtime.ts'
import { recordingLogger } from '../support/recording-logger.ts'
import { settlePromises, VirtualRuntime } from '../support/virtual-runtime.ts'

const tenMinutes = 600_000
const message = new Message('data', { type: 'order.placed', id: '1' })

/** Durations are measured with the monotonic clock, so a change of the wall clock makes none of them longer or shorter. */
describe.each([
  ['back', -tenMinutes],
  ['forward', tenMinutes],
])('with the wall clock set %s by ten minutes', (_direction, shift) => {
  it('the circuit breaker stays open for its configured time', async () => {
    const runtime = new VirtualRuntime()
    const breaker = new CircuitBreaker({ failures: 1, openFor: 1000, runtime, logger: silentLogger })
    breaker.failed()
    await runtime.advance(600)
    runtime.shiftClock(shift)
    expect(breaker.retryAfter).toBe(400)
    expect(breaker.allow()).toBe(false)
    await runtime.advance(400)
    expect(breaker.allow()).toBe(true)
  })

  it('the throttle keeps its rate', async () => {
    const runtime = new VirtualRuntime()
    let begun = 0
    const run = throttleMiddleware({ rate: 1, interval: 100, burst: 5, runtime })(async () => {
      begun += 1
      return []
    })
    const all = Promise.all(Array.from({ length: 10 }, () => run(message, rootContext())))
    await settlePromises()
    expect(begun).toBe(5)
    runtime.shiftClock(shift)
    await runtime.advance(100)
    expect(begun).toBe(6)
    await runtime.advance(400)
    await all
  })

  it('the retry makes its attempts until its own time is over', async () => {
    const runtime = new VirtualRuntime()
    let attempts = 0
    const options = { attempts: Infinity, timeout: 1000, backoff: constantBackoff(100, { jitter: 0 }), runtime, logger: silentLogger }
    const run = retryMiddleware(options)(async () => {
      attempts += 1
      throw new Error('broken')
    })
    const failure = run(message, rootContext()).catch((error: unknown) => error)
    await runtime.advance(500)
    runtime.shiftClock(shift)
    await runtime.advance(2000)
    expect(await failure).toMatchObject({ code: 'ACKORD_RETRY_EXHAUSTED', reason: 'timeout' })
    expect(attempts).toBe(11)
  })

  it('log lines and metrics contain the true duration', async () => {
    const runtime = new VirtualRuntime()
    const logger = recordingLogger()
    const observed: number[] = []
    const metrics = { count() {}, gauge() {}, observe: (_name: string, value: number) => void observed.push(value) }
    const handle = async () => {
      await sleep(runtime, 30)
      return []
    }
    const run = loggingMiddleware(logger, { runtime })(metricsMiddleware(metrics, { runtime })(handle))
    const result = run(message, rootContext())
    await runtime.advance(20)
    runtime.shiftClock(shift)
    await runtime.advance(10)
    await result
    expect(logger.lines[0]?.fields).toMatchObject({ duration: 30 })
    expect(observed).toEqual([30])
  })

  it('a time-out happens when its time is over', async () => {
    const runtime = new VirtualRuntime()
    let reads = 0
    // Another reading of the wall clock shortly after the first one: the clock was changed in between.
    const changing = { ...runtime, now: () => runtime.now() + (reads++ === 0 ? 0 : shift) }
    const run = timeoutMiddleware(100, { runtime: changing })(async (_message, context) => {
      await sleep(runtime, 1000, { signal: context.signal })
      return []
    })
    const failure = run(message, rootContext()).catch((error: unknown) => error)
    await settlePromises()
    expect(runtime.nextTimer).toBe(100)
    await runtime.advance(100)
    expect(await failure).toMatchObject({ code: 'ACKORD_PROCESS_TIMEOUT' })
  })

  it('the memory broker acts when each delay is over', async () => {
    const runtime = new VirtualRuntime()
    const schedule = new MemorySchedule(runtime)
    const ran: string[] = []
    schedule.at(schedule.now() + 1000, () => ran.push('first'))
    await runtime.advance(500)
    runtime.shiftClock(shift)
    schedule.at(schedule.now() + 100, () => ran.push('second'))
    await runtime.advance(100)
    expect(ran).toEqual(['second'])
    await runtime.advance(400)
    expect(ran).toEqual(['second', 'first'])
  })
})
