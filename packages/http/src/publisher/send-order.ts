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

export interface BatchItem {
  readonly key: string | undefined
  readonly shown: string
  readonly settle: (result: PublishResult) => void
}

/**
 * Sends the items as one request, and settles each. A batch that fails, and not because of the destination, is halved until the message at fault is
 * alone, so that the others do not fail with it, whether it is refused for good or only for now. With n messages of which all fail that is up to 2n − 1
 * requests. Never rejects, and neither does `send`.
 */
export async function sendBatch<Item extends BatchItem>(
  items: readonly Item[],
  send: (items: readonly Item[]) => Promise<PublishResult>,
): Promise<void> {
  const parts: (readonly Item[])[] = [items]
  const failedKeys = new Map<string, PublishFailure>()
  let fault: PublishFailure | undefined
  for (let part = parts.shift(); part !== undefined; part = parts.shift()) {
    const tried: Item[] = []
    for (const item of part) {
      const earlier = item.key === undefined ? undefined : failedKeys.get(item.key)
      if (fault !== undefined) item.settle(notTried(item.shown, fault))
      else if (earlier !== undefined) item.settle(heldBack(item.shown, earlier))
      else tried.push(item)
    }
    if (tried.length === 0) continue
    const result = await send(tried)
    if (!result.ok && result.scope !== 'destination' && tried.length > 1) {
      const middle = Math.ceil(tried.length / 2)
      parts.unshift(tried.slice(0, middle), tried.slice(middle))
      continue
    }
    for (const item of tried) item.settle(result)
    if (result.ok || result.permanent === true) continue
    if (result.scope === 'destination') fault = result
    else for (const { key } of tried) if (key !== undefined) failedKeys.set(key, result)
  }
}
