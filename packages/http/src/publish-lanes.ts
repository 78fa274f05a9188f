import type { PublishFailure, PublishResult } from '@ackord/core'
import { heldBack, notTried } from './publish-failures.ts'

/** One message of a call. Those with the same lane are sent one after the other. */
export interface LaneItem {
  readonly lane: string | undefined
  /** Whom a failure of the destination concerns: nothing more is sent there in this call. */
  readonly url: string
  readonly shown: string
  readonly settle: (result: PublishResult) => void
}

/** Sends items, so many at once, in their order per lane, and settles each. Never rejects, and neither does `send`. */
export async function sendInLanes<Item extends LaneItem>(
  items: readonly Item[],
  concurrency: number,
  send: (item: Item) => Promise<PublishResult>,
): Promise<void> {
  const lanes = lanesOf(items)
  const faults = new Map<string, PublishFailure>()
  const work = async () => {
    for (let lane = lanes.shift(); lane !== undefined; lane = lanes.shift()) {
      let earlier: PublishFailure | undefined
      for (const item of lane) {
        const fault = faults.get(item.url)
        if (fault !== undefined) item.settle(notTried(item.shown, fault))
        else if (earlier !== undefined) item.settle(heldBack(item.shown, earlier))
        else {
          const result = await send(item)
          item.settle(result)
          if (result.ok) continue
          if (result.scope === 'destination') faults.set(item.url, result)
          // One that is never taken is not waited for.
          else if (result.permanent !== true) earlier = result
        }
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(concurrency, lanes.length) }, work))
}

function lanesOf<Item extends LaneItem>(items: readonly Item[]): Item[][] {
  const lanes: Item[][] = []
  const named = new Map<string, Item[]>()
  for (const item of items) {
    const lane = item.lane === undefined ? undefined : named.get(item.lane)
    if (lane !== undefined) {
      lane.push(item)
      continue
    }
    const opened = [item]
    lanes.push(opened)
    if (item.lane !== undefined) named.set(item.lane, opened)
  }
  return lanes
}
