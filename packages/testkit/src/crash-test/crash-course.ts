import { sleep, systemRuntime } from '@ackord/core'
import type { TestMessage } from '../assertions/assert-handled-once.ts'
import type { PublishedEvent } from '../assertions/published-events.ts'
import { inlineRelay } from '../inline-relay.ts'
import { sourceOf, trackedMessage } from '../tracked-message.ts'
import { type CrashPlace, type CrashTestLife, type CrashTestService, Life } from './crash-life.ts'

/** The service under test and the place of its effects. */
export interface CrashTestWorld {
  /** Called for each life. What it uses must be able to end with that life: by `life.through()` or `life.onCrash()`. */
  start(life: CrashTestLife): Promise<CrashTestService>
  /** What the handler changes, as rows or a number, without what differs from run to run. */
  state(): unknown
  /** Called when the world is used no more. Default: nothing is closed. */
  close?(): PromiseLike<unknown>
}

/** What is there when everything is done. */
export interface CrashOutcome {
  readonly stateBefore: unknown
  readonly state: unknown
  readonly published: readonly PublishedEvent[]
  /** Of them, those that were there when the service crashed. */
  readonly publishedAtCrash: number
  /** How often each probe was passed before the crash. */
  readonly hits: ReadonlyMap<string, number>
  readonly crashed: boolean
}

export interface CourseOptions {
  readonly message: TestMessage
  /** Milliseconds after which something that does not come counts as lost. */
  readonly patience: number
  readonly place?: CrashPlace | undefined
}

/** Milliseconds. Short, because what a dead relay held has to wait for it; long enough to publish a few events. */
const lease = 1000
/** Milliseconds between two looks at an outbox that is not empty. */
const lookInterval = 20

/** One message through a service that is killed at a place, started again, and gets the message again if it was not acked. */
export async function runCourse(world: CrashTestWorld, { message, patience, place }: CourseOptions): Promise<CrashOutcome> {
  const published: PublishedEvent[] = []
  const delivery = { acked: false }
  const stateBefore = structuredClone(await world.state())
  await using first = new Life(published, place)
  const ending = await liveOnce(world, first, { message, patience, delivery })
  const publishedAtCrash = published.length
  if (ending === 'crashed') {
    await using second = new Life(published, undefined)
    await liveOnce(world, second, { message, patience, delivery })
  }
  const state = structuredClone(await world.state())
  return { stateBefore, state, published, publishedAtCrash, hits: first.hits, crashed: ending === 'crashed' }
}

interface LifeOptions extends CourseOptions {
  readonly delivery: { acked: boolean }
}

async function liveOnce(world: CrashTestWorld, life: Life, options: LifeOptions): Promise<'crashed' | 'done'> {
  return await life.live(async () => {
    const service = await world.start(life)
    await deliverUntilAcked(service, life, options)
    await drainAll(service, life, options)
    await service.close?.()
    return 'done' as const
  })
}

/** As a broker does: again after a nack, when its time has come. */
async function deliverUntilAcked(service: CrashTestService, life: Life, { message, patience, delivery }: LifeOptions): Promise<void> {
  const { type, data, attributes } = message
  const until = systemRuntime.now() + patience
  for (let count = 1; !delivery.acked; count += 1) {
    const tracked = trackedMessage('crash-test', {
      data,
      attributes: { type, ...attributes },
      deliveryCount: count,
      onVerdict: async (verdict) => {
        await life.unlessDead()
        if (verdict === 'ack') delivery.acked = true
      },
    })
    await service.handle(sourceOf(tracked))
    if (delivery.acked) return
    const [call] = tracked.calls
    if (call === undefined) throw new Error('The source ended, and the message was not settled.')
    if (call.verdict === 'reject') throw new Error(`The message was rejected: ${String(call.error)}`, { cause: call.error })
    const wait = call.options?.retryAfter ?? lookInterval
    if (systemRuntime.now() + wait > until)
      throw new Error(`The message was nacked for ${patience} ms: ${String(call.error)}`, { cause: call.error })
    await sleep(systemRuntime, wait)
  }
}

/** Until nothing is ready, or leased to a relay that is dead. */
async function drainAll({ outbox }: CrashTestService, life: Life, { patience }: LifeOptions): Promise<void> {
  if (outbox === undefined) return
  const relay = inlineRelay(outbox, life.publisher, { lease })
  const until = systemRuntime.now() + patience
  for (;;) {
    await relay.drain()
    const { destinations } = await outbox.stats()
    const left = destinations.reduce((sum, { ready, leased }) => sum + ready + leased, 0)
    if (left === 0) return
    if (systemRuntime.now() > until) throw new Error(`${left} events are still in the outbox after ${patience} ms.`)
    await sleep(systemRuntime, lookInterval)
  }
}
