import { expect, it } from 'vitest'
import { MemorySchedule } from '../../../src/broker/memory/memory-schedule.ts'
import { currentContext, enter, rootContext } from '../../../src/message/context.ts'
import type { Runtime } from '../../../src/ports/runtime.ts'
import { VirtualRuntime } from '../../support/virtual-runtime.ts'

it('runs tasks when they are due, in the order they were added for one instant', async () => {
  const runtime = new VirtualRuntime({ start: 0 })
  const schedule = new MemorySchedule(runtime)
  const ran: string[] = []
  for (const [name, due] of Object.entries({ d: 40, b: 20, a: 10, c: 20, e: 50 })) {
    schedule.at(due, () => ran.push(`${name}@${runtime.now()}`))
  }
  expect(runtime.timers).toBe(1)
  await runtime.advance(100)

  expect(ran).toEqual(['a@10', 'b@20', 'c@20', 'd@40', 'e@50'])
  expect([schedule.size, runtime.timers]).toEqual([0, 0])
})

it('stays in order under any additions and cancellations', async () => {
  const runtime = new VirtualRuntime({ start: 0, seed: 42 })
  const schedule = new MemorySchedule(runtime)
  const ran: number[] = []
  const tasks = Array.from({ length: 2000 }, () => {
    const due = 1 + Math.floor(runtime.random() * 500)
    return schedule.at(due, () => ran.push(due))
  })
  // Cancels tasks all over the heap, some of them twice.
  const cancelled = new Set(tasks.filter(() => runtime.random() < 0.4))
  for (const task of [...cancelled, ...cancelled]) schedule.cancel(task)
  expect(schedule.size).toBe(tasks.length - cancelled.size)
  await runtime.advance(500)

  const expected = tasks.filter((task) => !cancelled.has(task)).map((task) => task.due)
  expect(ran).toEqual(expected.sort((one, other) => one - other))
  expect([schedule.size, runtime.timers]).toEqual([0, 0])
})

it('has no timer when no task waits, or only infinite delays do', () => {
  const runtime = new VirtualRuntime({ start: 0 })
  const schedule = new MemorySchedule(runtime)
  const task = schedule.at(10, () => {})
  schedule.cancel(task)
  expect(runtime.timers).toBe(0)
  schedule.at(Infinity, () => {})
  expect(runtime.timers).toBe(0)
  schedule.at(10, () => {})
  schedule.clear()
  expect([schedule.size, runtime.timers]).toEqual([0, 0])
})

it('waits longer than a timer can', async () => {
  const runtime = new VirtualRuntime({ start: 0 })
  const schedule = new MemorySchedule(runtime)
  const month = 31 * 24 * 60 * 60 * 1000
  let ran = 0
  schedule.at(month, () => {
    ran = runtime.now()
  })
  expect(runtime.nextTimer).toBe(2 ** 31 - 1)
  await runtime.advance(month - 1)
  expect(ran).toBe(0)
  await runtime.advance(1)
  expect(ran).toBe(month)
})

it('lets a task add another one for the same instant', async () => {
  const runtime = new VirtualRuntime({ start: 0 })
  const schedule = new MemorySchedule(runtime)
  const ran: string[] = []
  schedule.at(10, (reached) => {
    ran.push('first')
    schedule.at(reached, () => ran.push('second'))
    schedule.at(reached + 5, () => ran.push('third'))
  })
  await runtime.advance(10)
  expect(ran).toEqual(['first', 'second'])
  expect(runtime.timers).toBe(1)
  await runtime.advance(5)
  expect(ran).toEqual(['first', 'second', 'third'])
})

it('is not delayed by a clock that is set back', async () => {
  const virtual = new VirtualRuntime({ start: 0 })
  let shift = 0
  const runtime: Runtime = {
    now: () => virtual.now() + shift,
    monotonic: virtual.monotonic,
    setTimeout: virtual.setTimeout,
    random: virtual.random,
    uuid: virtual.uuid,
  }
  const schedule = new MemorySchedule(runtime)
  const ran: number[] = []
  schedule.at(1000, () => ran.push(virtual.now()))
  shift = -24 * 60 * 60 * 1000
  await virtual.advance(1000)

  expect(ran).toEqual([1000])
})

it('keeps the process alive while a task waits, so that a program does not exit before a delayed message', () => {
  const options: unknown[] = []
  const virtual = new VirtualRuntime({ start: 0 })
  const runtime: Runtime = {
    ...virtual,
    setTimeout(callback, delay, given) {
      options.push(given?.keepAlive ?? true)
      return virtual.setTimeout(callback, delay)
    },
  }
  new MemorySchedule(runtime).at(10, () => {})
  expect(options).toEqual([true])
})

it('keeps the context of no handler whose nack it carries out later', () => {
  const seen: unknown[] = []
  const virtual = new VirtualRuntime({ start: 0 })
  const runtime: Runtime = {
    ...virtual,
    setTimeout(callback, delay) {
      seen.push(currentContext())
      return virtual.setTimeout(callback, delay)
    },
  }
  const schedule = new MemorySchedule(runtime)
  enter(rootContext(), () => schedule.at(10, () => {}))
  expect(seen).toEqual([undefined])
})
