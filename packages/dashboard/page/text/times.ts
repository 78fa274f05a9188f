const [second, minute, hour, day] = [1000, 60_000, 3_600_000, 86_400_000]

/** A duration in milliseconds in plain words: `850 ms`, `12 s`, `3 min`, `2 h`, `5 days`. Rounded down. */
export function duration(milliseconds: number): string {
  const value = Math.max(0, milliseconds)
  if (value < second) return `${Math.floor(value)} ms`
  if (value < minute) return `${Math.floor(value / second)} s`
  if (value < hour) return `${Math.floor(value / minute)} min`
  if (value < 2 * day) return `${Math.floor(value / hour)} h`
  return `${Math.floor(value / day)} days`
}

/** An instant relative to now: `3 min ago`, `in 2 h`. Less than a second is `now`. */
export function relativeTime(at: number, now: number): string {
  if (Math.abs(now - at) < second) return 'now'
  // Rounds up by 1 %: a pause that was just set to one hour ends in 1 h and not in 59 min.
  return at < now ? `${duration(now - at)} ago` : `in ${duration((at - now) * 1.01)}`
}

/** An instant to the millisecond, as in `2026-11-18 09:40:38.123 UTC`. */
export function exactTime(at: number): string {
  const date = new Date(at)
  if (Number.isNaN(date.getTime())) return 'unknown'
  return date.toISOString().replace('T', ' ').replace('Z', ' UTC')
}

/** The time of the day in the zone of the browser, as in `09:40`. */
export function clockTime(at: number): string {
  const date = new Date(at)
  return `${String(date.getHours()).padStart(2, '0')}:${String(date.getMinutes()).padStart(2, '0')}`
}
