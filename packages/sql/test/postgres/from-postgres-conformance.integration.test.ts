import { depthOfOtherClients } from '../../../../scripts/test-depth.mjs'
import { testConformance } from '../support/conformance.ts'
import { openPostgres } from './support/postgres-world.ts'

// The whole suites run on pg; with this client only in `make proof`.
testConformance('postgres.js', openPostgres, depthOfOtherClients)
