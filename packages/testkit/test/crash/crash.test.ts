import { fork } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { bundle } from '../../../../scripts/bundle.mjs'
import {
  type CrashObservation,
  crashPoints,
  idempotencyCrashPoints,
  processCrashPoints,
  rateCrashPoints,
} from '../../src/crash/crash-points.ts'
import { type CrashExpectation, problemsOf } from '../../src/crash/process/crash-run.ts'
import { crashScenarios } from '../../src/crash/process/crash-scenarios.ts'
import { testCrashPoints } from '../../src/crash/process/test-crash-points.ts'
import { runScenario } from '../../src/run/scenario.ts'
import { openToyWorld } from '../support/crash-toy-world.ts'

const root = fileURLToPath(new URL('../../../..', import.meta.url))
const toy = `${root}.cache/crash/toy-${process.pid}.mjs`
const points = (['message.received', 'message.beforeAck'] as const).map((name) => ({ name, duplicates: 'none' as const }))

beforeAll(() => bundle(fileURLToPath(new URL('../support/crash-toy.ts', import.meta.url)), toy))
afterAll(() => {
  for (const file of [toy, `${toy}.map`]) rmSync(file, { force: true })
})

describe('the crash points', () => {
  const packages = readdirSync(`${root}packages`).filter((name) => name !== 'testkit')
  const sources = packages.flatMap((name) =>
    readdirSync(`${root}packages/${name}/src`, { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts') && !['ports/probe.ts', 'index.ts'].includes(file))
      .map((file) => ({ file: `${name}/${file}`, text: readFileSync(`${root}packages/${name}/src/${file}`, 'utf8') })),
  )

  it('are all probes in the sources', () => {
    const found = sources.flatMap(({ text }) => [...text.matchAll(/\b(?:probe|reached)\('([^']+)'\)/g)].map(([, name]) => name))
    expect(new Set(found)).toEqual(
      new Set([...crashPoints.map(({ name }) => name), ...idempotencyCrashPoints, ...rateCrashPoints, ...processCrashPoints]),
    )
  })

  it('are named at their call sites: only the relay passes a name on, in a function that the test above knows', () => {
    const passing = sources.filter(({ text }) => /\bprobe\((?!')/.test(text)).map(({ file }) => file)
    expect(passing).toEqual(['outbox/delivery/batch-carrier.ts'])
  })
})

testCrashPoints({ describe, it }, { name: 'toy', open: async () => openToyWorld(toy), points })

describe('the crash runner', () => {
  // The runner waits this long for an event that never happens. A process must be able to start within it.
  const patience = 3_000

  it.each([
    ['reaches nothing', "handled 120 commands and lives: the point 'message.received' was not reached 6 times"],
    ['exits', 'ended with code 3 and not by SIGKILL at message.received 6'],
    ['dies elsewhere', 'was killed, and not at message.received 6'],
    ['never starts', 'The start of the service did not end within 3000 ms'],
    ['applies twice', 'commands applied more than once'],
    ['loses events', 'events lost: 48 (event of m-1, '],
    ['is never idle', 'Everything has arrived, but a service is still busy'],
    ['fails to stop', 'was asked to stop and ended with code 1. Its last lines:'],
    ['never ends', 'The stop of the service did not end within 3000 ms'],
  ])('fails a service that %s, says so, and leaves no process behind', async (fault, text) => {
    const world = openToyWorld(toy, fault, patience)
    const scenario = crashScenarios({ points }).find(({ name }) => name === 'killed at message.received')
    if (scenario === undefined) throw new Error('The scenario does not exist.')
    const { result, error } = await runScenario(scenario, async () => world)
    expect(result).toBe('failed')
    expect(String(error)).toContain(text)
    expect(world.survivors()).toEqual([])
  })

  it('fails a service that ends by itself', async () => {
    const [unharmed] = crashScenarios({ points })
    if (unharmed === undefined) throw new Error('There are no scenarios.')
    const { error } = await runScenario(unharmed, async () => openToyWorld(toy, 'ends', patience))
    expect(String(error)).toContain('The service ended by itself, with code 3.')
  })

  it('leaves no service running', async () => {
    await using world = openToyWorld(toy)
    const service = fork(world.program.file, { env: world.program.environment, execArgv: [] })
    expect(await once(service, 'message')).toContainEqual({ started: true })
    service.disconnect()
    expect(await once(service, 'exit')).toEqual([null, 'SIGKILL'])
  })
})

describe('the check after a crash', () => {
  const expected: CrashExpectation = {
    commands: new Set(['m-1', 'm-2']),
    eventOf: (command) => `${command}.placed`,
    duplicates: { least: 1, most: 2 },
  }
  const right: CrashObservation = {
    applied: ['m-2', 'm-1'],
    inbox: ['m-1', 'm-2'],
    published: ['m-1.placed', 'm-2.placed', 'm-1.placed'],
    waiting: 0,
    outbox: { ready: 0, waiting: 0, leased: 0, parked: 0 },
  }

  it('finds no problem in a correct state', () => {
    expect(problemsOf(expected, right)).toEqual([])
  })

  const two = ['m-1', 'm-2']
  const events = two.map(expected.eventOf)
  it.each<[string, Partial<CrashObservation>]>([
    ['commands lost: 1 (m-1)', { applied: ['m-2'] }],
    ['commands applied more than once: 1 (m-2)', { applied: [...two, 'm-2'] }],
    ['applied and never sent: 1 (m-3)', { applied: [...two, 'm-3'] }],
    ['commands not in the inbox: 1 (m-2)', { inbox: ['m-1'] }],
    ['in the inbox more than once: 1 (m-1)', { inbox: [...two, 'm-1'] }],
    ['in the inbox and never sent: 1 (m-3)', { inbox: [...two, 'm-3'] }],
    ['events lost: 1 (m-2.placed)', { published: ['m-1.placed', 'm-1.placed'] }],
    ['events that no command has: 1 (other)', { published: [...right.published, 'other'] }],
    ['duplicates at the broker: 4, and at most 2 are allowed', { published: [...events, ...events, ...events] }],
    ['duplicates at the broker: 0, and a kill between publish and settle leaves at least 1', { published: events }],
    ['commands left at the broker: 3', { waiting: 3 }],
    ['left in the outbox: 1 leased, 2 parked', { outbox: { ready: 0, waiting: 0, leased: 1, parked: 2 } }],
  ])('says: %s', (problem, seen) => {
    expect(problemsOf(expected, { ...right, ...seen })).toEqual([problem])
  })
})
