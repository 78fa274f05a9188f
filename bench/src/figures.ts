/** The median, or the mean of the two values in the middle. */
function median(values: readonly number[]): number {
  const sorted = [...values].sort((one, other) => one - other)
  const middle = sorted.length >> 1
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2
}

/** The value below which `part` of all values are. */
export function percentile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((one, other) => one - other)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN
}

/** A figure measured in several rounds: its median, and the lowest and the highest round as its spread. */
export function spread(name: string, rounds: readonly number[]): Record<string, number> {
  return {
    [name]: rounded(name, median(rounds)),
    [`${name}_min`]: rounded(name, Math.min(...rounds)),
    [`${name}_max`]: rounded(name, Math.max(...rounds)),
  }
}

/** How much two figures differ, in each round: the two were measured within the same minute. */
export function ratios(rounds: readonly number[], baseline: readonly number[]): number[] {
  return rounds.map((value, round) => value / (baseline[round] ?? Number.NaN))
}

/** A table with a row per figure: its value, and its spread if it has one. */
export function figureRows(figures: Readonly<Record<string, unknown>>): Record<string, Record<string, unknown>> {
  const names = Object.keys(figures).filter((figure) => !/_(?:min|max)$/.test(figure))
  const rows = names.map((figure) => {
    const [min, max] = [figures[`${figure}_min`], figures[`${figure}_max`]]
    return [figure, { value: figures[figure], ...(min === undefined ? {} : { min, max }) }] as const
  })
  return Object.fromEntries(rows)
}

/** Rates and sizes as whole numbers, milliseconds and ratios with two decimals. */
function rounded(name: string, value: number): number {
  const digits = /_per_s$|_us$|_bytes$/.test(name) ? 1 : 100
  return Math.round(value * digits) / digits
}
