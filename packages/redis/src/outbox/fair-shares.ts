import type { ClaimRoom, Given, Share } from './claim-room.ts'

/**
 * Asks several givers for things until the room is full. Each round asks them at the same time, each for its share of the count and of the bytes, and the next round
 * asks those again that had all they were asked for. So a round takes as long as its slowest giver, and a giver that has much keeps none that has
 * little from being asked. With more givers than places only the first are asked: the caller rotates them.
 *
 * A giver whose next thing is larger than its share is asked again at the end, alone, for all the bytes that are left.
 *
 * A giver that got nothing because its next thing did not fit is kept in `passedOver`, if given, and the next call asks it first, for one thing: beside givers that always
 * have something it would never get its turn otherwise.
 *
 * What they give goes to the end of `things`. If one fails, this rejects with its error, and what the others gave is in `things` all the same.
 */
export async function fillInShares<Giver, Thing>(
  things: Thing[],
  givers: readonly Giver[],
  room: ClaimRoom,
  ask: (giver: Giver, share: Share) => Promise<Given<Thing>>,
  passedOver: Set<Giver> = new Set(),
): Promise<void> {
  const askAlone = async (giver: Giver, count: number): Promise<void> => {
    const { things: given, bytes, stopped } = await ask(giver, { count, maxBytes: room.bytes, atLeastOne: room.isEmpty })
    for (const thing of given) things.push(thing)
    room.use(given.length, bytes)
    if (given.length > 0) passedOver.delete(giver)
    if (stopped || room.bytes === 0) room.close()
    if (stopped && given.length === 0) passedOver.add(giver)
  }
  const [waiting] = passedOver
  // Only into an empty room does it fit for sure; otherwise it would close the room to the others.
  if (waiting !== undefined && room.isEmpty && room.isOpen) {
    passedOver.delete(waiting)
    if (givers.length > 1 && givers.includes(waiting)) await askAlone(waiting, 1)
  }
  const tooLarge: Giver[] = []
  let asked = givers
  while (asked.length > 1 && room.isOpen) {
    const round = asked.slice(0, room.count)
    const left = room.count
    const shares = round.map((_, index): Share => {
      const count = Math.floor(left / round.length) + (index < left % round.length ? 1 : 0)
      return { count, maxBytes: room.bytes / round.length, atLeastOne: false }
    })
    const answers = await Promise.allSettled(round.map((giver, index) => ask(giver, shares[index] as Share)))
    const full: Giver[] = []
    for (const [index, answer] of answers.entries()) {
      if (answer.status === 'rejected') continue
      const { things: given, bytes, stopped } = answer.value
      for (const thing of given) things.push(thing)
      room.use(given.length, bytes)
      if (stopped) tooLarge.push(round[index] as Giver)
      else if (given.length >= (shares[index] as Share).count) full.push(round[index] as Giver)
    }
    const failed = answers.find((answer) => answer.status === 'rejected')
    if (failed !== undefined) throw failed.reason
    asked = [...full, ...asked.slice(left)]
  }
  for (const giver of [...asked, ...tooLarge]) {
    if (room.isOpen) await askAlone(giver, room.count)
    else if (tooLarge.includes(giver)) passedOver.add(giver)
  }
}
