/**
 * Asks many for a number of things together, each for its share, and again those that had all they were asked for, until there are enough. They are asked
 * at the same time, so that it takes as long as the slowest; one that has much keeps none that has little from being asked. With more
 * of them than places the first are asked: whoever calls sees to it that these are others each time.
 *
 * What they give goes to the end of `things`. If one fails it ends with that error, and what the others gave is there all the same.
 */
export async function fillInShares<Giver, Thing>(
  things: Thing[],
  givers: readonly Giver[],
  limit: number,
  ask: (giver: Giver, count: number) => Promise<readonly Thing[]>,
): Promise<void> {
  const enough = things.length + limit
  let asked = givers
  while (asked.length > 0 && things.length < enough) {
    const left = enough - things.length
    const round = asked.slice(0, left)
    const counts = round.map((_, index) => Math.floor(left / round.length) + (index < left % round.length ? 1 : 0))
    const answers = await Promise.allSettled(round.map((giver, index) => ask(giver, counts[index] as number)))
    const given = answers.map((answer) => (answer.status === 'fulfilled' ? answer.value : []))
    for (const one of given) things.push(...one)
    const failed = answers.find((answer) => answer.status === 'rejected')
    if (failed !== undefined) throw failed.reason
    const full = round.filter((_, index) => (given[index]?.length ?? 0) >= (counts[index] as number))
    asked = [...full, ...asked.slice(left)]
  }
}
