/** A broken implementation, and the scenario that must catch it. */
export interface Mutant<Open> {
  /** A description of the defect. */
  readonly name: string
  readonly caughtBy: string
  readonly open: Open
}

/** The mutants that one scenario must catch: `defects` maps the name of each defect to what `open` needs to create it. */
export function mutantsOf<Defect, Open>(
  caughtBy: string,
  defects: Readonly<Record<string, Defect>>,
  open: (defect: Defect) => Open,
): Mutant<Open>[] {
  return Object.entries(defects).map(([name, defect]) => ({ name, caughtBy, open: open(defect) }))
}
