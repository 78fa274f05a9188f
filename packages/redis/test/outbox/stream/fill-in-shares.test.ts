import { expect, it } from 'vitest'
import { ClaimRoom, fillInShares, type Portion, type Share } from '../../../src/outbox/claim-room.ts'

/** Returns items by their sizes, as a claim script does. */
function give(backlog: number[], { count, maxBytes, atLeastOne }: Share): Portion<number> {
  const items: number[] = []
  let bytes = 0
  while (backlog.length > 0 && items.length < count) {
    const size = backlog[0] as number
    if (bytes + size > maxBytes && (items.length > 0 || !atLeastOne)) return { items, bytes, stopped: true }
    backlog.shift()
    items.push(size)
    bytes += size
  }
  return { items, bytes, stopped: false }
}

it('a source whose first record is large gets its turn beside one that always has records', async () => {
  const backlogs: Record<string, number[]> = { busy: [], large: [90, 90] }
  const passedOver = new Set<string>()
  const given: number[][] = []
  for (let round = 0; round < 4; round += 1) {
    while ((backlogs['busy'] as number[]).length < 100) backlogs['busy']?.push(10)
    const items: number[] = []
    const sources = round % 2 === 0 ? ['busy', 'large'] : ['large', 'busy']
    await fillInShares(items, sources, new ClaimRoom(50, 100), async (name, share) => give(backlogs[name] as number[], share), passedOver)
    expect(items.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(100)
    expect(items.length).toBeGreaterThan(0)
    given.push(items)
  }
  expect(given.flat().filter((size) => size === 90)).toHaveLength(2)
  expect(given.flat().filter((size) => size === 10).length).toBeGreaterThan(5)
})
