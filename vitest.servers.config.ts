import { defineConfig } from 'vitest/config'
import { documentTests } from './scripts/test-selection.mjs'
import base from './vitest.config.ts'

/** With the tests of `make test-matrix`: on another version of a server, every client is of interest. */
export default defineConfig({ ...base, test: { ...base.test, exclude: ['**/node_modules/**', ...documentTests] } })
