/** Runs the work once and resolves to its rate per second. The work reports how many items it processed, so that skipped work is not measured. */
export async function rateOf(count: number, work: () => Promise<number>): Promise<number> {
  const start = process.hrtime.bigint()
  const done = await work()
  const seconds = Number(process.hrtime.bigint() - start) / 1e9
  if (done !== count) throw new Error(`Expected ${count} processed items, got ${done}.`)
  return count / seconds
}

/** Runs the variants alternately, round after round, and resolves to the best rate of each: the least disturbed round. */
export async function runRounds<Name extends string>(
  variants: Record<Name, (count: number) => Promise<number>>,
  options: { readonly rounds: number; readonly count: number },
): Promise<Record<Name, number>> {
  const names = Object.keys(variants) as Name[]
  const rates = new Map<Name, number[]>(names.map((name) => [name, []]))
  for (let round = 0; round <= options.rounds; round += 1) {
    for (const name of names) {
      const rate = await variants[name](options.count)
      // The first round is a warm-up.
      if (round > 0) rates.get(name)?.push(rate)
    }
  }
  return Object.fromEntries(names.map((name) => [name, Math.max(...(rates.get(name) ?? []))])) as Record<Name, number>
}
