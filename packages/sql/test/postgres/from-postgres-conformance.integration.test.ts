import { depthOfOtherClients } from '../../../../scripts/test-depth.mjs'
import { testConformance } from '../support/conformance.ts'
import { openPostgres } from './support/postgres-world.ts'

// The complete suites run on pg by default; on this client they run only in `make proof`.
testConformance('postgres.js', openPostgres, depthOfOtherClients)
