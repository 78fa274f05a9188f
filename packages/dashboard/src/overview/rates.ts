import type { OutboxRate } from '@ackord/outbox'

const minute = 60_000

/** One entry per destination and minute, the oldest first. With many relays there would be thousands, and the overview is sent every two seconds. */
export function mergeRates(rates: readonly OutboxRate[]): readonly OutboxRate[] {
  const merged = new Map<string, OutboxRate>()
  for (const rate of rates) {
    const key = JSON.stringify([Math.floor(rate.at / minute), rate.destination])
    const other = merged.get(key)
    merged.set(key, other === undefined ? rate : sum(rate, other))
  }
  return [...merged.values()].sort((one, other) => one.at - other.at)
}

function sum(one: OutboxRate, other: OutboxRate): OutboxRate {
  return {
    at: Math.max(one.at, other.at),
    duration: Math.max(one.duration, other.duration),
    destination: one.destination,
    published: one.published + other.published,
    failed: one.failed + other.failed,
    parked: one.parked + other.parked,
  }
}
