import type { ClaimRoom, Given, Share } from './claim-room.ts'

/**
 * Asks several sources for records until the room is full. Each round asks them concurrently, each for its share of the count and of the bytes; the next round
 * asks those again that returned their whole share. So a round takes as long as its slowest source, and a source with many records does not keep
 * one with few from being asked. If there are more sources than records to claim, only the first are asked: the caller rotates them.
 *
 * A source whose next record is larger than its share is asked again at the end, alone, for all the bytes that are left.
 *
 * A source that returned nothing because its next record did not fit is kept in `passedOver`, if given, and the next call asks it first, for one record: beside sources that always
 * have records it would never get its turn otherwise.
 *
 * Records are added to the end of `things`. If a source fails, this rejects with its error, and the records of the others are in `things` all the same.
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
  // It fits for sure only into an empty room; otherwise it would close the room to the others.
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
