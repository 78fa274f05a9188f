import { testCrashPoints } from '@ackord/testkit/suites'
import { describe, it, vi } from 'vitest'
import { crashMatrix } from '../../../../scripts/test-depth.mjs'
import { crashService } from './crash/crash-program.ts'
import { crashWorld } from './crash/crash-world.ts'

vi.setConfig({ testTimeout: 60_000, maxConcurrency: 3 })

testCrashPoints(
  { describe, it: it.concurrent },
  { name: 'PostgreSQL (pg), batch handlers, and RabbitMQ', open: crashWorld(crashService(), { batches: true }), matrix: crashMatrix },
)
