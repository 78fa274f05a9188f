// @ts-check
// docs/metrics.md is generated from the table of all metrics: `node scripts/docs-metrics.mjs` writes it, and a test compares it with the sources.
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { bundle } from './bundle.mjs'
import { root } from './docs-links.mjs'
import { metricsPage } from './site/metrics-page.mjs'

const file = join(root, `.cache/described-metrics-${process.pid}.mjs`)
try {
  await bundle(join(root, 'scripts/site/described-metrics.ts'), file)
  /** @type {typeof import('./site/described-metrics.ts')} */
  const { describedMetrics } = await import(pathToFileURL(file).href)
  writeFileSync(join(root, 'docs/metrics.md'), metricsPage(await describedMetrics()))
} finally {
  for (const each of [file, `${file}.map`]) rmSync(each, { force: true })
}
