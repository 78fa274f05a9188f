import { type OpenCrashWorld, ResultTable } from '@ackord/testkit/suites'
import { afterAll } from 'vitest'
import { crashWorld as redisWorld } from '../../packages/redis/test/support/crash-world.ts'
import { crashWorld as mariadbWorld } from '../../packages/sql/test/mysql/crash/crash-world.ts'
import { crashWorld as postgresWorld } from '../../packages/sql/test/postgres/crash/crash-world.ts'
import { crashWorld as sqliteWorld } from '../../packages/sql/test/sqlite/crash/crash-world.ts'
import { isProof } from '../../scripts/test-depth.mjs'
import { registerFaults } from './register.ts'
import { workerProgram } from './workers/worker-program.ts'
import { type SuspendPoint, workerScenarios } from './workers/worker-scenarios.ts'

interface Subject {
  readonly name: string
  readonly open: OpenCrashWorld
  readonly suspendAt: readonly SuspendPoint[]
}

const results = new ResultTable()
const postgres = workerProgram(new URL('./workers/postgres-worker.ts', import.meta.url))
const redis = workerProgram(new URL('./workers/redis-worker.ts', import.meta.url))
// In SQL a handler has no lease: the transaction stays open as long as its connection, and another delivery of its message waits for it.
const always: readonly Subject[] = [
  {
    name: 'PostgreSQL (pg)',
    open: postgresWorld(postgres),
    suspendAt: ['relay.published'],
  },
  {
    name: 'Redis, exclusive, stream outbox',
    open: redisWorld(redis, 'exclusive'),
    suspendAt: ['relay.published', 'transaction.beforeCommit'],
  },
]
// These run only with ACKORD_PROOF.
const further: readonly Subject[] = [
  {
    name: 'PostgreSQL (pg), log mode',
    open: postgresWorld(postgres, { mode: 'log' }),
    suspendAt: ['relay.published'],
  },
  {
    name: 'MariaDB (mysql2)',
    open: mariadbWorld(workerProgram(new URL('./workers/mariadb-worker.ts', import.meta.url))),
    suspendAt: ['relay.published'],
  },
  {
    name: 'SQLite',
    open: sqliteWorld(workerProgram(new URL('./workers/sqlite-worker.ts', import.meta.url))),
    suspendAt: ['relay.published'],
  },
  {
    name: 'Redis, optimistic, stream outbox',
    open: redisWorld(redis, 'optimistic'),
    suspendAt: ['relay.published', 'transaction.beforeCommit'],
  },
  {
    name: 'Redis, exclusive, Lua outbox',
    open: redisWorld(redis, 'exclusive', 'lua'),
    suspendAt: ['relay.published', 'transaction.beforeCommit'],
  },
]

for (const { name, open, suspendAt } of isProof ? [...always, ...further] : always) {
  const until = isProof ? { milliseconds: 60_000 } : { kills: 5 }
  registerFaults({ suite: 'faults of workers', name, scenarios: workerScenarios({ until, suspendAt }), open, results })
}

afterAll(() => console.log(results.format()))
