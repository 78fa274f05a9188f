import { defineConfig } from 'vitest/config'

// Not `import`: vitest hands these to Node, and CommonJS packages would then get the ESM form of what they require.
const conditions = ['@ackord/source', 'module', 'node']

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    include: ['packages/*/test/**/*.test.ts', 'scripts/test/**/*.test.ts', 'examples/*/test/**/*.test.ts'],
    typecheck: { enabled: true, include: ['packages/*/test/**/*.test-d.ts'], tsconfig: './tsconfig.test.json' },
    // For a test that hangs; a busy machine takes its time.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // With two the run takes 13 minutes instead of 20, and the order suite on MariaDB, where databases and clocks are real, fails now and then.
    maxWorkers: 1,
    // What Redis is sent during the whole run must be known to 6.0.
    globalSetup: ['packages/redis/test/support/record-run.ts'],
    // A focused test that slipped in would hide every other one.
    allowOnly: false,
  },
})
