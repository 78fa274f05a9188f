import { testConformance } from '../support/conformance.ts'
import { openPostgres } from './support/postgres-world.ts'

testConformance('postgres.js', openPostgres)
