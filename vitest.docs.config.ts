import { defineConfig } from 'vitest/config'
import { documentTests } from './scripts/test-selection.mjs'
import base from './vitest.config.ts'

export default defineConfig({
  ...base,
  test: { ...base.test, include: documentTests, exclude: ['**/node_modules/**'], typecheck: { enabled: false }, maxWorkers: 3 },
})
