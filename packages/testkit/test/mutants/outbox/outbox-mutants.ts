import type { OpenOutboxWorld } from '../../../src/suites/outbox/outbox-world.ts'
import type { Mutant } from '../../support/mutant.ts'
import { appendMutants } from './append-mutants.ts'
import { claimMutants } from './claim-mutants.ts'
import { codecMutants } from './codec-mutants.ts'
import { contentMutants } from './content-mutants.ts'
import { insightMutants } from './insight-mutants.ts'
import { listingMutants } from './listing-mutants.ts'
import { operatorMutants } from './operator-mutants.ts'

/** The in-memory outbox store with one defect each, and the scenario that must catch it. */
export const outboxMutants: readonly Mutant<OpenOutboxWorld>[] = [
  ...appendMutants,
  ...codecMutants,
  ...claimMutants,
  ...contentMutants,
  ...listingMutants,
  ...operatorMutants,
  ...insightMutants,
]
