import { sleep, systemRuntime, toError } from '@ackord/core'
import { checkDuration, checkFunction, rejectUnknownOptions } from '@ackord/core/internal'
import type { TestMessage } from '../../helpers/assert-handled-once.ts'
import type { PublishedEvent } from '../../helpers/assertions.ts'
import { inlineRelay } from '../../helpers/inline-relay.ts'
import { sourceOf, trackedMessage } from '../../helpers/tracked-message.ts'
import { ResultTable } from '../../run/result-table.ts'
import { within } from '../../run/scenario.ts'
import { type CrashTarget, type CrashTestLife, type CrashTestService, Life, watchLives } from './crash-life.ts'
import {
  type CrashOutcome,
  duplicatesIn,
  type EventOf,
  problemsAfter,
  problemsUnharmed,
  eventOf as saidByDefault,
} from './crash-verdict.ts'

export interface CrashTestOptions {
  /** Opens an empty world, with new or truncated tables. Called once for each crash. */
  readonly open: () => Promise<CrashTestWorld>
  /** The message to deliver. */
  readonly message: TestMessage
  /** Names the service in the table. Default: 'service'. */
  readonly name?: string | undefined
  /** Only these points, such as `transaction.beforeCommit`; a point that the message does not reach is an error. Default: all points that it reaches. */
  readonly points?: readonly string[] | undefined
  /** The part of an event that must be equal in all runs. Default: type, destination and data. */
  readonly eventOf?: EventOf | undefined
  /** Milliseconds after which a missing result counts as lost. It must be longer than the leases of the service. Default: 10,000. */
  readonly patience?: number | undefined
}

const suite = 'crash test'

/**
 * Tests your handler at the crash points, on your database. For each point: a fresh start, one message, a crash at that point, another start, the
 * message again if it was not acked. Then the effect must be the same as without a crash, and the events must be published, none before the commit.
 * The crash is simulated in this process: the service stops for ever, and its connections break. Resolves to a table; rejects if a point failed, and names it.
 */
export async function crashTest(options: CrashTestOptions): Promise<ResultTable> {
  const { open, message, name = 'service', points, eventOf = saidByDefault, patience = 10_000, ...unknown } = options
  rejectUnknownOptions('crashTest()', unknown)
  checkFunction('open', open)
  checkDuration('patience', patience, { min: 1 })
  const results = new ResultTable()
  const failures: Error[] = []

  async function course(target?: CrashTarget): Promise<CrashOutcome> {
    const world = await open()
    try {
      // Some defects make a service wait for ever.
      return await within(3 * patience, runCourse(world, { message, patience, target }), 'The service')
    } finally {
      await world.close?.()
    }
  }

  async function check(scenario: string, run: () => Promise<string | undefined>): Promise<void> {
    try {
      results.add({ implementation: name, suite, scenario, result: 'passed', note: await run() })
    } catch (error) {
      results.add({ implementation: name, suite, scenario, result: 'failed', note: undefined })
      failures.push(new Error(`${scenario}: ${toError(error).message}`, { cause: error }))
    }
  }

  const removeProbe = watchLives()
  try {
    let unharmed: CrashOutcome | undefined
    await check('not killed', async () => {
      unharmed = await course()
      refuse(problemsUnharmed(unharmed))
      return undefined
    })
    if (unharmed !== undefined && failures.length === 0) {
      const reference = unharmed
      for (const target of targetsOf(reference.hits, points)) {
        await check(`killed at ${target.point}${target.hit === 1 ? '' : `, time ${target.hit}`}`, async () => {
          const outcome = await course(target)
          refuse(problemsAfter(target, outcome, reference, eventOf))
          const duplicates = duplicatesIn(outcome)
          return duplicates === 0 ? undefined : `${duplicates} duplicate${duplicates === 1 ? '' : 's'} published`
        })
      }
    }
  } finally {
    removeProbe()
  }
  if (failures.length === 0) return results
  throw new AggregateError(failures, `${failures.map(({ message: text }) => text).join('\n')}\n\n${results.format()}`)
}

function targetsOf(hits: ReadonlyMap<string, number>, points: readonly string[] | undefined): CrashTarget[] {
  for (const point of points ?? []) {
    if (!hits.has(point)) throw new Error(`The message does not reach '${point}'; it reaches ${[...hits.keys()].join(', ')}.`)
  }
  const wanted = [...hits].filter(([point]) => points === undefined || points.includes(point))
  return wanted.flatMap(([point, count]) => Array.from({ length: count }, (_, index) => ({ point, hit: index + 1 })))
}

function refuse(problems: readonly string[]): void {
  if (problems.length > 0) throw new Error(`${problems.join('; ')}.`)
}

/** The service under test and the state that it changes. */
export interface CrashTestWorld {
  /** Called for each life. Its resources must end with that life: by `life.through()` or `life.onCrash()`. */
  start(life: CrashTestLife): Promise<CrashTestService>
  /** The state that the handler changes, as rows or a number, without values that differ from run to run. */
  state(): unknown
  /** Called when the world is no longer used. Optional. */
  close?(): PromiseLike<unknown>
}

interface CourseOptions {
  readonly message: TestMessage
  /** Milliseconds after which a missing result counts as lost. */
  readonly patience: number
  readonly target?: CrashTarget | undefined
}

/** Milliseconds. Short, because the records of a dead relay wait that long; long enough to publish a few events. */
const lease = 1000
/** Milliseconds between two polls of an outbox that is not empty. */
const lookInterval = 20

/** Sends one message to a service that is killed at a point and started again, and redelivers the message if it was not acked. */
async function runCourse(world: CrashTestWorld, { message, patience, target }: CourseOptions): Promise<CrashOutcome> {
  const published: PublishedEvent[] = []
  const delivery = { acked: false }
  const stateBefore = structuredClone(await world.state())
  await using first = new Life(published, target)
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

/** Redelivers a nacked message after its delay, as a broker does. */
async function deliverUntilAcked(service: CrashTestService, life: Life, { message, patience, delivery }: LifeOptions): Promise<void> {
  const { type, data, attributes } = message
  const until = systemRuntime.monotonic() + patience
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
    if (systemRuntime.monotonic() + wait > until)
      throw new Error(`The message was nacked for ${patience} ms: ${String(call.error)}`, { cause: call.error })
    await sleep(systemRuntime, wait)
  }
}

/** Drains until no record is ready or leased to a dead relay. */
async function drainAll({ outbox }: CrashTestService, life: Life, { patience }: LifeOptions): Promise<void> {
  if (outbox === undefined) return
  const relay = inlineRelay(outbox, life.publisher, { lease })
  const until = systemRuntime.monotonic() + patience
  for (;;) {
    await relay.drain()
    const { destinations } = await outbox.stats()
    const left = destinations.reduce((sum, { ready, leased }) => sum + ready + leased, 0)
    if (left === 0) return
    if (systemRuntime.monotonic() > until) throw new Error(`${left} events are still in the outbox after ${patience} ms.`)
    await sleep(systemRuntime, lookInterval)
  }
}
