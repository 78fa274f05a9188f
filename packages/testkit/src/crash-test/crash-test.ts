import { toError } from '@ackord/core'
import { checkDuration, checkFunction, checkNoMore } from '@ackord/core/internal'
import type { TestMessage } from '../assertions/assert-handled-once.ts'
import { ResultTable } from '../result-table.ts'
import { within } from '../scenario.ts'
import { type CrashOutcome, type CrashTestWorld, runCourse } from './crash-course.ts'
import { type CrashPlace, watchLives } from './crash-life.ts'
import { duplicatesIn, type EventOf, problemsAfter, problemsUnharmed, eventOf as saidByDefault } from './crash-verdict.ts'

export interface CrashTestOptions {
  /** Makes an empty world: tables that are new, or emptied. Called once for each crash. */
  readonly open: () => Promise<CrashTestWorld>
  /** What is delivered. */
  readonly message: TestMessage
  /** Names the service in the table. Default: 'service'. */
  readonly name?: string | undefined
  /** Only these points, such as `transaction.beforeCommit`; one that the message does not pass is an error. Default: all that it passes. */
  readonly points?: readonly string[] | undefined
  /** What two runs must have in common of an event. Default: type, destination and data. */
  readonly eventOf?: EventOf | undefined
  /** Milliseconds after which something that does not come counts as lost. It must be longer than the leases of the service. Default: 10,000. */
  readonly patience?: number | undefined
}

const suite = 'crash test'

/**
 * Takes a handler of yours through the crash points, on your database: for each of them a fresh start, one message, a crash at that point, another start, the
 * message again if it was not acked. Then its effect must be what it is without a crash, and its events must be published, none before the commit.
 * The crash is played in this process: what ran stops there for good, and its connections break. Resolves to a table; rejects if a point failed, and says which.
 */
export async function crashTest(options: CrashTestOptions): Promise<ResultTable> {
  const { open, message, name = 'service', points, eventOf = saidByDefault, patience = 10_000, ...unknown } = options
  checkNoMore('crashTest()', unknown)
  checkFunction('open', open)
  checkDuration('patience', patience, { min: 1 })
  const results = new ResultTable()
  const failures: Error[] = []

  async function course(place?: CrashPlace): Promise<CrashOutcome> {
    const world = await open()
    try {
      // A service that waits for ever is what some mistakes look like.
      return await within(3 * patience, runCourse(world, { message, patience, place }), 'The service')
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
      for (const place of placesOf(reference.hits, points)) {
        await check(`killed at ${place.point}${place.hit === 1 ? '' : `, time ${place.hit}`}`, async () => {
          const outcome = await course(place)
          refuse(problemsAfter(place, outcome, reference, eventOf))
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

function placesOf(hits: ReadonlyMap<string, number>, points: readonly string[] | undefined): CrashPlace[] {
  for (const point of points ?? []) {
    if (!hits.has(point)) throw new Error(`The message does not pass '${point}'; it passes ${[...hits.keys()].join(', ')}.`)
  }
  const wanted = [...hits].filter(([point]) => points === undefined || points.includes(point))
  return wanted.flatMap(([point, count]) => Array.from({ length: count }, (_, index) => ({ point, hit: index + 1 })))
}

function refuse(problems: readonly string[]): void {
  if (problems.length > 0) throw new Error(`${problems.join('; ')}.`)
}
