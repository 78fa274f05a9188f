import { deferred, settlePromises } from '@ackord/testkit'
import { describe, expect, it } from 'vitest'
import { Coalescer } from '../../src/client/coalescer.ts'

interface Item {
  readonly name: string
  readonly group?: number
  readonly weight?: number
}

function setUp(size: number) {
  const calls: string[][] = []
  const answers: (() => void)[] = []
  const coalescer = new Coalescer<Item>({
    size,
    groupOf: ({ group = 0 }) => group,
    weightOf: ({ weight = 1 }) => weight,
    run(items) {
      calls.push(items.map(({ name }) => name))
      const answered = deferred()
      answers.push(() => answered.resolve())
      return answered.promise
    },
  })
  const add = (...names: string[]) => {
    for (const name of names) coalescer.add({ name })
  }
  return { calls, answers, coalescer, add }
}

describe('Coalescer', () => {
  it('sends items of one tick together, and a single one at once', async () => {
    const { calls, add } = setUp(50)
    add('a', 'b', 'c')
    await settlePromises()
    expect(calls).toEqual([['a', 'b', 'c']])
  })

  it('gathers items while two calls run, and continues when one is answered', async () => {
    const { calls, answers, add } = setUp(50)
    for (const name of ['a', 'b', 'c', 'd', 'e']) {
      add(name)
      await settlePromises()
    }
    expect(calls).toEqual([['a'], ['b']])
    answers[1]?.()
    await settlePromises()
    expect(calls).toEqual([['a'], ['b'], ['c', 'd', 'e']])
  })

  it('limits the number of items and bytes of a call', async () => {
    const { calls, answers, coalescer, add } = setUp(2)
    add('a', 'b', 'c', 'd', 'e')
    await settlePromises()
    expect(calls).toEqual([
      ['a', 'b'],
      ['c', 'd'],
    ])
    answers[0]?.()
    await settlePromises()
    expect(calls[2]).toEqual(['e'])
    answers[1]?.()
    for (const name of ['large', 'larger']) coalescer.add({ name, weight: 2_000_000, group: 1 })
    await settlePromises()
    expect(calls.slice(3)).toEqual([['large'], ['larger']])
  })

  it('keeps groups apart, so that a slow one does not delay another', async () => {
    const { calls, coalescer } = setUp(50)
    for (const [name, group] of [
      ['a', 1],
      ['b', 2],
      ['c', 1],
    ] as const)
      coalescer.add({ name, group })
    await settlePromises()
    expect(calls).toEqual([['a', 'c'], ['b']])
  })

  it('with a size of 1 sends each item alone, however many calls run', () => {
    const { calls, add } = setUp(1)
    add('a', 'b', 'c')
    expect(calls).toEqual([['a'], ['b'], ['c']])
  })
})
