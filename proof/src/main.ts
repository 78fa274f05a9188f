import { parseArgs } from 'node:util'
import { Bounds } from './bounds.ts'
import { claims } from './claims.ts'
import { heldSnapshot } from './held-snapshot.ts'
import { load } from './load.ts'
import { memory } from './memory.ts'
import { relays } from './relays.ts'
import { sharedRowsInGroups } from './shared-rows.ts'
import { simulation } from './simulation.ts'

/** What takes too long for `make test`. Each gives its figures and tells the bounds that are broken. */
const proofs: Readonly<Record<string, (bounds: Bounds) => Promise<Record<string, unknown>>>> = {
  claims,
  snapshot: heldSnapshot,
  load,
  memory,
  relays,
  groups: sharedRowsInGroups,
  simulation,
}

const { positionals } = parseArgs({ allowPositionals: true })
const bounds = new Bounds()
const figures: Record<string, unknown> = {}
for (const name of positionals.length > 0 ? positionals : Object.keys(proofs)) {
  const proof = proofs[name]
  if (proof === undefined) throw new Error(`There is no proof '${name}'; there are ${Object.keys(proofs).join(', ')}.`)
  figures[name] = await proof(bounds)
}
console.log(JSON.stringify({ ...figures, broken: bounds.broken }))
process.exitCode = bounds.broken.length === 0 ? 0 : 1
