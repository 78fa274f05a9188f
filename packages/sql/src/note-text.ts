import type { NotedRow } from './owned-claim.ts'

/** As it is stored: by state and destination, which are the same for most. */
type Noted = readonly (readonly [state: string, destination: string, seqs: readonly string[], attempts: readonly number[]])[]

/** What a relay has in hand, as a text for databases that have no arrays. */
export function noteText(rows: readonly NotedRow[]): string {
  const groups = new Map<string, [string, string, string[], number[]]>()
  for (const { state, destination, seq, attempts } of rows) {
    const name = `${state} ${destination}`
    const group = groups.get(name) ?? [state, destination, [], []]
    groups.set(name, group)
    group[2].push(seq)
    group[3].push(attempts)
  }
  return JSON.stringify([...groups.values()] satisfies Noted)
}

export function readNote(text: string): readonly NotedRow[] {
  // Nobody else writes them.
  const groups = JSON.parse(text) as Noted
  return groups.flatMap(([state, destination, seqs, attempts]) =>
    seqs.map((seq, index) => ({ state, destination, seq, attempts: attempts[index] ?? 0 })),
  )
}
