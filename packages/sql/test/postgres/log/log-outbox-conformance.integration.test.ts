import { depthOfFirstClient } from '../../../../../scripts/test-depth.mjs'
import { testLogOutbox } from '../../support/conformance.ts'
import { openPg, type TestHandle } from '../../support/world.ts'

const run = async (handle: TestHandle, text: string, parameters: unknown[]) => (await handle.query(text, parameters)).rows

/**
 * Another relay claims nothing while the first one lives, because it owns the partitions; a record in flight is not marked as such in the table. The same scenarios do not hold with
 * order per key in table mode; those of the suite for order replace them.
 */
const ofOwners = [
  'the fixture does what it claims',
  'a claim stops before the record that would exceed its bytes, and leaves that record untouched',
  'a claim skips records that are leased to others and does not wait for them',
  'an attempt counts when a record is claimed, not when it is settled',
  'a claim can select records that have failed before, or records that have not',
  'renew extends the lease, counted from now',
  'renew of a lost claim returns false and does not affect the new owner',
  'a released record can be claimed immediately, and its attempt is not counted',
  'release of a lost claim does not affect the new owner',
  'acting on one claim of a batch does not affect the others',
  'settle accepts a mixed batch and answers for each outcome, in order',
  'settle with a stale token changes nothing',
  'cancelWaiting deletes delayed records and those that back off, and no others',
  'park stops ready and waiting records from being published, and changes no others',
  'a record that is parked before its first claim is not claimed, and the records around it are claimed once',
  'list filters by state, destination and type',
  'operators see the record and its message',
  'stats count each state of each destination',
  'the store behaves as the model in random histories, and every record ends claimable, published or parked',
]

/** Published records are kept with their part of the log, and go with it; and a limit of `stats()` counts for the log as a whole, not for each destination. */
const ofTheLog = [
  'deletePublished uses the time of the publish, not of the append',
  'deletePublished deletes no more records than its limit',
  'deletePublished never deletes unpublished records, however old',
  'stats with a limit count no further, and say so',
  // After its relay was lost, a record is behind those that are read from the log, unless it has a key.
  'the oldest age is that of the oldest record that is neither published nor parked',
]

// The other clients send the same statements.
testLogOutbox('pg, log mode', async () => ({ ...(await openPg()), run }), depthOfFirstClient, [...ofOwners, ...ofTheLog])
