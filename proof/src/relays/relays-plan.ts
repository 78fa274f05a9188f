/** What all processes of a run agree on. Removed at the end; and before, in case a run was killed. */
export const schema = 'ackord_proof_relays'
export const queue = `${schema}.events`
/** Milliseconds: the defaults of a relay. A killed relay loses its partitions after its lease. */
export const lease = 30_000
