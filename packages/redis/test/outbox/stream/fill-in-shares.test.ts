import { expect, it } from 'vitest'
import { ClaimRoom, type Given, type Share } from '../../../src/outbox/claim-room.ts'
import { fillInShares } from '../../../src/outbox/fair-shares.ts'

/** Gives things by their sizes, as a claim script does. */
function give(backlog: number[], { count, maxBytes, atLeastOne }: Share): Given<number> {
  const things: number[] = []
  let bytes = 0
  while (backlog.length > 0 && things.length < count) {
    const size = backlog[0] as number
    if (bytes + size > maxBytes && (things.length > 0 || !atLeastOne)) return { things, bytes, stopped: true }
    backlog.shift()
    things.push(size)
    bytes += size
  }
  return { things, bytes, stopped: false }
}

it('a source whose first record is large gets its turn beside one that always has records', async () => {
  const backlogs: Record<string, number[]> = { busy: [], large: [90, 90] }
  const passedOver = new Set<string>()
  const given: number[][] = []
  for (let round = 0; round < 4; round += 1) {
    while ((backlogs['busy'] as number[]).length < 100) backlogs['busy']?.push(10)
    const things: number[] = []
    const givers = round % 2 === 0 ? ['busy', 'large'] : ['large', 'busy']
    await fillInShares(things, givers, new ClaimRoom(50, 100), async (name, share) => give(backlogs[name] as number[], share), passedOver)
    expect(things.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(100)
    expect(things.length).toBeGreaterThan(0)
    given.push(things)
  }
  expect(given.flat().filter((size) => size === 90)).toHaveLength(2)
  expect(given.flat().filter((size) => size === 10).length).toBeGreaterThan(5)
})
