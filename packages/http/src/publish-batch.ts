import type { PublishFailure, PublishResult } from '@ackord/core'
import { heldBack, notTried } from './publish-failures.ts'

export interface BatchItem {
  readonly key: string | undefined
  readonly shown: string
  readonly settle: (result: PublishResult) => void
}

/**
 * Sends the items as one request, and settles each. A batch that is refused because of a message in it is halved until that is alone, so that the
 * others are not refused with it. Never rejects, and neither does `send`.
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
    if (!result.ok && result.permanent === true && tried.length > 1) {
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
