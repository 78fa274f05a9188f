import { getEventListeners } from 'node:events'
import { Message, rootContext, systemRuntime } from '@ackord/core'
import { deferred, VirtualRuntime } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { GroupGatherer, type GroupMember } from '../../src/group-commit/group-gatherer.ts'

it('releases the signals of messages that no longer wait, even while other messages always wait', async () => {
  const running: { readonly members: readonly GroupMember[]; readonly end: () => void }[] = []
  let begun = deferred()
  const gatherer = new GroupGatherer({
    runtime: systemRuntime,
    size: 1,
    groups: 1,
    run(members) {
      const { promise, resolve } = deferred()
      running.push({ members, end: resolve })
      begun.resolve()
      return promise
    },
  })
  const controllers = Array.from({ length: 5 }, () => new AbortController())
  const joined = controllers.map(({ signal }, index) => {
    const message = new Message(null, { id: String(index) })
    return gatherer.join(message, message.context(rootContext({ signal })), { consumer: 'c', source: '', id: String(index) })
  })
  const listeners = () => controllers.map(({ signal }) => getEventListeners(signal, 'abort').length)
  await begun.promise
  expect(listeners()).toEqual([0, 1, 1, 1, 1])
  for (let round = 0; round < 4; round += 1) {
    begun = deferred()
    const { members = [], end } = running.at(-1) ?? {}
    for (const { resolve } of members) resolve([])
    end?.()
    await begun.promise
  }
  expect(listeners()).toEqual([0, 0, 0, 0, 0])
  for (const { resolve } of running.at(-1)?.members ?? []) resolve([])
  expect(await Promise.all(joined)).toEqual([[], [], [], [], []])
})

it('gathers messages that arrive one after the other in the same turn', async () => {
  const groups: (string | undefined)[][] = []
  const gatherer = new GroupGatherer({
    runtime: systemRuntime,
    size: 3,
    groups: 2,
    async run(members) {
      groups.push(members.map(({ message }) => message.id))
      for (const { resolve } of members) resolve([])
    },
  })
  const joined: Promise<unknown>[] = []
  for (const id of ['1', '2', '3', '4']) {
    const message = new Message(null, { id })
    joined.push(gatherer.join(message, message.context(rootContext()), { consumer: 'c', source: '', id }))
    for (let step = 0; step < 10; step += 1) await Promise.resolve()
  }
  await Promise.all(joined)
  expect(groups).toEqual([['1', '2', '3'], ['4']])
})

describe('a gatherer with a wait', () => {
  function openGatherer(options: { readonly size: number; readonly groups?: number; readonly stopping?: AbortSignal }) {
    const runtime = new VirtualRuntime()
    const groups: (string | undefined)[][] = []
    const running: (() => void)[] = []
    const gatherer = new GroupGatherer({
      groups: 1,
      ...options,
      wait: 100,
      runtime,
      run(members) {
        groups.push(members.map(({ message }) => message.id))
        for (const { resolve } of members) resolve([])
        const { promise, resolve } = deferred()
        running.push(resolve)
        return promise
      },
    })
    const join = (id: string, signal?: AbortSignal) => {
      const message = new Message(null, { id })
      const context = message.context(rootContext(signal === undefined ? {} : { signal }))
      return gatherer.join(message, context, { consumer: 'c', source: '', id }).catch(() => [])
    }
    return { runtime, groups, running, join }
  }

  it('starts a group when it is full, or when its first message has waited for long enough', async () => {
    const { runtime, groups, running, join } = openGatherer({ size: 3 })
    for (const id of ['1', '2']) void join(id)
    await runtime.advance(60)
    expect(groups).toEqual([])
    void join('3')
    await runtime.advance(0)
    expect(groups).toEqual([['1', '2', '3']])
    running.shift()?.()
    void join('4')
    await runtime.advance(99)
    void join('5')
    expect(groups).toHaveLength(1)
    await runtime.advance(1)
    expect(groups).toEqual([
      ['1', '2', '3'],
      ['4', '5'],
    ])
    expect(runtime.timers).toBe(0)
  })

  it('lets messages wait no longer than for a running group, if that takes longer', async () => {
    const { runtime, groups, running, join } = openGatherer({ size: 2 })
    for (const id of ['1', '2', '3']) void join(id)
    await runtime.advance(500)
    expect(groups).toEqual([['1', '2']])
    running.shift()?.()
    await runtime.advance(0)
    expect(groups).toEqual([['1', '2'], ['3']])
  })

  it('measures the wait of the next group from its own first message, also if the first one is aborted', async () => {
    const { runtime, groups, join } = openGatherer({ size: 3 })
    const controller = new AbortController()
    void join('1', controller.signal)
    await runtime.advance(50)
    void join('2')
    controller.abort(new Error('stopped'))
    await runtime.advance(99)
    expect(groups).toEqual([])
    await runtime.advance(1)
    expect(groups).toEqual([['2']])
  })

  it('starts at once when the router stops', async () => {
    const stopping = new AbortController()
    const { runtime, groups, join } = openGatherer({ size: 3, stopping: stopping.signal })
    void join('1')
    await runtime.advance(10)
    stopping.abort()
    void join('2')
    await runtime.advance(0)
    expect(groups).toEqual([['1', '2']])
    expect(runtime.timers).toBe(0)
  })
})
