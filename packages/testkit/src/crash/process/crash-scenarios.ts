import { VirtualRuntime } from '../../helpers/virtual-runtime.ts'
import { type CrashPoint, type CrashScenario, crashPoints, type Kill } from '../crash-points.ts'
import { CrashRun } from './crash-run.ts'

export interface CrashOptions {
  /** The points that the messages of this service reach. Default: all of `crashPoints`. */
  readonly points?: readonly CrashPoint[] | undefined
  /**
   * The size of the matrix: `brief` kills one service at all points in turn, and one next to another service; `small` adds a run for each point and a
   * few repetitions; `full` adds every point at several hits, repeatedly, next to another service, and random sequences. Default: 'small'.
   */
  readonly matrix?: 'brief' | 'small' | 'full' | undefined
}

/** The seeds of random sequences. Pinned, so that runs are reproducible; a seed that finds a defect is added. */
const seeds = [1, 2, 3, 4, 5, 6, 7, 8]

/** The points at which the small matrix also kills repeatedly and next to another service. */
const repeated = ['message.beforeAck', 'relay.published']
const accompanied = ['message.received', 'transaction.beforeCommit', 'relay.claimed', 'relay.published']

export function crashScenarios(options: CrashOptions = {}): readonly CrashScenario[] {
  const { points = crashPoints, matrix = 'small' } = options
  if (matrix === 'brief') return briefMatrix(points)
  return matrix === 'small' ? smallMatrix(points) : [...smallMatrix(points), ...fullMatrix(points)]
}

function briefMatrix(points: readonly CrashPoint[]): readonly CrashScenario[] {
  return [undisturbed(), inTurn(points), besideAnother(points)]
}

function smallMatrix(points: readonly CrashPoint[]): readonly CrashScenario[] {
  return [
    undisturbed(),
    ...points.map((point) => scenario(`killed at ${point.name}`, [usualKill(point)])),
    ...points.filter(({ name }) => repeated.includes(name)).map(threeTimes),
    inTurn(points),
    besideAnother(points),
  ]
}

function undisturbed(): CrashScenario {
  return scenario('a service that is not killed applies every command once, publishes every event once, and stops', [])
}

function inTurn(points: readonly CrashPoint[]): CrashScenario {
  return scenario('killed at every point in turn', points.map(usualKill))
}

function besideAnother(points: readonly CrashPoint[]): CrashScenario {
  return beside(
    'killed repeatedly while another service continues',
    points.filter(({ name }) => accompanied.includes(name)),
  )
}

/** The scenarios that `full` adds. */
function fullMatrix(points: readonly CrashPoint[]): readonly CrashScenario[] {
  return [
    ...points.flatMap((point) => [1, 5, 12].map((hit) => scenario(`killed at ${point.name}, at hit ${hit}`, [{ point, hit }]))),
    ...points.filter(({ name }) => !repeated.includes(name)).map(threeTimes),
    ...points.map((point) => beside(`killed at ${point.name}, twice, while another service continues`, [point, point])),
    ...seeds.map((seed) => scenario(`killed 8 times at random, seed ${seed}`, randomKills(points, seed, 8))),
  ]
}

/** At these hits other messages are in flight, and some are done. */
function usualKill(point: CrashPoint): Kill {
  return { point, hit: point.name.startsWith('relay.') ? 2 : 6 }
}

function threeTimes(point: CrashPoint): CrashScenario {
  return scenario(`killed at ${point.name}, three times`, [usualKill(point), usualKill(point), usualKill(point)])
}

/** One of two workers dies, the other takes over its messages, and a new one starts. */
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
