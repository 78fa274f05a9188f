import { testConformance } from '../support/conformance.ts'
import { openPostgres } from './support/postgres-world.ts'

// The whole suites run on pg; with this client only in `make proof`.
const depth = process.env['ACKORD_PROOF'] === '1' ? 'whole' : 'basic'
testConformance('postgres.js', openPostgres, depth)
