import { ratios } from './figures.ts'

/** Runs the work once and resolves to its rate per second. The work reports how many items it processed, so that skipped work is not measured. */
export async function rateOf(count: number, work: () => Promise<number>): Promise<number> {
  const start = process.hrtime.bigint()
  const done = await work()
  const seconds = Number(process.hrtime.bigint() - start) / 1e9
  if (done !== count) throw new Error(`Expected ${count} processed items, got ${done}.`)
  return count / seconds
}

/** The rates of some variants in the same rounds. */
export class Rounds<Name extends string> {
  readonly #rates: Readonly<Record<Name, readonly number[]>>

  constructor(rates: Readonly<Record<Name, readonly number[]>>) {
    this.#rates = rates
  }

  of(name: Name): readonly number[] {
    return this.#rates[name]
  }

  /** How many times faster the one was than the other, by round. */
  ratios(one: Name, other: Name): readonly number[] {
    return ratios(this.#rates[one], this.#rates[other])
  }
}

/** Runs the variants alternately, round after round, so that a busy minute of the machine affects all of them. The first round is a warm-up. */
export async function runRounds<Name extends string>(
  variants: Record<Name, (count: number) => Promise<number>>,
  options: { readonly rounds: number; readonly count: number },
): Promise<Rounds<Name>> {
  const names = Object.keys(variants) as Name[]
  const rates = Object.fromEntries(names.map((name) => [name, [] as number[]])) as Record<Name, number[]>
  for (let round = 0; round <= options.rounds; round += 1) {
    for (const name of names) {
      const rate = await variants[name](options.count)
      if (round > 0) rates[name].push(rate)
    }
  }
  return new Rounds(rates)
}
