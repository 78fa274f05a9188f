import { getEventListeners } from 'node:events'
import { Message, rootContext, systemRuntime } from '@ackord/core'
import { deferred } from '@ackord/testkit'
import { expect, it } from 'vitest'
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
