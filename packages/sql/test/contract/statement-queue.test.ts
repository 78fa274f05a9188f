import { expect, it } from 'vitest'
import { StatementQueue } from '../../src/contract/statement-queue.ts'

it('runs one operation after the other, also after a failure', async () => {
  const queue = new StatementQueue()
  const events: string[] = []
  const step = (name: string) => async () => {
    events.push(`${name} starts`)
    await Promise.resolve()
    events.push(`${name} ends`)
    if (name === 'b') throw new Error(name)
    return name
  }
  const results = await Promise.allSettled(['a', 'b', 'c'].map((name) => queue.run(step(name))))
  expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
  expect(events).toEqual(['a starts', 'a ends', 'b starts', 'b ends', 'c starts', 'c ends'])
  expect(queue.failure).toMatchObject({ message: 'b' })
  expect(await queue.run(async () => 'd')).toBe('d')
})
