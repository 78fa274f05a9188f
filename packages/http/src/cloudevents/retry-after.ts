/** Milliseconds. A longer delay is a mistake of the server, and would stop its destination for good. */
const maxDelay = 24 * 60 * 60 * 1000

/** The delay of a `Retry-After` header in milliseconds from `now` on; `undefined` if the header is missing or invalid. */
export function parseRetryAfter(value: string | null, now: number): number | undefined {
  if (value === null) return undefined
  const text = value.trim()
  if (/^\d+$/.test(text)) return Math.min(Number(text) * 1000, maxDelay)
  // Date.parse accepts many formats; dates of HTTP begin with the day of the week.
  const time = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)/.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(time) ? undefined : Math.min(Math.max(0, time - now), maxDelay)
}

/** The header for a delay in milliseconds. It is in whole seconds, rounded up. */
export function formatRetryAfter(delay: number): string {
  return String(Math.ceil(delay / 1000))
}
