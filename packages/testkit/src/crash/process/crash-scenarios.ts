import { VirtualRuntime } from '../../helpers/virtual-runtime.ts'
import { type CrashPoint, type CrashScenario, crashPoints, type Kill } from '../crash-points.ts'
import { CrashRun } from './crash-run.ts'

export interface CrashOptions {
  /** The points on the way of this service's messages. Default: all of `crashPoints`. */
  readonly points?: readonly CrashPoint[] | undefined
  /**
   * How much is tried: `small` is each point once and a few mixtures; `full` adds every point at several hits, again and again, beside another
   * service, and random sequences. Default: 'small'.
   */
  readonly matrix?: 'small' | 'full' | undefined
}

/** For random sequences. Pinned, so that two runs do the same; a seed that finds something is added. */
const seeds = [1, 2, 3, 4, 5, 6, 7, 8]

/** The points that are killed at again, and beside another service, also in the small matrix. */
const repeated = ['message.beforeAck', 'relay.published']
const accompanied = ['message.received', 'transaction.beforeCommit', 'relay.claimed', 'relay.published']

export function crashScenarios(options: CrashOptions = {}): readonly CrashScenario[] {
  const { points = crashPoints, matrix = 'small' } = options
  return matrix === 'small' ? smallMatrix(points) : [...smallMatrix(points), ...fullMatrix(points)]
}

function smallMatrix(points: readonly CrashPoint[]): readonly CrashScenario[] {
  return [
    scenario('a service that nobody kills applies everything once, publishes it once, and stops', []),
    ...points.map((point) => scenario(`killed at ${point.name}`, [usualKill(point)])),
    ...points.filter(({ name }) => repeated.includes(name)).map(threeTimes),
    scenario('killed at every point in turn', points.map(usualKill)),
    beside(
      'killed again and again beside another that goes on',
      points.filter(({ name }) => accompanied.includes(name)),
    ),
  ]
}

/** What `full` adds. */
function fullMatrix(points: readonly CrashPoint[]): readonly CrashScenario[] {
  return [
    ...points.flatMap((point) => [1, 5, 12].map((hit) => scenario(`killed at ${point.name}, at hit ${hit}`, [{ point, hit }]))),
    ...points.filter(({ name }) => !repeated.includes(name)).map(threeTimes),
    ...points.map((point) => beside(`killed at ${point.name}, twice, beside another that goes on`, [point, point])),
    ...seeds.map((seed) => scenario(`killed 8 times at random, seed ${seed}`, randomKills(points, seed, 8))),
  ]
}

/** Others of the same kind are in flight then, and some are done. */
function usualKill(point: CrashPoint): Kill {
  return { point, hit: point.name.startsWith('relay.') ? 2 : 6 }
}

function threeTimes(point: CrashPoint): CrashScenario {
  return scenario(`killed at ${point.name}, three times`, [usualKill(point), usualKill(point), usualKill(point)])
}

/** One of two workers dies, the other takes over what it had, and a new one comes. */
function beside(name: string, points: readonly CrashPoint[]): CrashScenario {
  return {
    name,
    async run(open) {
      await using run = new CrashRun(await open())
      await run.start()
      for (const point of points) await run.kill({ point, hit: 1 })
      return await run.finish()
    },
  }
}

function scenario(name: string, kills: readonly Kill[]): CrashScenario {
  return {
    name,
    async run(open) {
      await using run = new CrashRun(await open())
      for (const kill of kills) await run.kill(kill)
      return await run.finish()
    },
  }
}

function randomKills(points: readonly CrashPoint[], seed: number, count: number): readonly Kill[] {
  const { random } = new VirtualRuntime({ seed })
  return Array.from({ length: count }, () => {
    const [point] = points.slice(Math.floor(random() * points.length))
    return point === undefined ? [] : [{ point, hit: 1 + Math.floor(random() * 8) }]
  }).flat()
}
