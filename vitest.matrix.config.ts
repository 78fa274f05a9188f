import { defineConfig } from 'vitest/config'
import { matrixTests } from './scripts/test-selection.mjs'
import base from './vitest.config.ts'

export default defineConfig({
  ...base,
  test: { ...base.test, include: matrixTests, exclude: ['**/node_modules/**'], typecheck: { ...base.test?.typecheck, enabled: true } },
})
