import { getEventListeners } from 'node:events'
import { Message, rootContext } from '@ackord/core'
import { deferred } from '@ackord/testkit'
import { expect, it } from 'vitest'
import { GroupGatherer, type GroupMember } from '../src/group-gatherer.ts'

it('lets go of the signals of messages that wait no longer, also while others always do', async () => {
  const running: { readonly members: readonly GroupMember[]; readonly end: () => void }[] = []
  let begun = deferred()
  const gatherer = new GroupGatherer({
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
