import { says } from '../streams/error-text.ts'
import { createGroup } from './claim-scripts.ts'
import type { Lane } from './lane.ts'
import type { OutboxHome } from './outbox-home.ts'

/** Does something with the groups of lanes. Where there is none, because nobody has read yet or all was deleted, it is made and the work done again. */
export async function withGroups<T>(home: OutboxHome, lanes: readonly Lane[], work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    // The second is what XINFO says to a key that is not there.
    if (!says(error, 'NOGROUP', 'no such key')) throw error
  }
  // Which of them it is, is not told.
  for (const lane of lanes) await makeGroup(home, lane)
  return await work()
}

async function makeGroup({ port, group, logger }: OutboxHome, lane: Lane): Promise<void> {
  const parked = Number(await port.evaluate(createGroup, lane.allKeys, [group]))
  if (parked <= 0) return
  const text = 'The consumer group of an outbox was gone and is made anew. All that is in its stream comes again, also what was parked.'
  logger.warn({ stream: lane.keys.stream, group, parked }, text)
}
