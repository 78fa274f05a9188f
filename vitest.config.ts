import { defineConfig } from 'vitest/config'

const conditions = ['@ackord/source', 'module', 'node', 'import', 'default']

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    include: ['packages/*/test/**/*.test.ts', 'scripts/test/**/*.test.ts', 'examples/*/test/**/*.test.ts'],
    typecheck: { enabled: true, include: ['packages/*/test/**/*.test-d.ts'], tsconfig: './tsconfig.test.json' },
    testTimeout: 20_000,
    // A focused test that slipped in would hide every other one.
    allowOnly: false,
  },
})
