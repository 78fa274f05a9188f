import { defineConfig } from 'vitest/config'
import base, { matrixTests } from './vitest.config.ts'

export default defineConfig({
  ...base,
  test: { ...base.test, include: matrixTests, exclude: ['**/node_modules/**'], typecheck: { enabled: false } },
})
