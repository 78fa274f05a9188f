// @ts-check
// Draws docs/public/trace.svg from docs/trace.json. With --record it first runs the two processes of test/telemetry/traced-shop.ts, and updates that file:
//     node scripts/render-trace.mjs
//     scripts/services run --only postgres,rabbitmq,nats -- node scripts/render-trace.mjs --record
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { bundle } from './bundle.mjs'
import { drawTrace, toTrace } from './site/trace.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const recorded = join(root, 'docs/trace.json')

const { values } = parseArgs({ options: { record: { type: 'boolean', default: false } } })
if (values.record) {
  const trace = toTrace(await record(), new Date().toISOString().slice(0, 10))
  // Short lists in one line, as the formatter wants them.
  writeFileSync(recorded, `${JSON.stringify(trace, undefined, 2).replaceAll(/\[\s+([\d,\s]+?)\s+\]/g, '[$1]')}\n`)
}
writeFileSync(join(root, 'docs/public/trace.svg'), drawTrace(JSON.parse(readFileSync(recorded, 'utf8'))))

async function record() {
  // Below the folder whose packages the programs need.
  const folder = join(root, `test/.cache/trace-${process.pid}`)
  const [shop, recorder] = [join(folder, 'traced-shop.mjs'), join(folder, 'record-trace.mjs')]
  mkdirSync(folder, { recursive: true })
  try {
    await bundle(join(root, 'test/telemetry/traced-shop.ts'), shop)
    await bundle(join(root, 'scripts/site/record-trace.ts'), recorder)
    /** @type {{ recordTrace: typeof import('./site/record-trace.ts').recordTrace }} */
    const { recordTrace } = await import(pathToFileURL(recorder).href)
    return await recordTrace(shop)
  } finally {
    rmSync(folder, { recursive: true })
  }
}
