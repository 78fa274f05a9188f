import { defineConfig } from 'vitest/config'
import base, { documentTests } from './vitest.config.ts'

export default defineConfig({
  ...base,
  test: { ...base.test, include: documentTests, exclude: ['**/node_modules/**'], typecheck: { enabled: false }, maxWorkers: 3 },
})
