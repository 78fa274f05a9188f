/** Milliseconds. A server that asks for more has made a mistake, and would stop its destination for good. */
const longest = 24 * 60 * 60 * 1000

/** What the header `Retry-After` asks for, in milliseconds from `now` on; `undefined` if it is missing or says nothing. */
export function parseRetryAfter(value: string | null, now: number): number | undefined {
  if (value === null) return undefined
  const text = value.trim()
  if (/^\d+$/.test(text)) return Math.min(Number(text) * 1000, longest)
  // Date.parse takes all kinds of texts for dates; HTTP's begin with the day of the week.
  const time = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)/.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(time) ? undefined : Math.min(Math.max(0, time - now), longest)
}

/** The header for a delay in milliseconds. It counts in seconds: rather late than early. */
export function formatRetryAfter(delay: number): string {
  return String(Math.ceil(delay / 1000))
}
