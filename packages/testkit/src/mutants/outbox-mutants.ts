import type { Mutant } from '../run/scenario.ts'
import type { OpenOutboxWorld } from '../suites/outbox/outbox-world.ts'
import { appendMutants } from './append-mutants.ts'
import { claimMutants } from './claim-mutants.ts'
import { contentMutants } from './content-mutants.ts'
import { operatorMutants } from './operator-mutants.ts'

/** Broken stores, each with the scenario that must notice. */
export const outboxMutants: readonly Mutant<OpenOutboxWorld>[] = [...appendMutants, ...claimMutants, ...contentMutants, ...operatorMutants]
