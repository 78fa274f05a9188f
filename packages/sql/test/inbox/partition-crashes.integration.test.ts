import { testCrashPoints } from '@ackord/testkit/suites'
import { describe, it, vi } from 'vitest'
import { crashMatrix } from '../../../../scripts/test-depth.mjs'
import { crashService } from '../postgres/crash/crash-program.ts'
import { crashWorld } from '../postgres/crash/crash-world.ts'

vi.setConfig({ testTimeout: 60_000, maxConcurrency: 3 })

// `make test` has the same scenarios on an inbox without partitions; the inbox statement is the same. Only `make proof` runs this file (vitest.config.ts).
testCrashPoints(
  { describe, it: it.concurrent },
  { name: 'an inbox in partitions', open: crashWorld(crashService(), { partitions: true }), matrix: crashMatrix },
)
